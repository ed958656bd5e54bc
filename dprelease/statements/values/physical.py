"""Types in which a source stores columns, grouped into families with the same meaning."""

from __future__ import annotations

import re

SMALL_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
WIDE_INTEGERS = frozenset({"UBIGINT", "HUGEINT", "UHUGEINT"})
INTEGERS = SMALL_INTEGERS | WIDE_INTEGERS
EXACT_FLOATS = {"FLOAT": 2**24, "DOUBLE": 2**53}
"""Floats, and the number up to which each of them holds every integer."""

FLOATS = frozenset(EXACT_FLOATS)
TEXTS = frozenset({"VARCHAR", "ENUM", "JSON"})
TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"})
ZONED_MS = "TIMESTAMP_MS WITH TIME ZONE"
"""Milliseconds in UTC: the engine stores them as `TIMESTAMP_MS`, and has no zoned type for them."""

INT96 = "INT96"
"""Instants in UTC, as programs that write such Parquet intend; the engine reads `TIMESTAMP`."""

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
"""Stored types by the meaning of their values; a type of no family can't be read at all.

Times of day are among those: the engine fails at one that lies outside a day. Bytes, lists and
durations are not values of any declared type.
"""

FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}

OBJECTS = "OBJECT"
"""pandas' name for columns of Python objects, which is no type of the engine."""

OF_OBJECTS = ("BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP")
"""The engine's types of columns of Python objects of one type that lose nothing, except texts."""

DECLARED_AS = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "category": "VARCHAR",
    "text": "VARCHAR",
}
"""The stored type that a plan assumes when the source is not available."""


def base_type(physical: str) -> str:
    """Return a DuckDB type without its parameters; LIST for any array or list."""
    name = physical.upper().strip().strip('"')
    if name.endswith("]"):
        return "LIST"
    return re.sub(r"\(.*\)", "", name).strip()
