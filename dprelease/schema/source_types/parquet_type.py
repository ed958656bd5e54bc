"""Parquet files, as a schema declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from dprelease.schema.source_types.source_type import (
    ANY,
    BLANKS,
    CASE,
    MAPPING_OPTIONS,
    OTHER,
    EqualityRule,
    SourceType,
)
from dprelease.system.lake_tables import LOCAL_TREE, FolderTree, Problem, lake_problem


class Parquet(SourceType):
    """Parquet files. The format has no collations, but Spark notes some in its files."""

    name = "parquet"
    label = "Parquet"
    suffixes = (".parquet", ".pq")
    options = MAPPING_OPTIONS
    has_uris = True
    is_read_from_stores = True
    is_read_by_spark = True
    comparisons: ClassVar[Mapping[str, EqualityRule]] = {
        "COLLATE UTF8_LCASE": EqualityRule(CASE, "lower({column})"),
        "COLLATE UTF8_BINARY_RTRIM": EqualityRule(BLANKS, "rtrim({column})"),
        OTHER: EqualityRule(ANY),
    }

    def find_problem(self, files: Sequence[Path], tree: FolderTree = LOCAL_TREE) -> Problem | None:
        """Return the problem of files that belong to a table of Delta Lake or similar systems."""
        return lake_problem(files, tree)


SOURCE_TYPE = Parquet()
