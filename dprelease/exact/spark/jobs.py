"""Build the jobs of Spark: their tasks, the rows of the tasks, and where sums are added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from dprelease.exact.spark.executors.sums import BLOCK, SUMS, by_table
from dprelease.exact.spark.executors.task_rows import columns_of
from dprelease.exact.spark.executors.tasks import AddUp, Count, FillJoint, Public, Reading
from dprelease.exact.spark.executors.unit_tasks import (
    CODED,
    SPREAD,
    BoundRows,
    BucketRows,
    TableTask,
)
from dprelease.exact.spark.pieces import buckets_of, cores_of
from dprelease.exact.spark.spark_input import TaskInput
from dprelease.statements.layers import SOURCE
from dprelease.statements.rows_of_ids import CompiledRows
from dprelease.statements.scan import CompiledScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT_DRIVER = 2**24
"""Maximum sums that the driver adds up; for more, each block of cells has a task."""


@dataclass(frozen=True)
class Sums:
    """Sums that tasks will compute.

    `frame`: returns a frame of rows of `SUMS`, which is computed later. `many`: whether the sums
    come in blocks of cells, which tasks add up and not the driver. `tasks`: the number of these
    tasks.
    """

    frame: Callable[[], DataFrame]
    many: bool
    tasks: int

    def collect(self) -> dict[int, list[pa.Table]]:
        """Return all sums by table, to be added up."""
        frame = self.frame()
        if self.many:
            frame = frame.repartitionById(self.tasks, "place").mapInArrow(AddUp().run, SUMS)
        return by_table(frame.toArrow().to_batches())


def sums_of_statement(
    spark: SparkSession,
    at: TaskInput,
    public: Public,
    sql: str,
    numbers: int,
    block: int | None = None,
) -> Sums:
    """Return the sums of a statement over the rows of a table, at most this many.

    `block`: cells of a block, if all sums are to come in blocks.
    """
    many = numbers * at.tasks > AT_DRIVER
    task = Count(Reading(at.rows, at.access, public), sql, block or (BLOCK if many else None))
    return Sums(lambda: at.frame().mapInArrow(task.run, SUMS), many, _adding(spark, numbers))


def sums_of_joint_tables(
    spark: SparkSession, at: TaskInput, public: Public, scan: CompiledScan
) -> Sums:
    """Return the numbers of joint tables."""
    numbers = sum(joint.size * max(1, len(joint.joint.vectors)) for joint in scan.filled)
    many = numbers * at.tasks > AT_DRIVER
    task = FillJoint(Reading(at.rows, at.access, public), scan, BLOCK if many else None)
    return Sums(lambda: at.frame().mapInArrow(task.run, SUMS), many, _adding(spark, numbers))


def _adding(spark: SparkSession, numbers: int) -> int:
    """Return the number of tasks that add up this many sums."""
    return max(1, min(4 * cores_of(spark), -(-numbers // BLOCK)))


@dataclass(frozen=True)
class ShuffleRows:
    """Rows of a table to be grouped by unit: the columns to send, and the SQL of the unit.

    `sql`: a SELECT of the rows; empty for rows as stored. `unit`: the SQL of a row's unit.
    `public`: public data that `sql` reads. `coded`: whether rows are codes of keys, and values.
    """

    at: TaskInput
    sql: str
    unit: str
    public: Public = field(default_factory=Public)
    coded: bool = False


@dataclass(frozen=True)
class UnitJob:
    """A job for several tables, in which all rows of a unit are sent to the same task.

    `sent`: the rows of the query's table, and those of a table that is joined to it by units.
    `held`: see `BoundRows`. `public`: public data that the statements over the grouped rows read.
    `text`: whether ids are texts.
    """

    sent: tuple[ShuffleRows, ...]
    tables: tuple[TableTask, ...]
    held: CompiledRows | None
    public: Public
    text: bool

    def sums(self, spark: SparkSession, numbers: int, block: int | None = None) -> Sums:
        """Return the sums of all tables, at most this many; `block` as in `sums_of_statement`."""
        cores = cores_of(spark)
        buckets = buckets_of(sum(one.at.number for one in self.sent), cores)
        many = numbers * buckets > AT_DRIVER
        size = block or (BLOCK if many else None)
        kinds = tuple(dict(one.at.rows.physical) for one in self.sent if not one.coded)
        bound = BoundRows(self.public, kinds, self.tables, self.held, self.text, size)
        return Sums(
            lambda: self._partition_by_unit(buckets).mapInArrow(bound.run, SUMS),
            many,
            _adding(spark, numbers),
        )

    def _partition_by_unit(self, buckets: int) -> DataFrame:
        """Return rows of `SPREAD`, those of a unit in one partition."""
        packed = []
        for place, one in enumerate(self.sent):
            reading = Reading(one.at.rows, one.at.access, one.public)
            sql = one.sql or f"SELECT {columns_of(one.at.rows.physical)} FROM {SOURCE}"
            task = BucketRows(reading, sql, one.unit, CODED if one.coded else place, buckets)
            packed.append(one.at.frame().mapInArrow(task.run, SPREAD))
        rows = reduce(lambda left, right: left.unionAll(right), packed)
        return rows.repartitionById(buckets, "bucket")
