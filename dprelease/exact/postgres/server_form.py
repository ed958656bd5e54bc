"""Read a PostgreSQL table's description from the catalogue, for a first schema; reads no row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dprelease.errors import DataError
from dprelease.exact.postgres.server_link import SERVER_TABLE, Link, ServerError, open_servers
from dprelease.exact.postgres.server_rows import describe_table
from dprelease.exact.postgres.server_types import ENUM_CODE, StoredColumn, has_readable_type
from dprelease.exact.reading.sources import source_fields
from dprelease.schema.load import Declared, table_from_mapping

ValueT = TypeVar("ValueT")

PROPOSED_TYPES = {
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "float4": "number",
    "float8": "number",
    "numeric": "number",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
}
"""The proposed type for each type of the server; for other types that can be read, it is text."""

MOST_LABELS = 1_000
"""Maximum labels of an enumeration that are proposed as the values of a category."""

HAS_CHILDREN_SQL = """
EXISTS (
  SELECT FROM pg_catalog.pg_class AS r
  WHERE r.oid = {oid} AND r.relkind = 'r' AND r.relhassubclass
)
"""
"""SQL: whether a table has children. Unlike partitions, these need not satisfy its constraints."""

KNOWN_COLUMNS_SQL = f"""
WITH RECURSIVE known(place, name, kind, digits, is_required) AS (
  SELECT a.attnum, a.attname, a.atttypid, a.atttypmod,
    a.attnotnull AND NOT {HAS_CHILDREN_SQL} AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_constraint AS c
    WHERE c.conrelid = a.attrelid AND c.contype = 'n' AND a.attnum = ANY (c.conkey)
      AND NOT c.convalidated
  )
  FROM pg_catalog.pg_attribute AS a
  WHERE a.attrelid = {{oid}} AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT k.place, k.name, t.typbasetype, t.typtypmod, t.typnotnull
  FROM known AS k JOIN pg_catalog.pg_type AS t ON t.oid = k.kind WHERE t.typtype = 'd'
)
"""
"""SQL: columns with their types and the types of their domains, and whether each refuses NULL."""

LABELS_SQL = f"""
{KNOWN_COLUMNS_SQL}
SELECT k.name::pg_catalog.text, e.enumlabel::pg_catalog.text
FROM known AS k JOIN pg_catalog.pg_enum AS e ON e.enumtypid = k.kind
ORDER BY k.place, e.enumsortorder
"""
"""SQL: the labels of enumeration columns, in the order of the labels."""

REQUIRED_SQL = (
    f"{KNOWN_COLUMNS_SQL} SELECT k.name::pg_catalog.text FROM known AS k WHERE k.is_required"
)
"""SQL: the columns that are never NULL, by constraints of their own or of a domain."""

CHECKS_SQL = f"""
{KNOWN_COLUMNS_SQL}
SELECT a.attname::pg_catalog.text, a.attname::pg_catalog.text,
  pg_catalog.pg_get_expr(c.conbin, c.conrelid)
FROM pg_catalog.pg_constraint AS c
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
WHERE c.conrelid = {{oid}} AND c.contype = 'c' AND c.convalidated
  AND NOT (c.connoinherit AND {HAS_CHILDREN_SQL})
