"""The Spark engine: the answers of the engine duckdb, for tables that outgrow one machine.

Spark spreads rows over executors, by their unit where it has an id; there DuckDB runs the query's
own statement, up to sums that can be added up over all parts; Spark adds these whole numbers up.
So every value is read, bounded and rounded by the very engine that would have read it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from dprelease.errors import DataError
from dprelease.exact.partitions import Partitions
from dprelease.exact.spark.merge import exact_table
from dprelease.exact.spark.noise import BLOCK, Noise, Noised, noised
from dprelease.exact.spark.seal import Seal
from dprelease.exact.spark.spark_reader import Reader, spread
from dprelease.exact.spark.spark_session import Settings, attempt, is_classic, session, unreadable
from dprelease.exact.spark.spark_tables import Stored, find_stored, refuse_change
from dprelease.exact.spark.task_rows import Rows
from dprelease.exact.spark.tasks import Count, Spread, report_versions, versions
from dprelease.exact.true_table import ExactTable, Integers
from dprelease.numerics.lattice import LIMIT
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.statements.compiler import KeyTable
from dprelease.statements.layers import needed_columns, needed_joined
from dprelease.statements.meanings import typed
from dprelease.statements.partial import PLACE, Partial, compile_partial, compile_partial_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MANY_CELLS = 2**20
"""Cells from which on executors add the noise, where they have a folder to write to."""

SPREAD_SCHEMA = "bucket int, kind int, content binary"


class SparkEngine:
    """One declared table, and one joined to it, read by Spark. Open it as a context manager."""

    def __init__(
        self,
        spark: SparkSession,
        reader: Reader,
        settings: Settings,
        stored: Sequence[Stored | None],
    ) -> None:
        self.declared = reader.declared
        self._spark, self._reader, self._settings = spark, reader, settings
        self._stored = stored

    @classmethod
    @contextmanager
    def open(
        cls,
        declared: Declared,
        frame: object | None = None,
        joined: Declared | None = None,
        joined_frame: object | None = None,
        settings: Settings | None = None,
    ) -> Iterator[SparkEngine]:
        """Yield an engine over the declared source, or over `frame` in its place.

        Raises
        ------
        DataError
            As the engine duckdb; DP-SPARK-001 or 002 for a table that Spark alone can read, but
            not as it is; DP-SPARK-003 if there is no Spark, DP-SPARK-004 if its executors have
            other versions than the driver.
        """
        settings = settings or Settings()
        with session(settings) as spark:
            refuse_other_versions(spark)
            own = _stored(spark, declared, frame)
            other = None if joined is None else _stored(spark, joined, joined_frame)
            frame = frame if own is None else own.empty
            if other is not None:
                public = other.declared.table.public
                joined_frame = other.rows() if public else other.empty
            with Reader.open(declared, frame, joined, joined_frame) as reader:
                yield cls(spark, reader, settings, (own, other))

    def compile(self, query: Query) -> Partial | None:
        """Return the statement that executors run; None where keys are found first.

        Raises
        ------
        DataError
            As the engine duckdb; DP-SPARK-001 or 002 for what Spark could read differently.
        """
        self._reader.compile(query)
        frames = self._frames(query)
        if query.private is not None and not query.keys.keys:
            return None
        return compile_partial(query, *self._types(frames))

    def run(self, query: Query) -> ExactTable:
        """Return the true aggregates of every cell, zero where there is no row.

        Raises
        ------
        DataError
            DP-DATA-006 if Spark fails, DP-DATA-007 if a file changed meanwhile.
        """
        self._reader.compile(query)
        frames = self._frames(query)
        partial = compile_partial(query, *self._types(frames))
        merged = attempt(lambda: self._merged(query, partial, frames).toArrow(), self._failure())
        self._refuse_change()
        return exact_table(query.name, partial, merged, query.keys.size)

    def noised(self, query: Query, noise: Noise) -> dict[str, Integers] | None:
        """Return noised vectors of every cell, noised by executors; None where it is not for them.

        It is for many cells, where a folder for it was named, and the driver of Spark is here: who
        reaches it through Spark Connect can't remove files, and adds the noise here.

        Raises
        ------
        DataError
            As `run`.
        """
        staging = self._settings.staging
        small = query.keys.size < MANY_CELLS
        if staging is None or small or not is_classic(self._spark):
            return None
        self._reader.compile(query)
        frames = self._frames(query)
        partial = compile_partial(query, *self._types(frames))

        def draw() -> dict[str, Integers]:
            merged = self._merged(query, partial, frames)
            task = Noised(partial, query.keys.size, noise, BLOCK, Seal.fresh())
            return noised(self._spark, merged, task, staging)

        vectors = attempt(draw, self._failure())
        self._refuse_change()
        return vectors

    def partitions(self, query: Query) -> Partitions:
        """Return the partitions of a query whose keys are not public, and their units.

        Raises
        ------
        DataError
            As `run`.
        """
        self._reader.compile(query)
        frames = self._frames(query)
        sql = compile_partial_partitions(query, *self._types(frames))

        def count() -> pa.Table:
            from pyspark.sql import functions

            counted = self._counted(query, sql, (), frames, "name binary, n bigint")
            return counted.groupBy("name").agg(functions.sum("n").alias("n")).toArrow()

        table = attempt(count, self._failure())
        self._refuse_change()
        names = [name.decode() for name in table["name"].to_pylist()]
        return Partitions(names, np.asarray(table["n"], dtype=np.int64))

    def _failure(self) -> DataError:
        return unreadable(self.declared.table.name, self._reader.inputs[0].kind)

    def _frames(self, query: Query) -> list[tuple[DataFrame, Rows]]:
        """Return the rows of the tables about people that the query reads."""
        needed = [needed_columns(query)]
        if query.join is not None and query.join.by_unit:
            needed.append(needed_joined(query))
        return [
            spread(self._spark, given, names, None if stored is None else stored.frame)
            for given, names, stored in zip(self._reader.inputs, needed, self._stored, strict=False)
        ]

    def _refuse_change(self) -> None:
        """Raise DP-DATA-007 if a source changed since the engine was opened."""
        self._reader.refuse_change()
        for stored in self._stored:
            if stored is not None:
                refuse_change(self._spark, stored)

    def _types(self, frames: list[tuple[DataFrame, Rows]]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the types of stored columns, of the asked table and of the joined one."""
        own, *others = (dict(rows.physical) for _, rows in frames)
        return own, others[0] if others else self._reader.joined

    def _merged(
        self, query: Query, partial: Partial, frames: list[tuple[DataFrame, Rows]]
    ) -> DataFrame:
        """Return whole numbers by place, added up over all parts of the rows."""
        from pyspark.sql import functions

        sums = [f"m{j}" for j in range(partial.width)]
        schema = "part int, cell bigint, v bigint, " + ", ".join(f"{m} decimal(38,0)" for m in sums)
        counted = self._counted(query, partial.sql, partial.key_tables, frames, schema)
        low, high = (functions.lit(x).cast("decimal(38,0)") for x in (-LIMIT, LIMIT))
        totals = [
            functions.least(functions.greatest(functions.sum(m), low), high).cast("bigint").alias(m)
            for m in sums
        ]
        return counted.groupBy(*PLACE).agg(*totals)

    def _counted(
        self,
        query: Query,
        sql: str,
        key_tables: tuple[KeyTable, ...],
        frames: list[tuple[DataFrame, Rows]],
        schema: str,
    ) -> DataFrame:
        """Return what the statement finds in each part of the rows."""
        public = None
        if query.join is not None and not query.join.by_unit:
            public = self._reader.public_rows(needed_joined(query))
        kind = _arrow_schema(schema)
        frame, rows = frames[0]
        if query.unit.id is None:
            task = Count(sql, key_tables, rows, kind, public=public)
            return frame.mapInArrow(task.run, schema)
        together = self._by_unit(query, frames)
        whole = tuple(rows for _, rows in frames)
        task = Count(sql, key_tables, rows, kind, whole=whole, public=public)
        return together.mapInArrow(task.run, schema)

    def _by_unit(self, query: Query, frames: list[tuple[DataFrame, Rows]]) -> DataFrame:
        """Return packed rows, those of a unit in one partition."""
        buckets = int(self._spark.conf.get("spark.sql.shuffle.partitions") or 200)
        packed = []
        for place, (frame, rows) in enumerate(frames):
            task = Spread(rows, self._unit(query, place, rows), place, buckets)
            packed.append(frame.mapInArrow(task.run, SPREAD_SCHEMA))
        together = packed[0] if len(packed) == 1 else packed[0].unionAll(packed[1])
        return together.repartition(buckets, "bucket")

    def _unit(self, query: Query, place: int, rows: Rows) -> str:
        """Return the SQL of the unit of a row, of the asked table or of the joined one."""
        if query.unit.id is None:
            raise TypeError("every row is a unit of its own")
        name, table = query.unit.id, query.declared.table
        if place and query.join is not None:
            name = next(right for left, right in query.join.on if left == name)
            table = query.join.declared.table
        return typed(name, table.columns[name], rows.physical[name], table.time_zone)


def _stored(spark: SparkSession, declared: Declared, frame: object | None) -> Stored | None:
    """Return the table that is read, if Spark alone can read it."""
    source = declared.table.source
    if frame is not None or source is None or not source.is_sparks:
        return None
    return find_stored(spark, declared)


def refuse_other_versions(spark: SparkSession) -> None:
    """Raise DP-SPARK-004 unless an executor has what the driver has; reads no data."""
    problem = "Python, dprelease or duckdb is missing there"
    ask = spark.range(1, numPartitions=1)
    reported = attempt(
        lambda: ask.mapInArrow(report_versions, "versions string").toArrow(),
        DataError("DP-SPARK-004", problem=problem),
    )
    there = reported["versions"][0].as_py()
    if there != versions():
        problem = f"they have {there}, the driver {versions()}"
        raise DataError("DP-SPARK-004", problem=problem)


def _arrow_schema(schema: str) -> pa.Schema:
    """Return the Arrow schema of a Spark schema of this module."""
    import pyarrow as pa

    kinds = {"int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}
    fields = [field.split(" ") for field in schema.split(", ")]
    return pa.schema([(name, kinds.get(kind, pa.decimal128(38, 0))) for name, kind in fields])
