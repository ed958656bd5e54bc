"""Read tables that only Spark can read: tables of its catalogue, and Parquet files on remote
file systems.

Types come from Spark's schema. Changes are detected from the files that Spark lists: names, sizes,
times, and for tables of a catalogue the number of rows in each file. (For local files, `stat`
detects changes.) The files are listed before and after rows are read, and a source that changed
meanwhile is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dprelease.errors import DataError, State
from dprelease.exact.inputs import source_type_label
from dprelease.exact.reading.sources import source_fields, stored_columns, unreadable_error
from dprelease.exact.spark.sessions.attempts import attempt
from dprelease.schema.load import Declared
from dprelease.system.lake_tables import RERUN_ADVICE, RUNNING_FOLDER, lake_reason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

CATALOGUE_FORMATS = ("parquet", "delta", "iceberg")
"""Formats of tables in a catalogue: files with a schema, and never a view. In a view, rows of some
people may depend on those of others, and the rows may differ each time the view is read."""

CATALOGUE_REMEDY = (
    "declare it as a table of Spark's catalogue, by `source: {table: ...}` and no path; or write "
    "the rows that are live into another folder of Parquet, and name that"
)

ARROW_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Types as Spark passes them to a task, in addition to decimals."""

LAKE_PROBLEMS = {
    name: (lake_reason(kind, f"a folder above or among them holds '{name}'"), CATALOGUE_REMEDY)
    for name, kind in (
        ("_delta_log", "Delta"), ("metadata/*.metadata.json", "Iceberg"), (".hoodie", "Hudi"),
    )
}  # fmt: skip
FOLDER_PROBLEMS = LAKE_PROBLEMS | {
    RUNNING_FOLDER: (f"a job has not ended there, by its '{RUNNING_FOLDER}'", RERUN_ADVICE)
}
"""By the names of entries next to files that may not all count: why, and what to do. Spark itself
reads the notes of its streams."""

PADDED_TEXT_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key under which Spark keeps the type of a text that it pads with blanks."""

NANOSECONDS_SETTING = "spark.sql.legacy.parquet.nanosAsLong"


@dataclass(frozen=True)
class StoredTable:
    """A declared table as Spark found it."""

    declared: Declared
    frame: DataFrame
    stamp: list[Any]
    number: int
    """The number of rows."""

    @property
    def empty(self) -> pa.Table:
        """Return no rows of the declared columns, with the types of all rows.

        Raises DataError: DP-SPARK-002 for a type that can't be passed on unchanged.
        """
        names = set(stored_columns(self.declared))
        fields = [field for field in self.frame.schema.fields if field.name in names]
        schema = pa.schema([(field.name, _arrow_type(field)) for field in fields])
        return schema.empty_table()

    def rows(self) -> pa.Table:
        """Return all rows of the declared columns, of a public table.

        Raises DataError: DP-DATA-006 if Spark fails.
        """
        from pyspark.sql import functions

        empty = self.empty
        failure = DataError("DP-DATA-006", table=self.declared.table.name, format=self.format)
        columns = [functions.col(quote_identifier(name)) for name in empty.column_names]
        read = self.frame.select(*columns) if columns else self.frame.select(functions.lit(1))
        table: pa.Table = attempt(read.toArrow, failure)
        return table.cast(empty.schema) if columns else table

    @property
    def format(self) -> str:
        """Return the format, for messages."""
        return source_type_label(self.declared)


def find_stored_table(spark: SparkSession, declared: Declared) -> StoredTable:
    """Return a table that only Spark can read.

    Raises DataError: DP-DATA-001 if the table does not exist, 024 if some of its files may be
    stale, DP-SPARK-001 if it is a view or has another format.
    """
    failure = DataError(
        "DP-DATA-001", **source_fields(declared), format=source_type_label(declared)
    )
    first = table_stamp(
        spark, declared
    )  # taken first, so that a later comparison finds any change after it
    if _is_read_by_path(declared):
        _refuse_lakes(spark, declared, [str(path) for path, *_ in first])
    frame = attempt(lambda: _open_table(spark, declared), failure)
    if _is_read_by_path(declared):
        number = attempt(frame.count, failure)  # from the footers of files
    else:
        number = sum(int(rows) for *_, rows in first)
    return StoredTable(declared, frame, first, number)


def refuse_change(spark: SparkSession, seen: StoredTable) -> None:
    """Raise DP-DATA-007 if a table has changed since it was found."""
    declared = seen.declared
    try:
        same = table_stamp(spark, declared) == seen.stamp
    except DataError:
        same = False  # removed meanwhile
    if not same:
        raise DataError("DP-DATA-007", table=declared.table.name, state=State.READ)


def table_stamp(spark: SparkSession, declared: Declared) -> list[Any]:
    """Return data that change when rows of a table are written or replaced: its current files.

    Raises DataError: DP-DATA-001 if it does not exist.
    """
    from pyspark.sql import functions

    def files_frame() -> DataFrame:
        """Return a frame of the files of the table."""
        if _is_read_by_path(declared):
            return _files_of_folder(spark, declared)
        frame = _open_table(spark, declared)
        return frame.groupBy(*_file_columns(frame)).agg(
            functions.count(functions.lit(1)).alias("n")
        )

    def read_stamp() -> list[Any]:
        """Return the sorted rows that describe the files of the table."""
        return sorted(tuple(map(str, row.values())) for row in files_frame().toArrow().to_pylist())

    failure = DataError(
        "DP-DATA-001", **source_fields(declared), format=source_type_label(declared)
    )
    return attempt(read_stamp, failure)


def _is_read_by_path(declared: Declared) -> bool:
    return declared.table.source is not None and declared.table.source.path is not None


def _files_of_folder(spark: SparkSession, declared: Declared) -> DataFrame:
    """Return the files of a path from a listing of their folder; opens none of them."""
    source = declared.table.source
    read = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    files = read.load("" if source is None else source.path)
    return files.select("path", "length", "modificationTime")


def _refuse_lakes(spark: SparkSession, declared: Declared, files: Sequence[str]) -> None:
    """Raise DP-DATA-024 for files of a lake's table, or of an unfinished job."""
    source = declared.table.source
    uri = ("" if source is None else source.path or "").rstrip("/")
    scheme, _, path = uri.partition("://")
    authority, *parts = ["*" if set(part) & set(",{}\\") else part for part in path.split("/")]
    last = parts[-1] if parts else ""
    levels = max((_uri_depth(file) for file in files), default=0) - _uri_depth(uri)
    inside = ["/".join([*parts, *["*"] * i]) for i in range(max(levels, 1))]
    above = ["/".join(parts[:i]) for i in range(1, len(parts))]
    job = above[-1:] if set(last) & set("=.*?") else []  # of a file, a pattern or a partition
    places = {name: [*above, *inside] for name in LAKE_PROBLEMS} | {RUNNING_FOLDER: [*job, *inside]}
    failure = DataError(
        "DP-DATA-001", **source_fields(declared), format=source_type_label(declared)
    )
    for searched_names in (list(places), *([name] for name in places)):
        names = ",".join(f"{folder}/{name}" for name in searched_names for folder in places[name])
        pattern = f"{scheme}://{authority}/{{{names}}}"
        if not attempt(partial(_matches_any_file, spark, pattern), failure):
            if len(searched_names) > 1:  # the usual case: none exists
                return
        elif len(searched_names) == 1:
            raise unreadable_error(declared, *FOLDER_PROBLEMS[searched_names[0]])


