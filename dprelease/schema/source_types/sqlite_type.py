"""Tables of SQLite files, as a schema declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dprelease.schema.source_types.source_type import (
    ANY,
    BLANKS,
    CASE,
    OTHER,
    TIME_OPTIONS,
    EqualityRule,
    SourceType,
)


class SQLite(SourceType):
    """A table of a SQLite file, whose cells have their own types."""

    name = "sqlite"
    label = "a SQLite file"
    suffixes = (".sqlite", ".sqlite3")
    options = TIME_OPTIONS
    has_tables = True
    has_texts_for_booleans = True
    side_files = ("-wal", "-journal", "-shm")
    comparisons: ClassVar[Mapping[str, EqualityRule]] = {
        "COLLATE NOCASE": EqualityRule(CASE, "lower({column})"),
        "COLLATE RTRIM": EqualityRule(BLANKS, "rtrim({column})"),
        OTHER: EqualityRule(ANY),
    }


SOURCE_TYPE = SQLite()
