"""The base class of readers of sources in which each cell has its own type, such as workbooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.exact.reading.cell_rows import CellRows
from dprelease.exact.reading.sources import OpenedSource, file_stamp, files_of_source
from dprelease.exact.sources.source_reader import Opening, SourceReader
from dprelease.schema.load import Declared
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    import pyarrow as pa


class CellReader(SourceReader):
    """Reads files cell by cell: each cell becomes the text of its value, and is read as declared.

    A subclass writes `rows`; the method of this class raises NotImplementedError.
    """

    def rows(self, declared: Declared, source: Source, files: Sequence[Path]) -> CellRows:
        """Return the declared columns of files, made by `cell_rows`; reads no row of the files."""
        raise NotImplementedError

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the opened files of a source; they are read row by row into Arrow batches."""
        files = files_of_source(declared, source)
        stamps = tuple(map(file_stamp, files))
        rows = self.rows(declared, source, files)
        return OpenedSource(files, stamps, rows=rows, collations=rows.collations)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all cells of a file, with a type for each column that fits all of its cells.

        The cells are written to CSV as texts, and Arrow infers the types when it reads that CSV.
        """
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
