"""Choose how the rows of a source reach the tasks.

Files on shared file systems are read by DuckDB inside the tasks: Parquet files in ranges of rows,
and text files as a whole. Frames are sent to the tasks as bytes. Spark reads files on other file
systems, tables of catalogues, and files with columns at whose values DuckDB could fail. A column
that Spark must read, but for whose type Spark has no type, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb

from dprelease.errors import DataError, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.inputs import Input
from dprelease.exact.reading.sources import EngineCall, escape_pattern, source_fields
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.sources.text_files_reader import TextFilesReader
from dprelease.exact.spark.executors.link import Access
from dprelease.exact.spark.executors.task_files import ROW_NUMBER, ParquetRows, TextRows
from dprelease.exact.spark.executors.task_rows import PackedRows, SparkRows, TaskRows, to_ipc_bytes
from dprelease.exact.spark.executors.tasks import PublicData
from dprelease.exact.spark.pieces import (
    BYTES_A_ROW,
    MOST_ROWS,
    cores_of,
    divide_into_pieces,
    frame_piece_rows,
    group_files,
)
from dprelease.exact.spark.sessions.attempts import attempt
from dprelease.exact.spark.spark_tables import StoredTable, quote_identifier
from dprelease.query import quoting
from dprelease.query.resolve import Query
from dprelease.query.unread import unsupported_by_spark_error
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.layers import needed_columns, needed_joined_columns
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.values.physical import FLOATS, base_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Inspect sources on the driver: DuckDB reads names, types and sizes.
#
# The driver inspects sources with DuckDB exactly as the engine duckdb does, and reads no row of a
# table about people.


class DriverReader(Engine):
    """The engine on the driver, which reads names and types, and the keys of public tables."""

    _can_use_arrow: ClassVar[bool] = False

    def __init__(self, inputs: list[Input], scratch: Path, link: duckdb.DuckDBPyConnection) -> None:
        super().__init__(inputs, scratch, link)
        self._lengths: dict[int, tuple[list[int], bool]] = {}

    @property
    def inputs(self) -> list[Input]:
        """Return the inputs: the query's table, and then the joined table."""
        return self._inputs

    def public_rows(self, names: Sequence[str]) -> bytes:
        """Return the rows of a joined public table, as bytes of Arrow.

        Raises DataError: DP-DATA-006 if the engine fails.
        """
        given = self._inputs[1]
        column_list = ", ".join(map(quoting.identifier, names)) or "1 AS one"
        sql = f"SELECT {column_list} FROM {given.relation}"
        table = self._attempt(
            "DP-DATA-006", State.READ, lambda link: link.sql(sql).to_arrow_table(), given
        )
        return to_ipc_bytes(table)

    def lengths(self, place: int) -> tuple[list[int], bool]:
        """Return the number of rows of each Parquet file, and whether files can't be divided.

        `place`: the index of the input that has the files. Files can't be divided if a column has
        the name that the engine uses for the row number.

        Raises DataError: DP-DATA-001 if a file has no such number.
        """
        if place not in self._lengths:  # safe to cache: a file that changes meanwhile is refused
            self._lengths[place] = self._read_lengths(self._inputs[place])
        return self._lengths[place]

    def _read_lengths(self, given: Input) -> tuple[list[int], bool]:
        """Return the number of rows of each file, and whether the files can't be divided."""
        lengths, is_indivisible = [], False
        for file in given.files:
            file_literal = quoting.text(escape_pattern(file))
            ((rows,),) = self._query_metadata(
                f"SELECT num_rows FROM parquet_file_metadata({file_literal})", given
            )
            lengths.append(int(rows))
            names = self._query_metadata(f"SELECT name FROM parquet_schema({file_literal})", given)
            is_indivisible = is_indivisible or any(
                str(name).casefold() == ROW_NUMBER for (name,) in names
            )
        return lengths, is_indivisible


REQUESTED_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INTEGER": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "VARCHAR": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "UTINYINT": "short",
    "USMALLINT": "integer",
    "UINTEGER": "long",
    "UBIGINT": "decimal(20, 0)",
    "TIMESTAMP_MS": "long",
    "TIMESTAMP_NS": "long",
    "TIMESTAMPTZ_NS": "long",
}
"""The type to request from Spark for each of the engine's types: the same type, or a wider one that
tasks convert back."""

Types = Mapping[str, str]
"""The engine's types of columns, by name."""

SPECIAL_CHARACTERS = "*?[]{}\\:"
"""Characters that Spark reads as a pattern, or as a scheme, in the name of a file."""


@dataclass(frozen=True)
class TaskInput:
    """Where tasks get the rows of a table.

    `frame`: a function that returns the Spark frame whose data the tasks receive; it is called when
    a job runs. `rows`: how a task reads rows from these data. `number`: the approximate number of
    rows. `tasks`: the approximate number of tasks.
    """

    frame: Callable[[], DataFrame]
    rows: TaskRows
    number: int
    tasks: int
    access: Access = field(default_factory=Access)


