"""What the catalogue of a PostgreSQL server says of a table, for a first schema: no row is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dprelease.errors import DataError
from dprelease.exact.postgres.server_link import KIND, Link, ServerError, servers_of
from dprelease.exact.postgres.server_rows import described
from dprelease.exact.postgres.server_types import ENUM, StoredColumn, is_read
from dprelease.exact.reading.sources import named
from dprelease.schema.load import Declared, table_from_mapping

KINDS = {
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
"""By the name of a type of the server's own, what to propose; all else that is read is a text."""

MOST_LABELS = 1_000
"""Labels of an enumeration that are proposed as the values of a category."""

LABELS = """
WITH RECURSIVE known(place, name, kind) AS (
  SELECT a.attnum, a.attname, a.atttypid
  FROM pg_catalog.pg_attribute AS a
  WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT k.place, k.name, t.typbasetype
  FROM known AS k JOIN pg_catalog.pg_type AS t ON t.oid = k.kind WHERE t.typtype = 'd'
)
SELECT k.name::pg_catalog.text, e.enumlabel::pg_catalog.text
FROM known AS k JOIN pg_catalog.pg_enum AS e ON e.enumtypid = k.kind
ORDER BY k.place, e.enumsortorder
"""
"""The labels of columns that are enumerations, as these list them."""

WRITTEN = """
SELECT a.attname::pg_catalog.text, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
"""The types of columns as they are written, with their digits."""

NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class ServerForm:
    """A table of a server as its catalogue describes it.

    `columns`: what to propose for each, or why it can't be used. `labels`: of enumerations.
    `digits`: the step and the largest number that a type has room for.
    """

    declared: Declared
    columns: Mapping[str, str]
    labels: Mapping[str, tuple[str, ...]]
    digits: Mapping[str, tuple[Fraction, Fraction]]


def server_form(address: str, table: str) -> ServerForm:
    """Return what the catalogue of a server says of one of its tables.

    Raises
    ------
    DataError
        DP-DATA-001 where there is no such table, 014 for what is no stored table, 024 for a server
        or a table that can't be read, 025 without the driver.
    SchemaError
        DP-SCHEMA-020 or 021 for an address that may not stand in a schema.
    """
    declared = _declared(address, table, {"n": "integer"})
    held: tuple[list[StoredColumn], dict[str, list[str]], dict[str, str]] | None = None
    with servers_of([declared]) as servers:
        link = servers.link(declared)
        try:
            held = _held(link, declared)
        except ServerError:
            held = None
    if held is None:
        raise DataError("DP-DATA-001", **named(declared), format=KIND)
    stored, labels, written = held
    kinds = {column.name: _kind(column, labels) for column in stored}
    digits = {name: _digits(text) for name, text in written.items()}
    usable = {name: kind for name, kind in kinds.items() if " " not in kind}
    return ServerForm(
        _declared(address, table, {n: "text" if k == ENUM else k for n, k in usable.items()}),
        {name: "text" if kind == ENUM else kind for name, kind in kinds.items()},
        {name: tuple(labels[name]) for name, kind in kinds.items() if kind == ENUM},
        {name: found for name, found in digits.items() if found is not None},
    )


def _held(
    link: Link, declared: Declared
) -> tuple[list[StoredColumn], dict[str, list[str]], dict[str, str]] | None:
    found = described(link, declared)
    if found is None:
        return None
    labels: dict[str, list[str]] = {}
    for name, label in link.ask(LABELS.format(oid=found.oid)):
        labels.setdefault(name, []).append(label)
    return found.columns, labels, dict(link.ask(WRITTEN.format(oid=found.oid)))


def _kind(column: StoredColumn, labels: Mapping[str, list[str]]) -> str:
    """Return the type to propose, `ENUM` for a list of labels; words for what can't be used."""
    if column.is_computed:
        return "generated columns can't be used"
    if not is_read(column):
        return f"{column.type} columns can't be used"
    if column.kind == ENUM:
        return ENUM if len(labels.get(column.name, ())) <= MOST_LABELS else "text"
    return KINDS.get(column.type, "text") if column.origin == "pg_catalog" else "text"


def _digits(written: str) -> tuple[Fraction, Fraction] | None:
    """Return step and largest value of a number of declared digits; None for other types."""
    match = NUMERIC.fullmatch(written)
    if match is None:
        return None
    whole, decimals = int(match[1]), int(match[2])
    step = Fraction(1, 10**decimals)
    return step, (10**whole - 1) * step


def _declared(address: str, table: str, columns: Mapping[str, str]) -> Declared:
    """Return a table of a server with columns of these types."""
    source = {"path": address, "table": table}
    kinds: dict[str, object] = {name: {"type": kind} for name, kind in columns.items()}
    return table_from_mapping({"table": "t", "source": source, "columns": kinds}, Path())
