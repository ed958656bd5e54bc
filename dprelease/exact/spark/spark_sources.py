"""The sources of one Spark engine: how the driver inspects them, and where tasks get their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dprelease.exact.spark.executors.tasks import PublicData
from dprelease.exact.spark.spark_input import DriverReader, TaskInput, locate_rows
from dprelease.exact.spark.spark_tables import StoredTable
from dprelease.query.resolve import Query
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.layers import needed_columns, needed_joined_columns
from dprelease.statements.meanings import typed_value_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

StoredTypes = dict[str, str]


@dataclass(frozen=True)
class SparkSources:
    """The query's table and the joined table.

    `stored`: for each of the two tables, how Spark reads it, if only Spark can read it; else None.
    """

    spark: SparkSession
    reader: DriverReader
    stored: Sequence[StoredTable | None]

    def locate_inputs(self, query: Query) -> list[TaskInput]:
        """Return the locations of the rows of all tables about people that a query reads.

        Raises DataError: DP-SPARK-001 or 002 for sources that Spark could read differently.
        """
        needed = [needed_columns(query)]
        if query.join is not None and query.join.by_unit:
            needed.append(needed_joined_columns(query))
        return [
            locate_rows(self.spark, self.reader, place, names, stored)
            for place, (names, stored) in enumerate(zip(needed, self.stored, strict=False))
        ]

    def types(self, at: Sequence[TaskInput]) -> tuple[StoredTypes, StoredTypes]:
        """Return the types of stored columns, of the query's table and of the joined table."""
        own, *others = (dict(one.rows.physical) for one in at)
        return own, others[0] if others else self.reader.joined_types

    def public_data(self, query: Query, key_tables: Sequence[KeyTable]) -> PublicData:
        """Return the public data that the statements of a query read.

        Raises DataError: DP-DATA-006 if a joined public table can't be read.
        """
        joined = None
        if query.join is not None and not query.join.by_unit:
            joined = self.reader.public_rows(needed_joined_columns(query))
        return PublicData(tuple(key_tables), joined)

    def unit_sql(self, query: Query, place: int, types: StoredTypes) -> str:
        """Return the SQL of the privacy unit of a stored row, in one of the two tables.

        `place`: 0 for the query's table, 1 for the joined table.
        """
        if query.unit.id is None:
            raise TypeError("every row is a unit of its own")
        name, table = query.unit.id, query.declared.table
        if place and query.join is not None:
            name = next(right for left, right in query.join.on if left == name)
            table = query.join.declared.table
        return typed_value_sql(name, table.columns[name], types[name], table.time_zone)
