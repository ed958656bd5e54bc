"""Tables of DuckDB files, as a schema declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dprelease.schema.source_types.source_type import (
    ACCENTS,
    ANY,
    CASE,
    FORMS,
    OTHER,
    EqualityRule,
    SourceType,
)


class DuckDB(SourceType):
    """A table of a DuckDB file."""

    name = "duckdb"
    label = "a DuckDB file"
    suffixes = (".duckdb", ".db")
    has_tables = True
    side_files = (".wal", ".wal.checkpoint", ".wal.recovery")
    comparisons: ClassVar[Mapping[str, EqualityRule]] = {
        "COLLATE NOCASE": EqualityRule(CASE, "lower({column})"),
        "COLLATE NOACCENT": EqualityRule(ACCENTS, "strip_accents({column})"),
        "COLLATE NOCASE.NOACCENT": EqualityRule(CASE, "lower(strip_accents({column}))"),
        "COLLATE NOACCENT.NOCASE": EqualityRule(CASE, "lower(strip_accents({column}))"),
        "COLLATE NFC": EqualityRule(FORMS, "nfc_normalize({column})"),
        OTHER: EqualityRule(ANY),
    }


SOURCE_TYPE = DuckDB()
