"""Build the jobs of Spark: their tasks, the rows that tasks read, and who adds up their sums.

If privacy units have ids, rows are sent to the task of their privacy unit. The task that reads a
row converts its keys to codes, and sends the codes and the values. Rows of two joined tables about
people are sent as stored, because they are joined after they are grouped by privacy unit. Rows with
private keys are also sent as stored, because these keys are texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from dprelease.exact.spark.executors.sums import BLOCK_CELLS, SUMS_COLUMNS, group_by_table
from dprelease.exact.spark.executors.task_rows import select_list_sql
from dprelease.exact.spark.executors.tasks import (
    AddUpTask,
    CountTask,
    JointTablesTask,
    PublicData,
    TaskReading,
)
from dprelease.exact.spark.executors.unit_tasks import (
    BUCKET_ROW_COLUMNS,
    CODED_KIND,
    ROWS_RELATION,
    BoundRows,
    BucketRows,
    TableTask,
)
from dprelease.exact.spark.pieces import bucket_count, cores_of
from dprelease.exact.spark.spark_input import SparkSources, TaskInput
from dprelease.query.resolve import Query
from dprelease.query.scan_planning import SharedSource
from dprelease.statements.coded_rows import CompiledRows, CompiledScan, compile_rows
from dprelease.statements.layers import SOURCE, has_text_ids
from dprelease.statements.partial import PartialQuery, compile_partial

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_DRIVER_SUMS = 2**24
"""Maximum sums that the driver adds up; for more, each block of cells has a task."""


@dataclass(frozen=True)
class Sums:
    """Sums that tasks will compute.

    `frame`: a function that returns a Spark frame with the columns of `SUMS_COLUMNS`, which Spark
    computes later. `many`: whether the sums come in blocks of cells, which tasks add up instead of
    the driver. `tasks`: the number of tasks that add up blocks.
    """

    frame: Callable[[], DataFrame]
    many: bool
    tasks: int

    def collect(self) -> dict[int, list[pa.Table]]:
        """Return all sums by table, to be added up."""
        frame = self.frame()
        if self.many:
            frame = frame.repartitionById(self.tasks, "place").mapInArrow(
                AddUpTask().run, SUMS_COLUMNS
            )
        return group_by_table(frame.toArrow().to_batches())


def sums_of_statement(
    spark: SparkSession,
    at: TaskInput,
    public: PublicData,
    sql: str,
    numbers: int,
    block: int | None = None,
) -> Sums:
    """Return the sums of a statement over the rows of a table.

    `numbers`: the maximum number of sums. `block`: the number of cells of a block, if all sums must
    come in blocks; otherwise None.
    """
    many = numbers * at.tasks > MOST_DRIVER_SUMS
    task = CountTask(
        TaskReading(at.rows, at.access, public), sql, block or (BLOCK_CELLS if many else None)
    )
    return Sums(
        lambda: at.frame().mapInArrow(task.run, SUMS_COLUMNS),
        many,
        _count_adding_tasks(spark, numbers),
    )


def sums_of_joint_tables(
    spark: SparkSession, at: TaskInput, public: PublicData, scan: CompiledScan
) -> Sums:
    """Return the sums of the joint tables of a scan."""
    numbers = sum(joint.size * max(1, len(joint.joint.vectors)) for joint in scan.filled)
    many = numbers * at.tasks > MOST_DRIVER_SUMS
    task = JointTablesTask(
        TaskReading(at.rows, at.access, public), scan, BLOCK_CELLS if many else None
    )
    return Sums(
        lambda: at.frame().mapInArrow(task.run, SUMS_COLUMNS),
        many,
        _count_adding_tasks(spark, numbers),
    )


def _count_adding_tasks(spark: SparkSession, numbers: int) -> int:
    """Return the number of tasks that add up this many sums."""
    return max(1, min(4 * cores_of(spark), -(-numbers // BLOCK_CELLS)))


@dataclass(frozen=True)
class ShuffleRows:
    """Rows of a table that Spark groups by privacy unit.

    `at`: where tasks get the rows. `sql`: a SELECT of the columns to send; empty if rows are sent
    as stored. `unit`: the SQL of a row's privacy unit. `public`: public data that `sql` reads.
    `coded`: whether the sent rows hold codes of keys and values, instead of stored columns.
    """

    at: TaskInput
    sql: str
    unit: str
    public: PublicData = field(default_factory=PublicData)
    coded: bool = False


@dataclass(frozen=True)
class UnitJob:
    """A job for several tables, in which all rows of a privacy unit are sent to the same task.

    `sent`: the rows of the query's table, and the rows of the table that is joined by the privacy
    unit, if any. `held`: the SELECT of the rows that all tables share, if they share any. `public`:
    public data that the statements over the grouped rows read. `text`: whether ids are texts.
    """

    sent: tuple[ShuffleRows, ...]
    tables: tuple[TableTask, ...]
    held: CompiledRows | None
    public: PublicData
    text: bool

    def sums(self, spark: SparkSession, numbers: int, block: int | None = None) -> Sums:
        """Return the sums of all tables.

        `numbers`: the maximum number of sums. `block`: the number of cells of a block, if all sums
        must come in blocks; otherwise None.
        """
        cores = cores_of(spark)
        buckets = bucket_count(sum(one.at.number for one in self.sent), cores)
        many = numbers * buckets > MOST_DRIVER_SUMS
        size = block or (BLOCK_CELLS if many else None)
        kinds = tuple(dict(one.at.rows.physical) for one in self.sent if not one.coded)
        bound = BoundRows(self.public, kinds, self.tables, self.held, self.text, size)
        return Sums(
            lambda: self._partition_by_unit(buckets).mapInArrow(bound.run, SUMS_COLUMNS),
            many,
            _count_adding_tasks(spark, numbers),
        )

    def _partition_by_unit(self, buckets: int) -> DataFrame:
        """Return rows of `BUCKET_ROW_COLUMNS`; all rows of a unit are in one partition."""
        packed = []
        for place, one in enumerate(self.sent):
            reading = TaskReading(one.at.rows, one.at.access, one.public)
            sql = one.sql or f"SELECT {select_list_sql(one.at.rows.physical)} FROM {SOURCE}"
            task = BucketRows(reading, sql, one.unit, CODED_KIND if one.coded else place, buckets)
            packed.append(one.at.frame().mapInArrow(task.run, BUCKET_ROW_COLUMNS))
        rows = reduce(lambda left, right: left.unionAll(right), packed)
        return rows.repartitionById(buckets, "bucket")


def plan_unit_job(
    sources: SparkSources, queries: Sequence[Query]
) -> tuple[list[PartialQuery], UnitJob]:
    """Return the statements of queries that share their rows, and the job for all their sums.

    Their tables are numbered by the index of the query.
    """
    if queries[0].private is not None or queries[0].finest is not None:
        return plan_stored_rows_job(sources, queries)
    group = SharedSource()
    for query in queries:
        group.add(query)
    combined_query = group.query(m for query in group.queries for m in query.measurements)
    at = sources.locate_inputs(combined_query)
    types = sources.types(at)
    partials = [compile_partial(query, *types, bounded=True) for query in group.queries]
    compiled = compile_rows(group, *types)
    public = sources.public_data(combined_query, compiled.key_tables)
    if len(at) > 1:
        held, sent = compiled, _stored_inputs(sources, combined_query, at)
    else:
        # The tasks that read the rows have looked up their keys, so that the tasks that limit
        # contributions get codes alone.
        held = replace(compiled, sql=f"SELECT * FROM {ROWS_RELATION}", key_tables=())
        sent = (ShuffleRows(at[0], compiled.sql, "id", public, coded=True),)
        public = PublicData()
    tables = [
        _table_task(number, query, held, partial)
        for number, (query, partial) in enumerate(zip(group.queries, partials, strict=True))
    ]
    return partials, UnitJob(sent, tuple(tables), held, public, has_text_ids(combined_query))


def plan_stored_rows_job(
    sources: SparkSources, queries: Sequence[Query]
) -> tuple[list[PartialQuery], UnitJob]:
    """Return statements and job of one query with private keys, or of the tables of one family.

    Each table of a family bounds the same rows, by the finest cells.
    """
    at = sources.locate_inputs(queries[0])
    types = sources.types(at)
    partials = [compile_partial(query, *types, bounded=True) for query in queries]
    tables = [
        TableTask(
            number, query.unit, (query.finest or query.keys).size, _value_columns(query),
            partial.all_rows_sql, partial.sql, key_tables=partial.key_tables,
        )
        for number, (query, partial) in enumerate(zip(queries, partials, strict=True))
    ]  # fmt: skip
    return partials, job_over_stored_rows(sources, queries[0], at, tables)


def job_over_stored_rows(
    sources: SparkSources,
    query: Query,
    at: Sequence[TaskInput],
    tables: Sequence[TableTask],
) -> UnitJob:
    """Return the job of tables over the rows of units as they are stored."""
    public = sources.public_data(query, ())
    return UnitJob(
        _stored_inputs(sources, query, at), tuple(tables), None, public, has_text_ids(query)
    )


def _value_columns(query: Query) -> tuple[str, ...]:
    return tuple(f"v{j}" for j, m in enumerate(query.measurements) if m.aggregate.reads_values)


def _stored_inputs(
    sources: SparkSources, query: Query, at: Sequence[TaskInput]
) -> tuple[ShuffleRows, ...]:
    """Return the rows that each input sends to the shuffle, with the SQL that selects them."""
    return tuple(
        ShuffleRows(one, "", sources.unit_sql(query, place, dict(one.rows.physical)))
        for place, one in enumerate(at)
    )


def _table_task(number: int, query: Query, held: CompiledRows, partial: PartialQuery) -> TableTask:
    """Return the task that bounds the rows of one query and sums them."""
    columns = held.columns[query.name]
    values = "".join(f", r{place} AS {name}" for name, place in columns.values)
    rows = (
        f"SELECT id, r{columns.cells} AS cell{values} FROM ({held.sql}) "
        f"WHERE r{columns.cells} IS NOT NULL"
    )
    names = tuple(name for name, _ in columns.values)
    return TableTask(number, query.unit, query.keys.size, names, rows, partial.sql, columns)
