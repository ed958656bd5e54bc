"""Bound the contributions of units with ids: all rows of an id are in one task.

Rows are brought together once for all tables that read them; each table has its own limits there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dprelease.exact.arrow_numbers import array_of, numbers_of
from dprelease.exact.bounding import bounding_in_memory as bounding
from dprelease.exact.bounding.shared_rows import HeldRows
from dprelease.exact.results.vectors import batches as read
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.sums import rows_of_sums
from dprelease.exact.spark.executors.task_rows import Link, from_ipc_bytes, to_ipc_bytes
from dprelease.exact.spark.executors.tasks import Batches, Public, Reading, redact_failures
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query import quoting
from dprelease.statements.bounding import limited_rows_sql
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import KEPT
from dprelease.statements.layers import JOINED, SOURCE
from dprelease.statements.rows_of_ids import CompiledRows, TableColumns

SPREAD = "bucket int, kind int, content binary"
CODED = 2
"""The kind of coded rows; 0 and 1 are rows of the query's table and of the joined one."""

ROWS, PART, GIVEN = "dp_rows", "dp_sent", "dp_given"
MANY = 2**22
"""Maximum coded rows of a task in memory; more are stored in its DuckDB."""

RELATIONS = (SOURCE, JOINED)
WIDE = "HUGEINT"


