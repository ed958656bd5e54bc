"""Write the files of several tables at once: each stays open until its last rows have come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.file_records import FileDigest, WrittenPart, files_of_parts
from dprelease.documents.manifest import sha256_of
from dprelease.postprocess.partition import Parts
from dprelease.tables import formats
from dprelease.tables.family_tables import Piece

if TYPE_CHECKING:
    import pyarrow as pa

Notes = Mapping[str, str]


def write_pieces(
    folder: Path, pieces: Iterator[Piece], parts: Mapping[str, Parts], notes: Notes
) -> dict[str, FileDigest]:
    """Write several tables into a folder as their rows arrive; return their digests.

    Parameters
    ----------
    folder
        The folder of a release, which is private until all is written.
    pieces
        Rows of each table in ascending order, so that only one of its parts is open at a time.
    parts
        The partition files of the tables that have any, by name.
    notes
        The metadata of each file, next to its rows, and its values.
    """
    tables: dict[str, _Table] = {}
    with ExitStack() as files:
        for piece in pieces:
            if piece.name not in tables:
                one = _Table(folder / formats.file_of(piece.name), parts.get(piece.name), notes)
                tables[piece.name] = one
                files.callback(one.close)
            tables[piece.name].write(piece)
    return {name: one.record_of_files() for name, one in tables.items()}


@dataclass
class _Table:
    """One table that is being written: its file, or the folder of its parts."""

    path: Path
    parts: Parts | None
    notes: Notes
    _rows: list[int] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)
    _writer: formats.Writer | None = None

    def write(self, piece: Piece) -> None:
        """Add rows to the file that they belong to."""
        rows, at = _with_metadata(piece.rows, self.notes), piece.part or 0
        if self._writer is None or at >= len(self._rows):
            self.close()
            path = self._files[at]
            path.parent.mkdir(exist_ok=True, parents=True)
            self._writer = self._open.enter_context(formats.PUBLISHED.writer(path, rows.schema))
            self._rows.append(0)
        self._writer.write(rows)
        self._rows[at] += len(rows)

    def close(self) -> None:
        """Close the open file, if any."""
        self._open.close()

    def record_of_files(self) -> FileDigest:
        """Return the digests of what was written; call it at the end."""
        digests = [sha256_of(path) for path in self._files]
        if self.parts is None:
            return FileDigest(digests[0], self._rows[0])
        named = zip(files_of_parts(self.parts), digests, self._rows, strict=True)
        return FileDigest.of([WrittenPart(*one) for one in named])

    @cached_property
    def _files(self) -> list[Path]:
        if self.parts is None:
            return [self.path]
        return [self.path / name for name in files_of_parts(self.parts)]


def _with_metadata(table: pa.Table, notes: Notes) -> pa.Table:
    """Return a table with its metadata."""
    if not notes:
        return table
    more = {name.encode(): text.encode() for name, text in notes.items()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **more})
