"""Limit the contributions of privacy units with ids: all rows of an id are in one task.

Spark groups the rows once for all tables that read them. The task then applies the contribution
limits of each table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dprelease.exact.arrow_numbers import to_arrow_array, to_numpy
from dprelease.exact.bounding import bounding_in_memory as bounding
from dprelease.exact.bounding.shared_rows import HeldRows
from dprelease.exact.results.vectors import fetch_batches as read
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.sums import rows_of_sums
from dprelease.exact.spark.executors.task_rows import Link, from_ipc_bytes, to_ipc_bytes
from dprelease.exact.spark.executors.tasks import Batches, PublicData, TaskReading, redact_failures
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query import quoting
from dprelease.statements.bounding import limited_rows_sql
from dprelease.statements.coded_rows import CompiledRows, TableColumns
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import KEPT_RELATION
from dprelease.statements.layers import JOINED, SOURCE

BUCKET_ROW_COLUMNS = "bucket int, kind int, content binary"
CODED_KIND = 2
"""The kind of coded rows; 0 and 1 are rows of the query's table and of the joined one."""

ROWS_RELATION, PART_RELATION, INSERTED_RELATION = "dp_rows", "dp_sent", "dp_given"
MOST_ROWS_IN_MEMORY = 2**22
"""Maximum coded rows of a task in memory; more are stored in its DuckDB."""

RELATIONS = (SOURCE, JOINED)
WIDE_INTEGER = "HUGEINT"


@dataclass(frozen=True)
class BucketRows:
    """Packs rows by the bucket of their unit; rows without a unit are left out.

    `sql`: a SELECT of the rows, over `dp_source`. `unit`: the SQL of a row's unit. `kind`: the kind
    of the rows; see `CODED_KIND`.
    """

    reading: TaskReading
    sql: str
    unit: str
    kind: int
    buckets: int

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield rows of `BUCKET_ROW_COLUMNS`."""
        yield from redact_failures(lambda: self._pack_by_bucket(batches))

    def _pack_by_bucket(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each bucket of ids, packed as bytes."""
        with self.reading.register_parts(batches) as (link, parts):
            # Equal texts are in the same bucket, whatever type the ids have, because all tasks use
            # the same version of DuckDB.
            bucket = f"CAST(hash(CAST({self.unit} AS VARCHAR)) % {self.buckets} AS USMALLINT)"
            rows = (
                f"SELECT {bucket} AS dp_bucket, * FROM ({self.sql}) WHERE {self.unit} IS NOT NULL"
            )
            for _ in parts:
                for batch in read(
                    link, _sendable_rows_sql(link, rows) if self.kind == CODED_KIND else rows
                ):
                    yield from self._packed_rows(batch)

    def _packed_rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        buckets = to_numpy(batch.column(0))
        order = np.argsort(
            buckets, kind="stable"
        )  # numpy sorts 16-bit integers by radix, which is fast
        ends = np.searchsorted(buckets[order], np.arange(self.buckets + 1))
        ordered = pa.Table.from_batches([batch]).remove_column(0).take(to_arrow_array(order))
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


def _sendable_rows_sql(link: Link, rows: str) -> str:
    """Return the rows with ids that Arrow supports: wider integers are sent as texts."""
    kinds = link.sql(f"SELECT * FROM ({rows}) LIMIT 0")
    wide = dict(zip(kinds.columns, map(str, kinds.types), strict=True)).get("id") == WIDE_INTEGER
    return f"SELECT * REPLACE (CAST(id AS VARCHAR) AS id) FROM ({rows})" if wide else rows


