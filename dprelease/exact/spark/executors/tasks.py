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

from dprelease.exact.arrow_numbers import array_of
from dprelease.exact.key_tables import arrow_of
from dprelease.exact.results.true_table import Integers
from dprelease.exact.results.vectors import MOST_ROWS
from dprelease.exact.results.vectors import batches as read
from dprelease.exact.shared_scan import fill
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.sums import Adding, add_up, by_table, row_of, rows_of_sums
from dprelease.exact.spark.executors.task_rows import Link, TaskRows, from_ipc_bytes
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.layers import JOINED, SOURCE
from dprelease.statements.scan import CompiledScan
from dprelease.version import __version__

Batches = Iterable[pa.RecordBatch]

ROWS_SEEN = -1
"""The number of a table of sums with one cell: the number of rows read."""


class TaskFailure(Exception):
    """A task failed; the reason is not reported."""


def versions() -> str:
    """Return the versions that must be the same on the driver and on every executor, as a text."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Python {python}, dprelease {__version__}, duckdb {duckdb.__version__}"


def report_versions(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the versions of an executor, for any input."""
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"versions": [versions()]})


def redact_failures(work: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the results of work; its exceptions lose their messages, which may quote a cell."""
    failed = False
    try:
        yield from work()
    except Exception:  # noqa: BLE001 - whatever it is, its message stays here
        failed = True
    if failed:
        raise TaskFailure(
            "a task of dprelease failed; its message is not shown, because it may contain data"
        )


@dataclass(frozen=True)
class Public:
    """Public data that the statements of tasks read.

    `key_tables`: values of text keys. `joined`: the rows of a joined public table, packed.
    """

    key_tables: tuple[KeyTable, ...] = ()
    joined: bytes | None = None

    def register_all(self, link: Link) -> None:
        """Register all of it."""
        for keys in self.key_tables:
            link.register(keys.name, arrow_of(keys))
        if self.joined is not None:
            link.register(JOINED, from_ipc_bytes(self.joined))


@dataclass(frozen=True)
class Reading:
    """How tasks read the rows of a table, with a DuckDB of limited access."""

    rows: TaskRows
    access: Access
    public: Public = field(default_factory=Public)

    @contextmanager
    def parts(self, batches: Batches) -> Iterator[tuple[Link, Iterator[None]]]:
        """Yield a connection, and parts of the rows of a task: each in turn is `dp_source`."""
        with task_link(self.access) as (link, folder):
            self.public.register_all(link)
            yield link, self.rows.parts(batches, link, folder, SOURCE)


@dataclass(frozen=True)
class Count:
    """Adds up the results of a statement over the parts of a task; `block`: see `rows_of_sums`."""

    reading: Reading
    sql: str
    block: int | None = None

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield rows of `SUMS`, of the table 0."""
        yield from redact_failures(lambda: self._count(batches))

    def _count(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with self.reading.parts(batches) as (link, parts):
            sums = Adding(link)
            for _ in parts:
                sums.add(link.sql(self.sql).to_arrow_table())
            yield from sums.result_rows(0, self.block)


@dataclass(frozen=True)
class FillJoint:
    """Fills the joint tables of a scan; their sums are numbered by their index."""

    reading: Reading
    scan: CompiledScan
    block: int | None = None

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield rows of `SUMS`, and the number of rows read."""
        yield from redact_failures(lambda: self._fill(batches))

    def _fill(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with self.reading.parts(batches) as (link, parts):
            seen = 0

            def stream() -> Iterator[pa.RecordBatch]:
                nonlocal seen
                for _ in parts:
                    for batch in read(link, self.scan.sql, self.scan.wide):
                        seen += len(batch)
                        yield batch

            filled = fill(stream(), self.scan.filled)
            if filled is None:
                seen = max(seen, MOST_ROWS + 1)
            yield row_of(ROWS_SEEN, 0, pa.table({"cell": [0], "m0": [seen]}))
            for place, (_, vectors) in enumerate(filled or ()):
                yield from rows_of_sums(place, _nonzero_cells(list(vectors.values())), self.block)


def _nonzero_cells(vectors: list[Integers]) -> pa.Table:
    """Return the cells in which a vector is not zero."""
    cells = np.flatnonzero(np.logical_or.reduce([vector != 0 for vector in vectors]))
    columns = {f"m{j}": array_of(vector[cells]) for j, vector in enumerate(vectors)}
    return pa.table({"cell": array_of(cells), **columns})


@dataclass(frozen=True)
class AddUp:
    """Adds up the sums of the same tables and blocks, all of which are in this task."""

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield rows of `SUMS`."""
        yield from redact_failures(lambda: self._add(batches))

    def _add(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with task_link(Access()) as (link, _):
            for number, tables in by_table(batches).items():
                yield row_of(number, number, add_up(link, tables))
