"""What the executors do: rows are typed, bounded and counted by the statements of a query.

A task draws nothing and its answer depends on its rows alone, so one that is lost and done again,
or done twice at the same time, answers the same. No words of an engine leave it: Spark would write
them into its logs, and they may quote a cell.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from dprelease.exact.spark.link import private_link
from dprelease.exact.spark.task_rows import Rows, packed
from dprelease.exact.true_table import Integers
from dprelease.query import quoting
from dprelease.statements.compiler import KeyTable
from dprelease.statements.layers import JOINED, SOURCE
from dprelease.version import __version__


class TaskFailure(Exception):
    """A task failed; nothing of why is told."""


def versions() -> str:
    """Return what has to be the same on the driver and on every executor."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Python {python}, dprelease {__version__}, duckdb {duckdb.__version__}"


def report_versions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the versions of an executor, whatever comes in."""
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"versions": [versions()]})


def silenced(work: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield what work yields; its failures lose their words, which may quote a cell."""
    failed = False
    try:
        yield from work()
    except Exception:  # noqa: BLE001 - whatever it is, its words stay here
        failed = True
    if failed:
        raise TaskFailure("a task of dprelease failed; why is not told, as it may quote a cell")


@dataclass(frozen=True)
class Spread:
    """Packs rows by the bucket of their unit; rows without a unit are left out.

    `unit`: the SQL of a row's unit, `table` 0 for the asked table and 1 for the joined one.
    """

    rows: Rows
    unit: str
    table: int
    buckets: int

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows (bucket, kind, content)."""
        yield from silenced(lambda: self._spread(batches))

    def _spread(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with private_link() as (link, folder):
            for table in self.rows.tables(batches, link, folder):
                link.register("dp_rows", table)
                # The same text is in the same bucket, in whatever version or task.
                sql = (
                    f"SELECT coalesce(md5_number_lower(CAST({self.unit} AS VARCHAR)) "
                    f"% {self.buckets}, {self.buckets})::BIGINT AS bucket FROM dp_rows"
                )
                buckets = link.execute(sql).fetchnumpy()["bucket"]
                link.unregister("dp_rows")
                yield from self._packs(table, np.asarray(buckets, dtype=np.int64))

    def _packs(self, table: pa.Table, buckets: Integers) -> Iterator[pa.RecordBatch]:
        order = np.argsort(buckets, kind="stable")
        sorted_ = table.take(pa.array(order))
        ends = np.searchsorted(buckets[order], np.arange(self.buckets + 1))
        for bucket, (start, end) in enumerate(itertools.pairwise(ends)):
            if end > start:
                content = packed(sorted_.slice(start, end - start).combine_chunks())
                columns = {
                    "bucket": pa.array([bucket], pa.int32()),
                    "kind": pa.array([self.table], pa.int32()),
                    "content": pa.array([content], pa.binary()),
                }
                yield pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class Count:
    """Runs a statement over the rows of a task.

    `schema`: the Arrow schema of what it yields. `whole`: the rows of these tables come packed, and
    are counted all at once, for units must not be torn apart. `public`: the rows of a joined public
    table, packed.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    rows: Rows
    schema: pa.Schema
    whole: tuple[Rows, ...] = ()
    public: bytes | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the statement."""
        yield from silenced(lambda: self._count(batches))

    def _count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with private_link() as (link, folder):
            for keys in self.key_tables:
                codes = np.arange(len(keys.values))
                values = pa.array(list(keys.values), pa.string())
                link.register(keys.name, pa.table({"code": codes, "value": values}))
            if self.public is not None:
                link.register(JOINED, pa.ipc.open_stream(self.public).read_all())
            if self.whole:
                yield from self._over_all(batches, link)
                return
            for table in self.rows.tables(batches, link, folder):
                link.register(SOURCE, table)
                yield from self._answers(link)
                link.unregister(SOURCE)

    def _over_all(
        self, batches: Iterable[pa.RecordBatch], link: duckdb.DuckDBPyConnection
    ) -> Iterator[pa.RecordBatch]:
        for relation, rows in zip((SOURCE, JOINED), self.whole, strict=False):
            columns = ", ".join(
                f"{quoting.identifier(name)} {kind}" for name, kind in rows.physical.items()
            )
            link.execute(f"CREATE TEMP TABLE {relation} ({columns})")
        seen = False
        for batch in batches:
            for kind, content in zip(batch.column("kind"), batch.column("content"), strict=True):
                link.register("dp_rows", pa.ipc.open_stream(content.as_buffer()).read_all())
                relation = (SOURCE, JOINED)[kind.as_py()]
                link.execute(f"INSERT INTO {relation} BY NAME SELECT * FROM dp_rows")
                seen = True
        if seen:
            yield from self._answers(link)

    def _answers(self, link: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
        names = ", ".join(quoting.identifier(name) for name in self.schema.names)
        reader = link.sql(f"SELECT {names} FROM ({self.sql})").to_arrow_reader(2**16)
        for batch in reader:
            yield pa.RecordBatch.from_arrays(
                [
                    column.cast(kind)
                    for column, kind in zip(batch.columns, self.schema.types, strict=True)
                ],
                schema=self.schema,
            )