@dataclass(frozen=True, slots=True)
class TableTask:
    """A table whose rows are bounded by its own cells.

    `sql`: the statement of its sums, over `dp_kept`. `rows`: a SELECT of `id`, `cell` and `values`
    of the rows from which `dp_kept` is selected; empty if the sums are over the kept rows of all
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
    """Selects the rows within the limits of each unit, for several tables, and adds them up.

    `kinds`: for each kind of rows that are sent as stored, the engine's types of their columns.
    `held`: the SELECT of the rows that all tables share; None if the rows of each table are
    selected separately. `text`: whether ids are texts. `block`: the number of cells of a
    block, if the sums are sent in blocks; otherwise None.
    """

    public: PublicData
    kinds: tuple[Mapping[str, str], ...]
    tables: tuple[TableTask, ...]
    held: CompiledRows | None
    text: bool
    block: int | None = None

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the sums of all tables of the task, as rows of `SUMS_COLUMNS`."""
        yield from redact_failures(lambda: self._bound_tables(batches))

    def _bound_tables(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the sums of each table over the rows that are kept for each id."""
        with task_link(Access()) as (link, _):
            self.public.register_all(link)
            if not self._create_relations(batches, link):
                return
            held = None if self.held is None else HeldRows.read(link, self.held)
            for table in self.tables:
                self._create_kept_rows(link, table, held)
                yield from rows_of_sums(
                    table.number, link.sql(table.sql).to_arrow_table(), self.block
                )
                link.unregister(KEPT_RELATION)
                link.execute(f"DROP TABLE IF EXISTS {KEPT_RELATION}")

    def _create_kept_rows(self, link: Link, table: TableTask, held: HeldRows | None) -> None:
        """Create `dp_kept` with the rows that count, in memory if there is room."""
        PublicData(table.key_tables).register_all(link)
        if held is not None and table.columns is not None:
            link.register(
                KEPT_RELATION, held.select_rows(link, table.columns, table.unit, table.cells)
            )
        elif table.rows and not bounding.limit_contributions(
            link, table.rows, table.unit, table.cells
        ):
            link.execute(f"CREATE TEMP TABLE {KEPT_RELATION} AS {table.by_windows(text=self.text)}")

    def _create_relations(self, batches: Batches, link: Link) -> bool:
        """Create relations of the rows of the task; False if there are no rows."""
        for relation, physical in zip(RELATIONS, self.kinds, strict=False):
            columns = (f"{quoting.identifier(n)} {kind}" for n, kind in physical.items())
            link.execute(f"CREATE TEMP TABLE {relation} ({', '.join(columns)})")
        coded: list[pa.Table] = []
        seen = many = False
        for batch in batches:
            kinds = to_numpy(batch.column("kind")).tolist()
            for kind, content in zip(kinds, batch.column("content"), strict=True):
                seen, table = True, from_ipc_bytes(content.as_buffer())
                if kind == CODED_KIND:
                    coded.append(table)
                    if sum(map(len, coded)) > MOST_ROWS_IN_MEMORY:
                        coded, many = [self._store_rows(link, coded, many)], True
                else:
                    _insert(link, RELATIONS[kind], table)
        if many:
            self._store_rows(link, coded, many)
        elif coded:
            link.register(PART_RELATION, pa.concat_tables(coded))
        if coded:
            self._create_view(link, coded[0].schema.field("id").type)
        return seen

    def _store_rows(self, link: Link, coded: list[pa.Table], more: bool) -> pa.Table:
        """Store coded rows in a table of the engine, which may spill; return no rows."""
        empty = coded[0].slice(0, 0)
        if not more:
            link.register(INSERTED_RELATION, empty)
            link.execute(f"CREATE TEMP TABLE {PART_RELATION} AS SELECT * FROM {INSERTED_RELATION}")
            link.unregister(INSERTED_RELATION)
        _insert(link, PART_RELATION, pa.concat_tables(coded))
        return empty

    def _create_view(self, link: Link, ids: pa.DataType) -> None:
        """Create a relation of the coded rows."""
        wide = not self.text and pa.types.is_string(ids)
        columns = f"* REPLACE (CAST(id AS {WIDE_INTEGER}) AS id)" if wide else "*"
        link.execute(f"CREATE TEMP VIEW {ROWS_RELATION} AS SELECT {columns} FROM {PART_RELATION}")


def _insert(link: Link, relation: str, table: pa.Table) -> None:
    """Insert the rows of a table into a relation, column by column name."""
    link.register(INSERTED_RELATION, table)
    link.execute(f"INSERT INTO {relation} BY NAME SELECT * FROM {INSERTED_RELATION}")
    link.unregister(INSERTED_RELATION)
