"""Tables of DuckDB files, as a schema declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dprelease.schema.source_types.equality import ACCENTS, ANY, CASE, FORMS, OTHER, Rule
from dprelease.schema.source_types.source_type import SourceType


class DuckDB(SourceType):
    """A table of a DuckDB file."""

    name = "duckdb"
    label = "a DuckDB file"
    suffixes = (".duckdb", ".db")
    has_tables = True
    side_files = (".wal", ".wal.checkpoint", ".wal.recovery")
    comparisons: ClassVar[Mapping[str, Rule]] = {
        "COLLATE NOCASE": Rule(CASE, "lower({column})"),
        "COLLATE NOACCENT": Rule(ACCENTS, "strip_accents({column})"),
        "COLLATE NOCASE.NOACCENT": Rule(CASE, "lower(strip_accents({column}))"),
        "COLLATE NOACCENT.NOCASE": Rule(CASE, "lower(strip_accents({column}))"),
        "COLLATE NFC": Rule(FORMS, "nfc_normalize({column})"),
        OTHER: Rule(ANY),
    }


SOURCE_TYPE = DuckDB()
