"""What a source stores columns as, in families of types that mean the same."""

from __future__ import annotations

import re

SMALL_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
WIDE_INTEGERS = frozenset({"UBIGINT", "HUGEINT", "UHUGEINT"})
INTEGERS = SMALL_INTEGERS | WIDE_INTEGERS
EXACT_FLOATS = {"FLOAT": 2**24, "DOUBLE": 2**53}
"""Floats, and up to where each of them holds every whole number."""

FLOATS = frozenset(EXACT_FLOATS)
TEXTS = frozenset({"VARCHAR", "ENUM", "JSON"})
TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"})
ZONED_MS = "TIMESTAMP_MS WITH TIME ZONE"
"""Milliseconds of Greenwich: the engine has them as `TIMESTAMP_MS`, and no type that says so."""

INT96 = "INT96"
"""Instants of Greenwich, as those who write such Parquet mean them: the engine has `TIMESTAMP`."""

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
"""Stored types by what their values are; a type of no family can't be read at all.

Times of day are among those: the engine stops at one that lies beyond a day, and bytes, lists and
durations are no value of any declared type.
"""

FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}

OBJECTS = "OBJECT"
"""What pandas calls columns of Python objects, which is no type of the engine."""

OF_OBJECTS = ("BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP")
"""The engine's types of columns of such objects alone, but for texts, in which nothing is lost."""

DECLARED_AS = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "category": "VARCHAR",
    "text": "VARCHAR",
}
"""The physical type that a plan assumes when the source is not there to be asked."""


def base_type(physical: str) -> str:
    """Return a DuckDB type without its parameters; LIST for any array or list."""
    name = physical.upper().strip().strip('"')
    if name.endswith("]"):
        return "LIST"
    return re.sub(r"\(.*\)", "", name).strip()
