"""Write the SQL that reads values of PostgreSQL types, such that no value can make it fail.

The server casts values, and nothing is cast afterwards. Integers and floats arrive as stored, dates
and timestamps if they are in the years 1 to 9999, and values of other types as their texts. A type
whose values the server can't always convert in this way has no SQL here, and its columns are
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.errors.catalogue.data_errors import CONVERT, DECODE
from dprelease.query import quoting
from dprelease.schema.columns import Column
from dprelease.schema.source_types.source_type import OTHER
from dprelease.statements.values.lossy_types import may_lose_values
from dprelease.statements.values.physical import are_bytes

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_TEXT_BYTES = 1 << 18
"""Maximum bytes of a text; a longer text counts as missing. A row with texts of this length, in as
many columns as a table can have, is within the server's limit for one row."""

FIRST_DAY, LAST_DAY = "0001-01-01", "9999-12-31"

ENUM_CODE = "e"
"""The catalogue's code for enumerations."""

CITEXT = "citext"
"""The only type of an extension that is read: a text that the server compares without case."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as the catalogue describes it: the type of its domain, and the origin of that type.

    `kind`: the value of `pg_type.typtype`. `origin`: the extension that defines the type, or
    `pg_catalog`. `is_exact`: whether only identical texts are equal, because the column has no
    collation or a deterministic one.
    """

    name: str
    type: str
    kind: str
    origin: str
    is_computed: bool
    is_exact: bool

    @property
    def comparison(self) -> str:
        """Return how the server compares values; empty if character by character."""
        if (self.type, self.origin) == (CITEXT, CITEXT):
            return CITEXT
        return "" if self.is_exact else OTHER


@dataclass(frozen=True, slots=True)
class ColumnQuery:
    """How a column is read: the SQL of its values, and the Arrow type in which they arrive."""

    sql: str
    arrow: pa.DataType


ColumnReading = tuple[Callable[[str], str], str]
"""A function from the name of a column to the SQL of its values, and the name of the Arrow type."""


def _unchanged_sql(column: str) -> str:
    """Return the column itself: its values are read without a cast."""
    return column


def _bigint_sql(column: str) -> str:
    """Return the SQL of a column that is read as 64-bit integers."""
    return f"{column}::pg_catalog.int8"


def _number_sql(column: str) -> str:
    """Return SQL of the text of a number without trailing zeros; NaN counts as missing."""
    # The server keeps the zeros with which a number was written: 1.50 and 1.5 would be two texts of
    # one number.
    text = f"pg_catalog.trim_scale({column}::pg_catalog.numeric)::pg_catalog.text"
    return f"CASE WHEN {column}::pg_catalog.numeric <> 'NaN' THEN {text} END"


def _text_sql(column: str) -> str:
    """Return SQL of a text without the trailing blanks of char(n), which are not its value."""
    text = f"{column}::pg_catalog.text"
    return f"CASE WHEN pg_catalog.octet_length({text}) <= {LONGEST_TEXT_BYTES} THEN {text} END"


def _date_sql(column: str) -> str:
    """Return the SQL of a column that is read as dates; NULL for dates that can't be read."""
    return _within_sql(f"{column}::pg_catalog.date", "date", FIRST_DAY, LAST_DAY)


def _timestamp_sql(column: str) -> str:
    """Return the SQL of a column that is read as timestamps; NULL outside of their range."""
    first, last = f"{FIRST_DAY} 00:00:00", f"{LAST_DAY} 23:59:59.999999"
    return _within_sql(f"{column}::pg_catalog.timestamp", "timestamp", first, last)


def _timestamptz_sql(column: str) -> str:
    """Return the SQL of a column of timestamps with time zone; NULL outside of their range."""
    first, last = f"{FIRST_DAY} 00:00:00+00", f"{LAST_DAY} 23:59:59.999999+00"
    return _within_sql(f"{column}::pg_catalog.timestamptz", "timestamptz", first, last)


def _within_sql(value: str, kind: str, first: str, last: str) -> str:
    """Return the SQL of a value that becomes NULL if it isn't from `first` to `last`."""
    # This also leaves out 'infinity', which neither Arrow nor the engine can hold.
    ends = f"pg_catalog.{kind} '{first}' AND pg_catalog.{kind} '{last}'"
    return f"CASE WHEN {value} BETWEEN {ends} THEN {value} END"


TEXT_READING: ColumnReading = (_text_sql, "large_string")

SQL_BY_TYPE: dict[str, ColumnReading] = {
    "bool": (lambda column: f"{column}::pg_catalog.bool", "bool"),
    **dict.fromkeys(("int2", "int4", "int8"), (_bigint_sql, "int64")),
    "float4": (lambda column: f"{column}::pg_catalog.float4", "float"),
    "float8": (lambda column: f"{column}::pg_catalog.float8", "double"),
    "numeric": (_number_sql, "large_string"),
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "name", "uuid"), TEXT_READING),
    "date": (_date_sql, "date32"),
    "timestamp": (_timestamp_sql, "timestamp[us]"),
    "timestamptz": (_timestamptz_sql, "timestamp[us, tz=UTC]"),
}
"""The SQL of values and the Arrow type, by the catalogue's name of a type."""

DECIMAL = "DECIMAL"


def column_request(name: str, stored: StoredColumn, column: Column) -> ColumnQuery:
    """Return how a declared column is read: as NULL if its type may have lost the original values.

    Raises DataError: DP-DATA-004 for a type whose values are not read.
    """
    import pyarrow as pa

    way = _reading_of_type(stored)
    if way is None:
        kind = getattr(column, "type", "cut")
        fix = DECODE.format(column=name) if are_bytes(stored.type) else CONVERT
        raise DataError("DP-DATA-004", column=name, physical=stored.type, declared=kind, way=fix)
    if stored.type == "numeric" and may_lose_values(column, DECIMAL):
        return ColumnQuery(
            "NULL::pg_catalog.text", pa.decimal128(38, 0)
        )  # refused where it is used
    write, arrow = way
    return ColumnQuery(write(f"t.{quoting.identifier(name)}"), _arrow_type(arrow))


def has_readable_type(stored: StoredColumn) -> bool:
    """Return whether values of a column's type are read."""
    return _reading_of_type(stored) is not None


def _reading_of_type(stored: StoredColumn) -> ColumnReading | None:
    """Return how a column of this stored type is read; None if it can't be read."""
    if stored.kind == ENUM_CODE or (stored.type, stored.origin) == (CITEXT, CITEXT):
        return TEXT_READING
    return SQL_BY_TYPE.get(stored.type) if stored.origin == "pg_catalog" else None


def _arrow_type(name: str) -> pa.DataType:
    import pyarrow as pa

    if name.startswith("timestamp"):
        return pa.timestamp("us", "UTC" if "UTC" in name else None)
    return {
        "bool": pa.bool_(),
        "int64": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date32": pa.date32(),
        "large_string": pa.large_string(),
    }[name]


def select_sql(columns: Sequence[ColumnQuery], schema: str, table: str) -> str:
    """Return the statement that reads columns of a table; without columns, it reads 1s."""
    values = ", ".join(f"{one.sql} AS c{i}" for i, one in enumerate(columns)) or "1 AS c0"
    return f"SELECT {values} FROM {quoting.identifier(schema)}.{quoting.identifier(table)} AS t"