def locate_rows(
    spark: SparkSession,
    reader: DriverReader,
    place: int,
    names: Sequence[str],
    stored: StoredTable | None,
) -> TaskInput:
    """Return where tasks get the rows of an input.

    `place`: the index of the input. `names`: the columns to read. `stored`: the table as Spark
    found it, if only Spark can read it; otherwise None.

    Raises DataError: DP-SPARK-001 or 002 for a source or a column that Spark could read
    differently.
    """
    given = reader.inputs[place]
    physical = {name: given.physical[name] for name in names}
    cores = cores_of(spark)
    if stored is not None:
        many = max(cores, stored.number // MOST_ROWS)
        chosen = _select_columns(stored.frame, names)
        return TaskInput(lambda: chosen, SparkRows(physical), stored.number, many)
    if given.arrow is not None:
        return _frame_input(spark, given.arrow, physical)
    source = given.declared.table.source
    refusal = unsupported_by_spark_error(given.declared)
    if refusal is not None:
        raise refusal
    if source is None or source.kind is None or source.is_only_for_spark:
        table = given.declared.table.name
        raise DataError("DP-SPARK-001", table=table, format=given.kind)
    if source.kind == "parquet":
        if given.types_differ:
            table = given.declared.table.name
            raise DataError("DP-SPARK-001", table=table, format="files with different column types")
        lengths, whole = reader.lengths(place)
        if any(name in given.millisecond_columns for name in names):
            return _parquet_input(spark, given, physical, sum(lengths))
        pieces = divide_into_pieces(lengths, cores, whole=whole)
        rows = ParquetRows(physical, tuple(map(str, given.files)), tuple(pieces))
        floats = any(base_type(kind) in FLOATS for kind in given.physical.values())
        access = Access(rows.files, floats)
        return _task_files_input(spark, rows, len(pieces), sum(lengths), access)
    own = reader_of(source.type)
    if isinstance(own, TextFilesReader):
        return _text_files_input(
            spark, given, own.text_reader(given.declared, source, given.files), physical
        )
    raise DataError("DP-SPARK-001", table=given.declared.table.name, format=given.kind)


def _text_files_input(
    spark: SparkSession, given: Input, reader: EngineCall, physical: Types
) -> TaskInput:
    sizes = [file.stat().st_size if file.exists() else 0 for file in given.files]
    pieces = group_files(sizes, cores_of(spark))
    files = tuple(map(str, given.files))
    rows = TextRows(physical, reader, files, tuple(pieces))
    number = sum(sizes) // BYTES_A_ROW
    return _task_files_input(spark, rows, len(pieces), number, Access(files))


def _task_files_input(
    spark: SparkSession, rows: TaskRows, pieces: int, number: int, access: Access
) -> TaskInput:
    """Return the input of tasks that read files; Spark sends each task the index of its piece."""

    def task_frame() -> DataFrame:
        """Return a frame with one row for each piece."""
        return spark.range(0, pieces, 1, max(1, pieces))

    return TaskInput(task_frame, rows, number, pieces, access)


def _frame_input(spark: SparkSession, arrow: Any, physical: Types) -> TaskInput:
    """Return the input of tasks for a frame of the caller, whose rows are sent as packed Arrow.

    Packed rows keep types that Spark does not have.
    """
    import pyarrow as pa

    size = frame_piece_rows(len(arrow), cores_of(spark))
    starts = range(0, max(len(arrow), 1), size)

    def content_frame() -> DataFrame:
        """Return a frame with one row for each slice of the table, packed as bytes."""
        read = {name: arrow[name] for name in physical} or {"one": pa.nulls(len(arrow))}
        table = pa.table(read)
        contents = [to_ipc_bytes(table.slice(start, size)) for start in starts]
        return spark.createDataFrame(pa.table({"content": pa.array(contents, pa.binary())}))

    return TaskInput(content_frame, PackedRows(physical), len(arrow), len(starts))


def _file_uri(file: Path, given: Input) -> str:
    """Return the URI of a file, or raise an error if Spark would read its name as a pattern."""
    if any(mark in str(file) for mark in SPECIAL_CHARACTERS):
        table = given.declared.table.name
        raise DataError(
            "DP-SPARK-001", table=table, format=f"a file with one of {SPECIAL_CHARACTERS} in it"
        )
    return f"file://{file}"


def _parquet_input(spark: SparkSession, given: Input, physical: Types, number: int) -> TaskInput:
    """Return the input of tasks for Parquet files that Spark reads, with explicit types.

    Spark reads files with timestamps at which the engine could fail. It infers no type.
    """
    from pyspark.sql.types import StructType

    paths = [_file_uri(file, given) for file in given.files]
    types = {name: _spark_type(name, kind) for name, kind in physical.items()}
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    # CORRECTED reads dates and times as they are stored, as DuckDB does. Otherwise Spark moves
    # those before 1582 in files of its old versions to another calendar.
    read = spark.read.schema(schema).options(
        recursiveFileLookup="true", datetimeRebaseMode="CORRECTED", int96RebaseMode="CORRECTED"
    )
    failure = DataError("DP-DATA-001", **source_fields(given.declared), format="parquet")
    chosen = _select_columns(attempt(lambda: read.parquet(*paths), failure), list(types))
    many = max(cores_of(spark), number // MOST_ROWS)
    return TaskInput(lambda: chosen, SparkRows(physical), number, many)


def _spark_type(name: str, physical: str) -> str:
    """Return the type to request from Spark; refuse one that it does not have."""
    if base_type(physical) == "DECIMAL":
        return physical.lower()
    if physical not in REQUESTED_TYPES:
        raise DataError("DP-SPARK-002", column=name, physical=base_type(physical))
    return REQUESTED_TYPES[physical]


def _select_columns(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a frame with these columns, renamed to `c0`, `c1` and so on."""
    from pyspark.sql import functions

    columns = [functions.col(quote_identifier(name)).alias(f"c{i}") for i, name in enumerate(names)]
    return frame.select(*columns) if columns else frame.select(functions.lit(1).alias("c0"))


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
