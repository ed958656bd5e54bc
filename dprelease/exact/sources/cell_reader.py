"""The base class of readers of cells that have no common type: SQLite, workbooks, and others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.exact.reading.cell_rows import CellRows
from dprelease.exact.reading.sources import OpenedSource, files_of, stamp
from dprelease.exact.sources.source_reader import Opening, SourceReader
from dprelease.schema.load import Declared
from dprelease.schema.table import Source

if TYPE_CHECKING:
    import pyarrow as pa


class CellReader(SourceReader):
    """Reads files cell by cell: each becomes the text of its value, and is read as declared."""

    def rows(self, declared: Declared, source: Source, files: Sequence[Path]) -> CellRows:
        """Return the declared columns of files, by `cell_rows`; reads none of their rows."""
        raise NotImplementedError

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the files of a source, whose rows arrive as Arrow."""
        files = files_of(declared, source)
        stamps = tuple(map(stamp, files))
        rows = self.rows(declared, source, files)
        return OpenedSource(files, stamps, rows=rows, collations=rows.collations)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return cells read like a CSV file of their texts, with types that fit all cells."""
        import pyarrow as pa
        from pyarrow import csv

        form = self.describe(file, table)
        declared = form.declare_table(file)
        if not form.columns or declared.table.source is None:
            raise OSError("no columns")
        rows = self.rows(declared, declared.table.source, [file]).reader()
        written = pa.BufferOutputStream()
        csv.write_csv(rows.read_all(), written)
        return csv.read_csv(pa.BufferReader(written.getvalue()))
