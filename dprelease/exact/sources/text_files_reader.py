"""The base class of readers of text files: one record in a line, read by a function of the engine.

Nothing about a file is ever inferred from its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dprelease.exact.reading.plain import Packing, open_file
from dprelease.exact.reading.sources import (
    OpenedSource,
    TextReader,
    files_of,
    stamp,
    stored_columns,
)
from dprelease.exact.sources.source_reader import EITHER, Description, Opening, SourceReader
from dprelease.query import quoting
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.schema.load import Declared
from dprelease.schema.table import Source
from dprelease.statements.values.written_forms import plain_number_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.reading.dialect import Form

BESIDE = 2 << 20
"""Bytes that a file or a thread takes in addition to its buffers."""


class TextFilesReader(SourceReader):
    """Reads text files, or plain copies of those that the engine can't read unchanged."""

    header_lines: ClassVar[int] = 0
    """Lines at the beginning of each file that are no records."""
    returns: ClassVar[bool] = True
    """Whether carriage returns may be left as they are; see `Packing`."""

    def packing(self, source: Source) -> Packing:
        """Return how the bytes of a source's files are decoded."""
        return Packing.of(source, returns=self.returns)

    def text_reader(self, declared: Declared, source: Source, files: Sequence[Path]) -> TextReader:
        """Return how the files of a source are read.

        Raises
        ------
        DataError
            If the beginnings of the files are not as declared.
        """
        raise NotImplementedError

    def needs_copy(self, file: Path) -> bool:
        """Return whether the engine can't read a file unchanged, although it is plain UTF-8."""
        return False

    def memory(self, sizes: Sequence[int], threads: int) -> int:
        """Return the least number of bytes that the engine needs for files of these sizes."""
        return 0

    def form(self, file: Path) -> Form:
        """Return how the first bytes of a file seem to be written; raises OSError, ValueError."""
        raise NotImplementedError

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the relation of the files, and how copies are made of those that need it."""
        files = files_of(declared, source)
        stamps = tuple(map(stamp, files))
        reader = self.text_reader(declared, source, files)
        is_plain = reader.packing.is_plain and not any(map(self.needs_copy, files))
        copied = None if is_plain else reader
        return OpenedSource(files, stamps, relation=reader.relation(files), reader=copied)

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the names of a file, and the form of its first cells."""
        try:
            form = self.form(file)
        except (OSError, ValueError):
            return Description()
        columns = [(name, kind.refusal or EITHER) for name, kind in form.columns.items()]
        return Description(columns, form.source, form.names, form=form)

    def plain_text(self, file: Path, source: Source) -> pa.BufferReader:
        """Return the whole of a file in UTF-8."""
        import pyarrow as pa

        with open_file(file) as raw:
            return pa.BufferReader(b"".join(self.packing(source).chunks(raw)))


def numbers_of(
    declared: Declared, source: Source, stored: Sequence[str], *, own: bool
) -> tuple[tuple[str, str], ...]:
    """Return the numeric columns that are not written plainly, with their plain forms.

    `own`: whether the format has numbers of its own, which are plain, next to texts.
    """
    if source.decimal == "." and source.thousands is None:
        return ()
    columns = declared.table.columns
    return tuple(
        (name, plain_number_sql(quoting.identifier(name), source.decimal, source.thousands, own))
        for name in stored_columns(declared)
        if name in stored and isinstance(columns[name], IntegerColumn | NumberColumn)
    )


def struct_of_texts(names: Sequence[str]) -> str:
    """Return a struct of column names, all text: no type is ever sniffed."""
    return "{" + ", ".join(f"{quoting.text(name)}: 'VARCHAR'" for name in names) + "}"
