"""Define the tasks of executors: they type, bound and count rows by the statements of a query.

A task draws no noise and its result depends only on its rows, so a task that is repeated, or run
twice at the same time, has the same result. No error message of an engine leaves a task, because
Spark would write the message to its logs, and the message may quote a cell.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from dprelease.exact.arrow_numbers import to_arrow_array
from dprelease.exact.key_tables import to_arrow_table
from dprelease.exact.results.true_table import Integers
from dprelease.exact.results.vectors import MOST_ROWS
from dprelease.exact.results.vectors import fetch_batches as read
from dprelease.exact.shared_scan import fill_joint_tables
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.sums import (
    SumCollector,
    add_up,
    group_by_table,
    rows_of_sums,
    sums_row,
)
from dprelease.exact.spark.executors.task_rows import Link, TaskRows, from_ipc_bytes
from dprelease.statements.coded_rows import CompiledScan
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.layers import JOINED, SOURCE
from dprelease.version import __version__

Batches = Iterable[pa.RecordBatch]

ROWS_SEEN = -1
"""The number of a table of sums with one cell: the number of rows read."""


class TaskFailure(Exception):
    """A task failed; the reason is not reported."""


def version_text() -> str:
    """Return the versions that must be the same on the driver and on every executor, as a text."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Python {python}, dprelease {__version__}, duckdb {duckdb.__version__}"


def report_versions(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the versions of an executor, for any input."""
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"versions": [version_text()]})


def redact_failures(work: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the results of work; its exceptions lose their messages, which may quote a cell."""
    failed = False
    try:
        yield from work()
    except Exception:  # noqa: BLE001 - whatever it is, its message stays here
        failed = True
    # Not inside of `except`, whose exception would stay the context of this one.
    if failed:
        raise TaskFailure(
            "a task of dprelease failed; its message is not shown, because it may contain data"
        )


@dataclass(frozen=True)
class PublicData:
    """Public data that the statements of tasks read.

    `key_tables`: values of text keys. `joined`: the rows of a joined public table, packed.
    """

    key_tables: tuple[KeyTable, ...] = ()
    joined: bytes | None = None

    def register_all(self, link: Link) -> None:
        """Register the key tables and the joined table on a connection."""
        for keys in self.key_tables:
            link.register(keys.name, to_arrow_table(keys))
        if self.joined is not None:
            link.register(JOINED, from_ipc_bytes(self.joined))


@dataclass(frozen=True)
class TaskReading:
    """How tasks read the rows of a table, with a DuckDB of limited access."""

    rows: TaskRows
    access: Access
    public: PublicData = field(default_factory=PublicData)

    @contextmanager
    def register_parts(self, batches: Batches) -> Iterator[tuple[Link, Iterator[None]]]:
        """Yield a connection, and an iterator over parts of the task's rows.

        While a part is current, the relation `dp_source` has the rows of this part.
        """
        with task_link(self.access) as (link, folder):
            self.public.register_all(link)
            yield link, self.rows.register_parts(batches, link, folder, SOURCE)


@dataclass(frozen=True)
class CountTask:
    """Adds up the results of a statement over the parts of a task.

    `block`: the number of cells of a block, if the sums are sent in blocks; otherwise None.
    """

    reading: TaskReading
    sql: str
    block: int | None = None

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the sums of the statement, as rows of `SUMS_COLUMNS` of the table 0."""
        yield from redact_failures(lambda: self._count_parts(batches))

    def _count_parts(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with self.reading.register_parts(batches) as (link, parts):
            sums = SumCollector(link)
            for _ in parts:
                sums.add(link.sql(self.sql).to_arrow_table())
            yield from sums.result_rows(0, self.block)


@dataclass(frozen=True)
class JointTablesTask:
    """Fills the joint tables of a scan; their sums are numbered by their index."""

    reading: TaskReading
    scan: CompiledScan
    block: int | None = None

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the sums of all joint tables, and the number of rows that were read."""
        yield from redact_failures(lambda: self._fill_tables(batches))

    def _fill_tables(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with self.reading.register_parts(batches) as (link, parts):
            seen = 0

            def stream() -> Iterator[pa.RecordBatch]:
                """Yield the rows of all parts in batches, and count them."""
                nonlocal seen
                for _ in parts:
                    for batch in read(link, self.scan.sql, self.scan.wide):
                        seen += len(batch)
                        yield batch

            filled = fill_joint_tables(stream(), self.scan.filled)
            if filled is None:
                # Sums of this task alone may not fit; the driver recognizes this by so many rows.
                seen = max(seen, MOST_ROWS + 1)
            yield sums_row(ROWS_SEEN, 0, pa.table({"cell": [0], "m0": [seen]}))
            for place, (_, vectors) in enumerate(filled or ()):
                yield from rows_of_sums(place, _nonzero_cells(list(vectors.values())), self.block)


def _nonzero_cells(vectors: list[Integers]) -> pa.Table:
    """Return the cells in which a vector is not zero."""
    cells = np.flatnonzero(np.logical_or.reduce([vector != 0 for vector in vectors]))
    columns = {f"m{j}": to_arrow_array(vector[cells]) for j, vector in enumerate(vectors)}
    return pa.table({"cell": to_arrow_array(cells), **columns})


@dataclass(frozen=True)
class AddUpTask:
    """Adds up the sums of the same tables and blocks, all of which are in this task."""

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield one row of `SUMS_COLUMNS` for each table, with its total sums."""
        yield from redact_failures(lambda: self._add_sums(batches))

    def _add_sums(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield one row for each table with the sums of all its parts."""
        with task_link(Access()) as (link, _):
            for number, tables in group_by_table(batches).items():
                yield sums_row(number, number, add_up(link, tables))
