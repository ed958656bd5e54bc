"""Source types without a `format`: data passed by a program, and tables of Spark's catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dprelease.schema.source_types.duckdb_type import DuckDB
from dprelease.schema.source_types.parquet_type import Parquet
from dprelease.schema.source_types.source_type import (
    BY_CHARACTERS,
    OPTIONS,
    EqualityRule,
    SourceType,
)

FILES = "files"
"""The name of the source type of several files."""


class Frame(SourceType):
    """A data frame or an Arrow table."""

    name = "frame"
    label = "a frame"
    comparisons = BY_CHARACTERS


class Relation(SourceType):
    """A DuckDB relation over any source."""

    name = "relation"
    label = "a relation"
    comparisons: ClassVar[Mapping[str, EqualityRule]] = {
        words: EqualityRule(rule.equal, f"{rule.spelled} COLLATE C")
        for words, rule in DuckDB.comparisons.items()
    }


class Catalogue(SourceType):
    """A table of Spark's catalogue.

    Columns with collations, or padded with blanks, are not read at all (DP-SPARK-002).
    """

    name = "catalogue"
    label = "a table of Spark's catalogue"
    has_tables = True
    is_read_by_spark = True
    comparisons = BY_CHARACTERS


class Files(SourceType):
    """Several files, each of which is read by the reader of its own type."""

    name = FILES
    label = "a source with `files`"
    options = OPTIONS
    has_texts_for_booleans = True
    comparisons: ClassVar[Mapping[str, EqualityRule]] = Parquet.comparisons


WITHOUT_FORMAT = {one.name: one for one in (Frame(), Relation(), Catalogue(), Files())}
"""The source types of this module by name."""