def _uri_depth(uri: str) -> int:
    """Return the number of parts of a URI; Spark writes one slash instead of three."""
    return len([part for part in uri.partition(":")[2].split("/") if part])


def _matches_any_file(spark: SparkSession, pattern: str) -> bool:
    """Return whether a pattern finds a file or folder, without reading any."""
    from pyspark.errors import AnalysisException

    try:
        _ = spark.read.format("binaryFile").load(pattern).schema
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True


def quote_identifier(name: str) -> str:
    """Return a name as a quoted identifier of Spark's SQL."""
    return f"`{name.replace('`', '``')}`"


def _file_columns(frame: DataFrame) -> list[Column]:
    """Return columns that identify the file of a row; for Iceberg only its name.

    Files of Iceberg never change.
    """
    from pyspark.errors import AnalysisException

    names = ("file_path", "file_size", "file_modification_time")
    try:
        columns = [frame.metadataColumn("_metadata")[name].alias(name) for name in names]
        _ = frame.select(*columns).schema
    except AnalysisException:
        return [frame.metadataColumn("_file")]
    return columns


def _open_table(spark: SparkSession, declared: Declared) -> DataFrame:
    """Return all current rows: Spark caches which files a table had."""
    source = declared.table.source
    if source is None:
        raise TypeError("the table has no source")
    if source.path is not None:
        return _open_parquet(spark, source.path)
    name = ".".join(quote_identifier(part) for part in (source.table or "").split("."))
    spark.catalog.refreshTable(name)
    description_rows = [
        tuple(row) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    ]
    known: dict[str, str] = {}
    for name_, value, *_ in description_rows:  # column names come before the table's own properties
        known = {} if name_.startswith("# Detailed Table") else known | {name_: value}
    provider = known.get("Provider", "").lower()
    if "VIEW" in known.get("Type", "VIEW").upper() or provider not in CATALOGUE_FORMATS:
        kind = f"a view, or of another format than {', '.join(CATALOGUE_FORMATS)}"
        raise DataError("DP-SPARK-001", table=declared.table.name, format=kind)
    return spark.table(name)


def _open_parquet(spark: SparkSession, uri: str) -> DataFrame:
    """Return Parquet files of a file system of Spark's, with their own schemas.

    All schemas are read, and columns on which they differ are refused. Timestamps in nanoseconds,
    which Spark would read as integers, are refused too.
    """
    before = spark.conf.get(NANOSECONDS_SETTING)
    spark.conf.set(NANOSECONDS_SETTING, "false")
    try:
        read = spark.read.option("recursiveFileLookup", "true")
        schema = read.option("mergeSchema", "true").parquet(uri).schema
    finally:
        spark.conf.set(NANOSECONDS_SETTING, before or "true")
    return spark.read.option("recursiveFileLookup", "true").schema(schema).parquet(uri)


def _arrow_type(field: StructField) -> pa.DataType:
    """Return the Arrow type of a column of Spark, or raise DP-SPARK-002."""
    kind = field.dataType.simpleString()
    filled = str((field.metadata or {}).get(PADDED_TEXT_KEY, "")).lower().startswith("char")
    if kind.startswith("decimal(") and not filled:
        precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    if kind not in ARROW_TYPES or filled:
        raise DataError("DP-SPARK-002", column=field.name, physical=kind.split("<")[0])
    return ARROW_TYPES[kind]
