"""The base class of readers: the half of a source type that opens sources.

`schema.source_types.source_type.SourceType` is the other half, which opens nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.exact.reading.sources import OpenedSource
from dprelease.schema.load import Declared, table_from_mapping
from dprelease.schema.public_values.key_files import are_usable
from dprelease.schema.source_types.source_type import SourceType
from dprelease.schema.source_types.without_format import WITHOUT_FORMAT
from dprelease.schema.table import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.inputs import Input
    from dprelease.exact.postgres.server_link import Servers
    from dprelease.exact.reading.dialect import Form, Told

EITHER = "text or number"
"""The proposed type of a column whose values may be both."""

Ask = Callable[[str], list[Any]]
"""Returns the rows of a statement that reads no row about people."""


@dataclass(frozen=True, slots=True)
class Description:
    """What `init` sees of a file: its columns, and keys of `source`; no value.

    `columns`: names, in order, with the proposed type or the reason why a column can't be used.
    `source`: the keys of `source` other than its path. `header`: the names in a header, in order;
    one may occur twice. `collations`: as in `OpenedSource`. `form`: how the first cells of a text
    file are written.
    """

    columns: Sequence[tuple[str, str]] = ()
    source: Mapping[str, Told] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    collations: Mapping[str, str] = field(default_factory=dict)
    form: Form | None = None

    def declare_table(self, file: Path) -> Declared:
        """Return a table of all columns, declared as the texts of their cells."""
        columns: Mapping[str, object] = {
            name: {"type": "number"} for name, _ in self.columns if are_usable([name])
        }
        source = {"path": str(file.absolute()), **self.source}
        return table_from_mapping({"table": "t", "source": source, "columns": columns}, Path())


@dataclass(frozen=True, slots=True)
class Opening:
    """What an engine lends to readers: its connections to servers, the name of a database file."""

    servers: Servers | None = None
    database: str = "dp_database"


class SourceReader:
    """Opens sources of one type, and describes them for `init`.

    A subclass is one file of `exact.sources`, which declares `READER`, an instance. Importing it
    loads no package that only this type needs.
    """

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the source as an engine reads it; reads no row.

        Raises
        ------
        DataError
            If it can't be read as declared.
        OSError, ValueError
            As well; their words are dropped, because they may quote content.
        """
        raise NotImplementedError

    def relation(self, given: Input, relation: str, ask: Ask, *, by_arrow: bool) -> str:
        """Return what the engine reads in place of the opened relation; reads no row.

        `by_arrow`: whether Arrow may read, when rows are, what the engine can't read unchanged.
        """
        return relation

    def describe(self, file: Path, table: str | None) -> Description:
        """Return a description of a file, for `init`; without columns if it can't be read.

        `table`: one of its tables, or of its sheets.
        """
        return Description()

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all values of a file, for `init --peek` alone.

        Raises
        ------
        OSError
            If they can't be read.
        """
        raise OSError("its values can't be shown")


def reader_of(source_type: SourceType) -> SourceReader:
    """Return the reader of a source type: itself if it is one, else that of the file named alike.

    Types that no schema names have none: programs pass frames, and Spark reads its catalogue.
    """
    if isinstance(source_type, SourceReader):
        return source_type
    if source_type.name in WITHOUT_FORMAT:
        return SourceReader()
    module = importlib.import_module(f"dprelease.exact.sources.{source_type.name}_reader")
    reader: SourceReader = module.READER
    return reader


def choose_table(name: str | None, known: Sequence[str]) -> str | None:
    """Return the requested table: the named one, or the only one."""
    if name is None and len(known) == 1:
        return known[0]
    return name if name in known else None
