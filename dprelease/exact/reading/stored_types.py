"""Find the types of Parquet files from their metadata, and join files whose types differ.

Files of one source may store a column with different types, for example floats in the one file in
which a value is missing, and integers in all others. Each file is read by its own types, so that no
file decides how another file is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from dprelease.errors import DataError
from dprelease.exact.reading.sources import stored_columns
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.values.physical import (
    DECLARED_AS,
    FLOATS,
    INT96,
    SMALL_INTEGERS,
    ZONED_MS,
    base_type,
)
from dprelease.statements.values.source_equality import is_no_id

Types = Mapping[str, str]
"""The engine's types of a file's columns, by name."""

MILLISECOND_TIMESTAMP = "TIMESTAMP_MS"
"""The type of timestamps in milliseconds. The engine converts them to microseconds when it reads
Parquet files, and fails at values that do not fit, so one value could stop a run. Arrow must read
them."""

IN_MILLISECONDS = frozenset({MILLISECOND_TIMESTAMP, ZONED_MS})

WIDE_DECIMAL = "DECIMAL256"
"""The type of decimals of more than 38 digits. The engine would convert them to floats, with wrong
rounding, so Arrow must read them."""

HALF_FLOAT = "FLOAT16"
"""Floats of 16 bits, which the engine converts to other numbers of 32 bits: 0.7001953 for 0.7."""

BYTE_ARRAY_TYPES = frozenset({"FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"})
"""Parquet types in which wide decimals and half floats are stored, unlike other floats."""

EXACT_TYPES = SMALL_INTEGERS | FLOATS | {"VARCHAR", "BOOLEAN", "DATE", "DECIMAL"}

SCHEMA_SQL = (
    "SELECT name, num_children, type, duckdb_type, logical_type, field_id FROM parquet_schema({})"
)
"""A statement that returns the metadata of a Parquet file's columns; it reads no row."""

SchemaRow = tuple[str, int | None, str | None, str | None, str | None, int | None]
"""A row of the result of `SCHEMA_SQL`."""


def top_level_rows(rows: Sequence[SchemaRow]) -> Iterator[SchemaRow]:
    """Yield the rows of a Parquet file's columns, without those of the parts of columns.

    `rows`: the result of `SCHEMA_SQL`, a tree in which a parent comes before its children.
    """
    skip = 0
    for row in rows[1:]:
        if skip == 0:
            yield row
        else:
            skip -= 1
        skip += row[1] or 0


def column_types(rows: Sequence[SchemaRow]) -> tuple[list[str], dict[str, str]]:
    """Return the names of a Parquet file's columns, in order, and the engine's types of them.

    `rows`: the result of `SCHEMA_SQL`.
    """
    names: list[str] = []
    types: dict[str, str] = {}
    for name, _, written, kind, detail, _ in top_level_rows(rows):
        names.append(name)
        detail = detail or ""
        types[name] = INT96 if written == INT96 else kind or "STRUCT"
        if written in BYTE_ARRAY_TYPES and kind == "DOUBLE":
            types[name] = WIDE_DECIMAL
        if written in BYTE_ARRAY_TYPES and kind == "FLOAT":
            types[name] = HALF_FLOAT
        if "MILLIS=MilliSeconds" in detail and "Timestamp" in detail:
            types[name] = ZONED_MS if "isAdjustedToUTC=1" in detail else MILLISECOND_TIMESTAMP
    return names, types


Part = tuple[str, Types, str]
"""A relation that has some of the rows, its types, and the name of its first file in messages."""


def group_by_types(
    files: Mapping[Path, Types], declared: Declared
) -> list[tuple[list[Path], Types]]:
    """Return runs of consecutive files whose declared columns have the same types, with the types.

    The result is empty if all files have the same types, because the engine then reads all of them
    at once.
    """
    names = stored_columns(declared)

    def widened_types(file: Path) -> Types:
        """Return the widened types of a file's columns; files with equal types are one group."""
        return {name: _widened_type(files[file][name]) for name in names if name in files[file]}

    runs = [(list(run), types) for types, run in groupby(files, widened_types)]
    return runs if len(runs) > 1 else []


def are_exact_types(kinds: Iterable[str]) -> bool:
    """Return whether the engine reads columns in exactly these types of a Parquet file's schema."""
    return all(base_type(kind) in EXACT_TYPES for kind in kinds)


def _widened_type(physical: str) -> str:
    """Return a type, with BIGINT for small integers, which the engine widens without loss."""
    return "BIGINT" if physical in SMALL_INTEGERS else physical


def millisecond_columns(stored: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the columns of timestamps that the engine can't read unchanged, with their types.

    `stored`: the types of each column in all files.
    """
    found = {
        name: MILLISECOND_TIMESTAMP if len(kinds) > 1 else max(kinds & IN_MILLISECONDS)
        for name, kinds in stored.items()
        if kinds & IN_MILLISECONDS
    }
    return found | {name: INT96 for name, kinds in stored.items() if kinds == {INT96}}


def union_sql(parts: Sequence[Part], declared: Declared) -> str:
    """Return SQL of a relation with all rows of several relations, in order.

    `parts`: the relations, which store columns with different types. A column is in all relations,
    or in none.

    Raises DataError: DP-DATA-004, 005 or 015 for an unusable type.
    """
    names = [name for name in stored_columns(declared) if name in parts[0][1]]
    differ = {name for name in names if len({types[name] for _, types, _ in parts}) > 1}
    selects = []
    for relation, types, file in parts:
        columns = [
            f"{_value_sql(name, types[name], declared, file)} AS {quoting.identifier(name)}"
            if name in differ
            else quoting.identifier(name)
            for name in names
        ]
        # A count of rows reads no column, but a SELECT needs one.
        selects.append(f"SELECT {', '.join(columns) or '1 AS one'} FROM {relation}")
    return f"({' UNION ALL '.join(selects)})"


def _value_sql(name: str, physical: str, declared: Declared, file: str) -> str:
    """Return SQL of a column in the type that it gets in all files; an error names the file."""
    column = declared.table.columns[name]
    kind = getattr(column, "type", "")
    # UBIGINT has numbers that BIGINT lacks, so no smaller type holds those of all files.
    target = "HUGEINT" if kind == "integer" else DECLARED_AS[kind]
    try:
        if name in declared.table.ids and is_no_id(physical):
            raise DataError("DP-DATA-005", column=name)
        return (
            f"CAST({typed_value_sql(name, column, physical, declared.table.time_zone)} AS {target})"
        )
    except DataError as error:
        error.add_file_to_cause(file)
        raise
