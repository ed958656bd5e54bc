"""The base class of readers, which open the sources of one source type.

The declarations of a source type are in `schema.source_types.source_type.SourceType`, which opens
no source.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.exact.reading.sources import OpenedSource
from dprelease.schema.load import Declared, table_from_mapping
from dprelease.schema.model import normalized_name
from dprelease.schema.public_values.key_files import are_valid_texts
from dprelease.schema.source_files import to_table_name
from dprelease.schema.source_texts import HeaderRows
from dprelease.schema.source_types.source import Source
from dprelease.schema.source_types.source_type import SourceType
from dprelease.schema.source_types.without_format import WITHOUT_FORMAT

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.detection.csv_layout import KeyValue
    from dprelease.exact.detection.dialect import DetectedFormat
    from dprelease.exact.inputs import Input
    from dprelease.exact.postgres.server_link import Servers
    from dprelease.exact.reading.store_copies import StoreCopies
    from dprelease.system.lake_tables import Problem

TEXT_OR_NUMBER = "text or number"
"""The proposed type of a column whose values may be texts or numbers."""

RunMetadataQuery = Callable[[str], list[Any]]
"""A function that runs a statement which reads no row about people, and returns its rows."""


@dataclass(frozen=True, slots=True)
class Description:
    """What `init` sees of a file: its columns, and the keys of `source`, but no value.

    `columns`: the names of the columns, in order, each with its proposed type or with the reason
    why the column can't be used. `source`: the keys of `source` other than its path. `header`: the
    names in the header, in order; a name may occur twice. `collations`: as in `OpenedSource`.
    `form`: for a text file, the format that was detected from its first bytes. `note`: a sentence
    for the schema on what has to be looked at. `labels`: the labels of the codes of columns, from
    the metadata of the file. `titles`: the labels of columns. `some_labels`: the codes with labels
    of columns in which other values have none. `several`: the names of the tables or sheets, if
    there are several and none was named. `problem`: why the file can't be read, if that is known.
    """

    columns: Sequence[tuple[str, str]] = ()
    source: Mapping[str, KeyValue] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    collations: Mapping[str, str] = field(default_factory=dict)
    form: DetectedFormat | None = None
    note: str = ""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    some_labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    several: tuple[str, ...] = ()
    problem: Problem | None = None

    def declare_table(self, file: Path) -> Declared:
        """Return a table that declares all columns of the file, as the texts of their cells."""
        names = [name for name, _ in self.columns if are_valid_texts([name])]
        different = {normalized_name(name): name for name in names}  # reading refuses the others
        columns: Mapping[str, object] = {name: {"type": "number"} for name in different.values()}
        source = {"path": str(file.absolute()), **self.source}
        name = to_table_name(file.name.partition(".")[0])
        return table_from_mapping({"table": name, "source": source, "columns": columns}, Path())


@dataclass(frozen=True, slots=True)
class Opening:
    """What an engine passes to a reader that opens a source.

    `servers`: the engine's connections to servers. `database`: the name under which the engine
    attaches a database file.
    """

    servers: Servers | None = None
    database: str = "dp_database"

    @property
    def copies(self) -> StoreCopies | None:
        """Return the copies of objects that the run reads from stores."""
        return None if self.servers is None else self.servers.copies


class SourceReader:
    """Opens sources of one type, and describes them for `init`.

    Each subclass has a module of its own in `exact.sources`, which declares `READER`, an instance
    of the subclass. Importing that module loads no package that only this source type needs.
    """

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the source as an engine reads it, without reading any row.

        Raises
        ------
        DataError
            If the source can't be read as declared.
        OSError, ValueError
            If the source can't be read. The caller drops the message of these exceptions, because
            it may quote content of the source.
        """
        raise NotImplementedError

    def latest_version(self, declared: Declared, source: Source) -> int:
        """Return the latest version of a table, if tables of this type have versions.

        Raises
        ------
        DataError, OSError, ValueError
            As `open`.
        """
        raise NotImplementedError

    def relation(
        self, given: Input, relation: str, ask: RunMetadataQuery, *, can_use_arrow: bool
    ) -> str:
        """Return the relation that the engine reads in place of `relation`; reads no row.

        `can_use_arrow`: whether Arrow may later read rows that the engine can't read unchanged.
        """
        return relation

    def describe(self, file: Path, table: str | None) -> Description:
        """Return a description of a file, for `init`; it has no columns if the file can't be read.

        `table`: the name of one of the file's tables or sheets.
        """
        return Description()

    def describe_below(self, file: Path, table: str | None, header: HeaderRows) -> Description:
        """Return the description of a file whose header is in another place than `describe` finds.

        `header`: the number of its row or line, or one of the names.
        """
        raise NotImplementedError

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all values of a file, for `init --peek` alone.

        Raises
        ------
        OSError
            If the values can't be read.
        """
        raise OSError("its values can't be shown")


def reader_of(source_type: SourceType) -> SourceReader:
    """Return the reader of a source type.

    A source type may be its own reader. Otherwise the reader is in the module of `exact.sources`
    that has the name of the type. Types that no schema names have no such module: programs pass
    frames, and Spark reads its catalogue.
    """
    if isinstance(source_type, SourceReader):
        return source_type
    if source_type.name in WITHOUT_FORMAT:
        return SourceReader()
    module = importlib.import_module(f"dprelease.exact.sources.{source_type.name}_reader")
    reader: SourceReader = module.READER
    return reader


def choose_table(name: str | None, known: Sequence[str]) -> str | None:
    """Return the table with this name; if the name is None, return the only table that exists."""
    if name is None and len(known) == 1:
        return known[0]
    return name if name in known else None
