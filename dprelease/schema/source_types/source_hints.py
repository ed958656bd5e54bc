"""The hints that messages give for wrongly declared sources."""

from __future__ import annotations

from typing import NoReturn

from dprelease.schema.field_types import refuse
from dprelease.schema.source_types.registry import SOURCE_TYPES
from dprelease.system.stores import address as stores

ONE_OF = "declare a path or a frame, or, for Spark's catalogue, a table without a format"
NAME_IT = (
    f"name it: source: {{path: ..., format: {' | '.join(SOURCE_TYPES)}}}; a folder of Parquet "
    "files ends in /"
)
NAME_TABLE = "name it: source: {path: ..., table: ...}"
NO_PART = "export its rows to Parquet or CSV, or declare a table of its own"
NO_TABLE = "remove `table`, or declare the `format` if it is a file of DuckDB or SQLite"
PATHS = (
    f"use the path of a file, a URI with {stores.SCHEMES_TEXT}, for Spark another URI of Parquet, "
    "or postgresql://server/database with a `table` and no other format"
)
NO_PASSWORD = "remove it: whoever reads the table must get it from elsewhere"


def refuse_source(reason: str, way: str) -> NoReturn:
    """Raise DP-SCHEMA-011 with the problem of a source, and with a hint."""
    refuse("DP-SCHEMA-011", reason=reason, way=way)
