"""The types in which sources store columns, grouped into families of the same kind of values."""

from __future__ import annotations

import re

SMALL_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
WIDE_INTEGERS = frozenset({"UBIGINT", "HUGEINT", "UHUGEINT"})
INTEGERS = SMALL_INTEGERS | WIDE_INTEGERS
EXACT_FLOATS = {"FLOAT": 2**24, "DOUBLE": 2**53}
"""The float types, each with the number up to which the type holds every integer."""

FLOATS = frozenset(EXACT_FLOATS)
TEXTS = frozenset({"VARCHAR", "ENUM", "JSON"})
TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"})
ZONED_MS = "TIMESTAMP_MS WITH TIME ZONE"
"""Timestamps in UTC to the millisecond: the engine has only the unzoned type `TIMESTAMP_MS`."""

INT96 = "INT96"
"""A Parquet type whose writers mean timestamps in UTC; the engine reads them as `TIMESTAMP`."""

ZONED = frozenset(
    {"TIMESTAMP WITH TIME ZONE", ZONED_MS, INT96, "TIMESTAMPTZ_NS", "TIMESTAMP_NS WITH TIME ZONE"}
)

FAMILIES = {
    "integers": INTEGERS,
    "floats": FLOATS,
    "decimals": frozenset({"DECIMAL"}),
    "texts": TEXTS,
    "truth values": frozenset({"BOOLEAN"}),
    "days": frozenset({"DATE"}),
    "instants": TIMES | ZONED,
    "identifiers": frozenset({"UUID"}),
    "nothing": frozenset({"NULL"}),
}
"""The stored types of each family; columns of a type without a family can't be read at all.

Times of day have no family, because the engine fails at a time outside of a day. Bytes, lists and
durations have none, because they are not values of any declared type.
"""

FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}

OBJECTS = "OBJECT"
"""The name in pandas for columns of Python objects; the engine has no such type."""

OF_OBJECTS = ("BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP")
"""Types, except texts, to which the engine converts Python objects of one class without loss."""

DECLARED_AS = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "category": "VARCHAR",
    "text": "VARCHAR",
}
"""The stored type that a plan assumes for each declared type if the source is not available."""


def are_bytes(physical: str) -> bool:
    """Return whether a stored type of the engine, Arrow or pandas is one of bytes."""
    name = physical.lower()
    return name in ("blob", "bytea", "bytes") or "binary" in name


def base_type(physical: str) -> str:
    """Return a DuckDB type without its parameters; LIST for any array or list."""
    name = physical.upper().strip().strip('"')
    if name.endswith("]"):
        return "LIST"
    return re.sub(r"\(.*\)", "", name).strip()
