"""The base class of source types: what is known of a type before any source is opened.

`exact.sources.source_reader.SourceReader` is the other half: it opens sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from dprelease.schema.source_types.equality import Rule
from dprelease.system.lake_tables import Problem

TEXT_OPTIONS = ("encoding", "compression", "decimal", "thousands")
TIME_OPTIONS = ("date_format", "timestamp_format")
SHEET_OPTIONS = ("sheet", "header")
OPTIONS = ("delimiter", "quote", "nulls", *TEXT_OPTIONS, *TIME_OPTIONS, *SHEET_OPTIONS)
"""All keys of `source` that only some types have."""


class SourceType:
    """A type of source, such as CSV. Every default does nothing, or refuses.

    A subclass is one file of `schema.source_types`, which declares `SOURCE_TYPE`, an instance.
    """

    name: ClassVar[str]
    """What `format` in a schema declares."""
    label: ClassVar[str]
    """The type in messages, as in "can't be read as a SQLite file"."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of file names, in lower case, by which the type is inferred."""
    schemes: ClassVar[tuple[str, ...]] = ()
    """Beginnings of addresses, of a type that is on a server and has no files."""
    options: ClassVar[tuple[str, ...]] = ()
    """Those of `OPTIONS` that a schema may declare; all others are refused."""
    has_tables: ClassVar[bool] = False
    """Whether a source has several tables, one of which a schema must name."""
    has_uris: ClassVar[bool] = False
    """Whether Spark reads files of this type from other file systems, by their URI."""
    is_read_by_spark: ClassVar[bool] = False
    """Whether the engine spark reads local files of this type."""
    has_texts_for_booleans: ClassVar[bool] = False
    """Whether truth values may be stored as texts, of which `check` notes what counts as one."""
    side_files: ClassVar[tuple[str, ...]] = ()
    """Endings of files next to a database file that its engine would open as well."""
    comparisons: ClassVar[Mapping[str, Rule] | None] = None
    """How the source compares texts otherwise than by their characters, by its own name for it.

    `BY_CHARACTERS` if it never does. None, if nobody has found out: then no column is an id or a
    join key, because one person could be stored in two spellings that the source takes for equal.
    """

    @property
    def is_compressible(self) -> bool:
        """Return whether its files may be compressed."""
        return "compression" in self.options

    def check_options(self, options: Mapping[str, object]) -> None:
        """Refuse, by `field_types.refuse`, values of options that contradict each other."""

    def check_address(self, address: str) -> None:
        """Refuse, by `field_types.refuse`, an address that a schema may not contain."""

    def find_problem(self, files: Sequence[Path]) -> Problem | None:
        """Return why not all rows of files count, and what to do, from their names alone."""
        return None
