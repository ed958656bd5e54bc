"""Sources seen from the driver: DuckDB tells names and types, Spark spreads the rows.

The driver asks DuckDB what the sources are, exactly as the engine duckdb does, and reads no row of
a table about people. Text files and frames reach the executors as bytes and are read there by
DuckDB itself; Parquet is read by Spark, and refused where it has no type that holds a column's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dprelease.errors import DataError, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.inputs import Input
from dprelease.exact.reading.sources import named, text_reader
from dprelease.exact.spark.spark_session import attempt
from dprelease.exact.spark.spark_tables import quoted
from dprelease.exact.spark.task_rows import CHUNK, Rows, packed
from dprelease.query import quoting
from dprelease.statements.physical import base_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ASKED = {
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
"""As what Spark is asked for a type: itself, or one that holds it and is turned back by tasks."""

SPECIAL = "*?[]{}\\:"
"""What Spark takes for a pattern, or for a scheme, in the name of a file."""


class Reader(Engine):
    """The driver's own look at the sources: names, types, keys of public tables."""

    _by_arrow: ClassVar[bool] = False

    @property
    def inputs(self) -> list[Input]:
        """Return the inputs: the asked table, then the joined one."""
        return self._inputs

    def public_rows(self, names: Sequence[str]) -> bytes:
        """Return the rows of a joined public table, packed.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails.
        """
        given = self._inputs[1]
        chosen = ", ".join(map(quoting.identifier, names)) or "1 AS one"
        sql = f"SELECT {chosen} FROM {given.relation}"
        table = self._attempt(
            "DP-DATA-006", State.READ, lambda link: link.sql(sql).to_arrow_table(), given
        )
        return packed(table)


def spread(
    spark: SparkSession, given: Input, names: Sequence[str], stored: DataFrame | None
) -> tuple[DataFrame, Rows]:
    """Return the rows of an input as Spark has them, and how to read columns out of them.

    `stored`: a table that Spark alone can read.

    Raises
    ------
    DataError
        DP-SPARK-001 or 002 for a source or a column that Spark could read differently.
    """
    physical = {name: given.physical[name] for name in names}
    if stored is not None:
        return _chosen(stored, names), Rows(physical)
    if given.arrow is not None:
        return _frame(spark, given.arrow), Rows(physical, packed=True)
    source = given.declared.table.source
    if source is None or source.kind not in ("parquet", "csv", "json_lines"):
        table = given.declared.table.name
        raise DataError("DP-SPARK-001", table=table, format="a DuckDB file")
    paths = [_uri(file, given) for file in given.files]
    if source.kind == "parquet":
        if given.differs:
            table = given.declared.table.name
            raise DataError("DP-SPARK-001", table=table, format="files whose column types differ")
        return _parquet(spark, paths, given, physical)
    reader = text_reader(given.declared, source, given.files)
    whole = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    return whole.load(paths).select("content"), Rows(physical, reader=reader)


def _frame(spark: SparkSession, arrow: pa.Table) -> DataFrame:
    """Return a frame's rows, packed: so that they keep types that Spark does not know."""
    import pyarrow as pa

    starts = range(0, max(len(arrow), 1), CHUNK)
    contents = [packed(arrow.slice(start, CHUNK)) for start in starts]
    return spark.createDataFrame(pa.table({"content": pa.array(contents, pa.binary())}))


def _uri(file: Path, given: Input) -> str:
    if any(mark in str(file) for mark in SPECIAL):
        table = given.declared.table.name
        raise DataError("DP-SPARK-001", table=table, format=f"a file with one of {SPECIAL} in it")
    return f"file://{file}"


def _parquet(
    spark: SparkSession, paths: list[str], given: Input, physical: dict[str, str]
) -> tuple[DataFrame, Rows]:
    """Return the columns as they are asked for: Spark does not infer any type."""
    from pyspark.sql.types import StructType

    types = {name: _asked(name, kind) for name, kind in physical.items()}
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    read = spark.read.schema(schema).options(
        recursiveFileLookup="true", datetimeRebaseMode="CORRECTED", int96RebaseMode="CORRECTED"
    )
    failure = DataError("DP-DATA-001", **named(given.declared), format="parquet")
    frame = attempt(lambda: read.parquet(*paths), failure)
    return _chosen(frame, list(types)), Rows(physical)


def _asked(name: str, physical: str) -> str:
    """Return the type to ask Spark for; refuse one that it does not have."""
    if base_type(physical) == "DECIMAL":
        return physical.lower()
    if physical not in ASKED:
        raise DataError("DP-SPARK-002", column=name, physical=base_type(physical))
    return ASKED[physical]


def _chosen(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions

    columns = [functions.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(names)]
    return frame.select(*columns) if columns else frame.select(functions.lit(1).alias("c0"))