@dataclass(frozen=True)
class BucketRows:
    """Packs rows by the bucket of their unit; rows without a unit are left out.

    `sql`: a SELECT of the rows, over `dp_source`. `unit`: the SQL of a row's unit. `kind`: the kind
    of the rows; see `CODED`.
    """

    reading: Reading
    sql: str
    unit: str
    kind: int
    buckets: int

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield rows of `SPREAD`."""
        yield from redact_failures(lambda: self._spread(batches))

    def _spread(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with self.reading.parts(batches) as (link, parts):
            # Equal texts are in the same bucket, whatever type the ids have, because all tasks use
            # the same version of DuckDB.
            bucket = f"CAST(hash(CAST({self.unit} AS VARCHAR)) % {self.buckets} AS USMALLINT)"
            rows = (
                f"SELECT {bucket} AS dp_bucket, * FROM ({self.sql}) WHERE {self.unit} IS NOT NULL"
            )
            for _ in parts:
                for batch in read(link, _sendable(link, rows) if self.kind == CODED else rows):
                    yield from self._packs(batch)

    def _packs(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        buckets = numbers_of(batch.column(0))
        order = np.argsort(
            buckets, kind="stable"
        )  # numpy sorts 16-bit integers by radix, which is fast
        ends = np.searchsorted(buckets[order], np.arange(self.buckets + 1))
        ordered = pa.Table.from_batches([batch]).remove_column(0).take(array_of(order))
        found = [
            (bucket, to_ipc_bytes(ordered.slice(start, end - start)))
            for bucket, (start, end) in enumerate(itertools.pairwise(ends.tolist()))
            if end > start
        ]
        if found:
            numbers, contents = zip(*found, strict=True)
            columns = {
                "bucket": pa.array(numbers, pa.int32()),
                "kind": pa.array([self.kind] * len(found), pa.int32()),
                "content": pa.array(contents, pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(columns)


def _sendable(link: Link, rows: str) -> str:
    """Return the rows with ids that Arrow supports: wider integers are sent as texts."""
    kinds = link.sql(f"SELECT * FROM ({rows}) LIMIT 0")
    wide = dict(zip(kinds.columns, map(str, kinds.types), strict=True)).get("id") == WIDE
    return f"SELECT * REPLACE (CAST(id AS VARCHAR) AS id) FROM ({rows})" if wide else rows


@dataclass(frozen=True, slots=True)
class TableTask:
    """A table whose rows are bounded by its own cells.

    `sql`: the statement of its sums, over `dp_kept`. `rows`: a SELECT of `id`, `cell` and `values`,
    from whose rows the kept ones are selected; empty if the sums are over the kept rows of all
    tables. `columns`: the indices of `cell` and `values` in the rows of all tables. `key_tables`:
    the tables of keys that `rows` and `sql` read.
    """

    number: int
    unit: PrivacyUnit
    cells: int
    values: tuple[str, ...]
    rows: str
    sql: str
    columns: TableColumns | None = None
    key_tables: tuple[KeyTable, ...] = ()

    def by_windows(self, *, text: bool) -> str:
        """Return the selected rows as a SELECT with window functions, for the engine."""
        return limited_rows_sql(self.rows, self.unit, self.values, self.cells, text=text)


@dataclass(frozen=True)
class BoundRows:
    """Bounds the rows of the units of a task for several tables, and adds up the selected ones.

    `kinds`: the engine's types of rows that are sent as stored, by kind. `held`: the rows of all
    tables, over `ROWS` or over rows as stored; None if tables are bounded separately. `text`:
    whether ids are texts. `block`: see `rows_of_sums`.
    """

    public: Public
    kinds: tuple[Mapping[str, str], ...]
    tables: tuple[TableTask, ...]
    held: CompiledRows | None
    text: bool
    block: int | None = None

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield rows of `SUMS`."""
        yield from redact_failures(lambda: self._bound(batches))

    def _bound(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with task_link(Access()) as (link, _):
            self.public.register_all(link)
            if not self._gather(batches, link):
                return
            held = None if self.held is None else HeldRows.read(link, self.held)
            for table in self.tables:
                self._keep(link, table, held)
                yield from rows_of_sums(
                    table.number, link.sql(table.sql).to_arrow_table(), self.block
                )
                link.unregister(KEPT)
                link.execute(f"DROP TABLE IF EXISTS {KEPT}")

    def _keep(self, link: Link, table: TableTask, held: HeldRows | None) -> None:
        """Create `dp_kept` with the rows that count, in memory if there is room."""
        Public(table.key_tables).register_all(link)
        if held is not None and table.columns is not None:
            link.register(KEPT, held.select_rows(link, table.columns, table.unit, table.cells))
        elif table.rows and not bounding.limit_contributions(
            link, table.rows, table.unit, table.cells
        ):
            link.execute(f"CREATE TEMP TABLE {KEPT} AS {table.by_windows(text=self.text)}")

    def _gather(self, batches: Batches, link: Link) -> bool:
        """Create relations of the rows of the task; False if there are no rows."""
        for relation, physical in zip(RELATIONS, self.kinds, strict=False):
            columns = (f"{quoting.identifier(n)} {kind}" for n, kind in physical.items())
            link.execute(f"CREATE TEMP TABLE {relation} ({', '.join(columns)})")
        coded: list[pa.Table] = []
        seen = many = False
        for batch in batches:
            kinds = numbers_of(batch.column("kind")).tolist()
            for kind, content in zip(kinds, batch.column("content"), strict=True):
                seen, table = True, from_ipc_bytes(content.as_buffer())
                if kind == CODED:
                    coded.append(table)
                    if sum(map(len, coded)) > MANY:
                        coded, many = [self._store_rows(link, coded, many)], True
                else:
                    _insert(link, RELATIONS[kind], table)
        if many:
            self._store_rows(link, coded, many)
        elif coded:
            link.register(PART, pa.concat_tables(coded))
        if coded:
            self._create_view(link, coded[0].schema.field("id").type)
        return seen

    def _store_rows(self, link: Link, coded: list[pa.Table], more: bool) -> pa.Table:
        """Store coded rows in a table of the engine, which may spill; return no rows."""
        empty = coded[0].slice(0, 0)
        if not more:
            link.register(GIVEN, empty)
            link.execute(f"CREATE TEMP TABLE {PART} AS SELECT * FROM {GIVEN}")
            link.unregister(GIVEN)
        _insert(link, PART, pa.concat_tables(coded))
        return empty

    def _create_view(self, link: Link, ids: pa.DataType) -> None:
        """Create a relation of the coded rows."""
        wide = not self.text and pa.types.is_string(ids)
        columns = f"* REPLACE (CAST(id AS {WIDE}) AS id)" if wide else "*"
        link.execute(f"CREATE TEMP VIEW {ROWS} AS SELECT {columns} FROM {PART}")


def _insert(link: Link, relation: str, table: pa.Table) -> None:
    link.register(GIVEN, table)
    link.execute(f"INSERT INTO {relation} BY NAME SELECT * FROM {GIVEN}")
    link.unregister(GIVEN)
