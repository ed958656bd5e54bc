"""The base class of source types: the properties of a type that need no open source.

`exact.sources.source_reader.SourceReader` is the counterpart that opens sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dprelease.system.lake_tables import LOCAL_TREE, FolderTree, Problem

OTHER = "another collation"
"""The name of an unlisted collation, by which any texts may be equal."""

ALIKE = "min({column}) OVER (PARTITION BY {column})"
"""SQL that gives one spelling to all texts of a table that its source treats as equal."""


@dataclass(frozen=True, slots=True)
class EqualityRule:
    """Texts that a source treats as equal, and SQL of the source that gives them one spelling."""

    equal: str
    spelled: str = ALIKE


CASE = "'X1' and 'x1' are equal"
BLANKS = "'X1' and 'X1 ' are equal"
ACCENTS = "'é' and 'e' are equal"
FORMS = "the two Unicode forms of 'é' are equal"
ANY = "texts that differ may be equal"

BY_CHARACTERS: Mapping[str, EqualityRule] = {}
"""The comparisons of a source without collations, which compares texts by their characters."""


TEXT_OPTIONS = ("encoding", "compression", "decimal", "thousands")
TIME_OPTIONS = ("date_format", "timestamp_format", "pivot")
LINE_OPTIONS = ("skip", "comment", "until", "footer", "ragged", "names", "escape")
SHEET_OPTIONS = ("sheet", "header", "merged")
NOTE_OPTIONS = ("until", "footer")
VERSION_OPTIONS = ("version", "snapshot")
MAPPING_OPTIONS = ("columns", "constants", "codes")
OPTIONS = (
    *MAPPING_OPTIONS,
    "delimiter",
    "quote",
    "nulls",
    *TEXT_OPTIONS,
    *TIME_OPTIONS,
    *LINE_OPTIONS,
    *SHEET_OPTIONS,
    *VERSION_OPTIONS,
)
"""All keys of `source` that only some source types support."""


class SourceType:
    """A type of source, such as CSV. Every default method does nothing or refuses.

    A subclass is one file of `schema.source_types`, which declares `SOURCE_TYPE`, an instance.
    """

    name: ClassVar[str]
    """The name of the type under `format` in a schema."""
    label: ClassVar[str]
    """The text for the type in messages, as in "can't be read as a SQLite file"."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """The endings of file names, in lower case, from which the type is inferred."""
    schemes: ClassVar[tuple[str, ...]] = ()
    """The beginnings of addresses, for a type of server."""
    options: ClassVar[tuple[str, ...]] = ()
    """The keys among `OPTIONS` that a schema may declare for the type; others are refused."""
    has_tables: ClassVar[bool] = False
    """Whether a source has several tables, one of which a schema must name."""
    has_uris: ClassVar[bool] = False
    """Whether Spark reads files of this type from other file systems, by their URI."""
    is_read_from_stores: ClassVar[bool] = False
    """Whether the engine duckdb reads files of this type from stores, such as s3://."""
    is_read_by_spark: ClassVar[bool] = False
    """Whether the engine spark reads local files of this type."""
    has_texts_for_booleans: ClassVar[bool] = False
    """Whether booleans may be stored as texts; then `check` notes which texts are booleans."""
    version_key: ClassVar[str | None] = None
    """The key among `VERSION_OPTIONS` that names a version, for tables that have several."""
    side_files: ClassVar[tuple[str, ...]] = ()
    """The endings of files next to a database file that the database would open as well."""
    comparisons: ClassVar[Mapping[str, EqualityRule] | None] = None
    """The rules by which the source compares texts other than by their characters, by name.

    `BY_CHARACTERS` says that there are none. None says that the rules are unknown: then no column
    can be an id or a join key, because one person could have two spellings that the source treats
    as equal.
    """

    @property
    def is_compressible(self) -> bool:
        """Whether files of this type may be compressed."""
        return "compression" in self.options

    def check_options(self, options: Mapping[str, object]) -> None:
        """Refuse, by `field_types.refuse`, values of options that contradict each other."""

    def check_address(self, address: str) -> None:
        """Refuse, by `field_types.refuse`, an address that a schema may not contain."""

    def table_folder(self, path: str) -> str | None:
        """Return the folder of a table whose log names the files with its rows; None for others."""
        return None

    def find_problem(self, files: Sequence[Path], tree: FolderTree = LOCAL_TREE) -> Problem | None:
        """Return why files, by their names, are not a complete table, and the fix; or None."""
        return None