UNION ALL
SELECT k.name::pg_catalog.text, 'VALUE', pg_catalog.pg_get_expr(c.conbin, 0)
FROM known AS k JOIN pg_catalog.pg_constraint AS c ON c.contypid = k.kind
WHERE c.contype = 'c' AND c.convalidated
"""
"""SQL: those checks of columns and of their domains that hold for every row, as the server writes
them. Checks that were added as NOT VALID, or that parts of a table need not satisfy, are left out.
"""

WRITTEN_TYPES_SQL = f"""
{KNOWN_COLUMNS_SQL}
SELECT k.name::pg_catalog.text, pg_catalog.format_type(k.kind, k.digits)
FROM known AS k JOIN pg_catalog.pg_type AS t ON t.oid = k.kind AND t.typtype <> 'd'
"""
"""SQL: the types of columns, or of their domains, as written, with their numbers of digits."""

NUMERIC_TYPE = re.compile(r"numeric\((\d+),(\d+)\)")


class Check(NamedTuple):
    """A condition on the values of a column; `name`: the name of the column in the condition."""

    name: str
    condition: str


@dataclass(frozen=True, slots=True)
class ServerTable:
    """A table of a server as its catalogue describes it.

    `columns`: the proposed type of each column, or the reason why it can't be used. `labels`: the
    labels of columns with enumerations. `digits`: the step and the largest number that a column's
    type can store. `checks`: the server's constraints on columns. `required`: the columns that are
    never missing. `collations`: the comparisons of columns that the server does not compare
    character by character.
    """

    declared: Declared
    columns: Mapping[str, str]
    labels: Mapping[str, tuple[str, ...]]
    digits: Mapping[str, tuple[Fraction, Fraction]]
    checks: Mapping[str, tuple[Check, ...]]
    required: frozenset[str]
    collations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _CatalogueRows:
    """The catalogue's rows about a table."""

    columns: list[StoredColumn]
    labels: dict[str, list[str]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    checks: dict[str, list[Check]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()


def describe_server_table(address: str, table: str) -> ServerTable:
    """Return a server's catalogue description of one of its tables.

    Raises DataError: DP-DATA-001 if there is no such table, 014 if it is not a stored table, 024
    for a server or a table that can't be read, 025 without the driver. Raises SchemaError:
    DP-SCHEMA-020 or 021 for an address that a schema may not contain.
    """
    declared = _declare_table(address, table, {"n": "integer"})
    held: _CatalogueRows | None = None
    with open_servers([declared]) as servers:
        link = servers.link(declared)
        try:
            held = _read_catalogue(link, declared)
        except ServerError:
            held = None
    if held is None:
        raise DataError("DP-DATA-001", **source_fields(declared), format=SERVER_TABLE)
    kinds = {column.name: _propose_type(column, held.labels) for column in held.columns}
    digits = {name: _step_and_largest(text) for name, text in held.written.items()}
    # Reasons have blanks, and types have none.
    usable = {name: kind for name, kind in kinds.items() if " " not in kind}
    return ServerTable(
        _declare_table(
            address, table, {n: "text" if k == ENUM_CODE else k for n, k in usable.items()}
        ),
        {name: "text" if kind == ENUM_CODE else kind for name, kind in kinds.items()},
        {name: tuple(held.labels[name]) for name, kind in kinds.items() if kind == ENUM_CODE},
        {name: found for name, found in digits.items() if found is not None},
        {name: tuple(checks) for name, checks in held.checks.items()},
        held.required,
        {column.name: column.comparison for column in held.columns if column.comparison},
    )


def _read_catalogue(link: Link, declared: Declared) -> _CatalogueRows | None:
    """Return what the catalogue of the server says about a table; None if there is no table."""
    found = describe_table(link, declared)
    if found is None:
        return None

    def catalogue_rows(sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about the table's object id."""
        return link.ask(sql.format(oid=found.oid))

    return _CatalogueRows(
        found.columns,
        _group_by_name(catalogue_rows(LABELS_SQL)),
        dict(catalogue_rows(WRITTEN_TYPES_SQL)),
        _group_by_name((name, Check(*check)) for name, *check in catalogue_rows(CHECKS_SQL)),
        frozenset(name for (name,) in catalogue_rows(REQUIRED_SQL)),
    )


def _group_by_name(pairs: Iterable[tuple[str, ValueT]]) -> dict[str, list[ValueT]]:
    """Return the values of each name, in the order of the pairs."""
    found: dict[str, list[ValueT]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _propose_type(column: StoredColumn, labels: Mapping[str, list[str]]) -> str:
    """Return the proposed type of a column, or why it can't be used; `ENUM_CODE` for labels."""
    if column.is_computed:
        return "generated columns can't be used"
    if not has_readable_type(column):
        return f"{column.type} columns can't be used"
    if column.kind == ENUM_CODE:
        return ENUM_CODE if len(labels.get(column.name, ())) <= MOST_LABELS else "text"
    return PROPOSED_TYPES.get(column.type, "text") if column.origin == "pg_catalog" else "text"


def _step_and_largest(written: str) -> tuple[Fraction, Fraction] | None:
    """Return the step and the largest value of a type with declared digits; None for others."""
    match = NUMERIC_TYPE.fullmatch(written)
    if match is None:
        return None
    whole, decimals = int(match[1]), int(match[2])
    step = Fraction(1, 10**decimals)
    return step, (10**whole - 1) * step


def _declare_table(address: str, table: str, columns: Mapping[str, str]) -> Declared:
    """Return a table of a server with columns of these types."""
    source = {"path": address, "table": table}
    kinds: dict[str, object] = {name: {"type": kind} for name, kind in columns.items()}
    return table_from_mapping({"table": "t", "source": source, "columns": kinds}, Path())
