"""Read files directly in a task, by DuckDB: their rows never pass through Spark.

The paths are on a file system that driver and executors share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dprelease.exact.reading.plain import has_byte_order_mark
from dprelease.exact.reading.sources import EngineCall, parquet_sql
from dprelease.exact.spark.executors.task_rows import (
    Link,
    TypesDiffer,
    require_types,
    select_list_sql,
)
from dprelease.query import quoting
from dprelease.statements.values.physical import SMALL_INTEGERS

ROW_NUMBER = "file_row_number"
"""DuckDB's name of the row number in a Parquet file."""


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of one file, from one index up to another (excluded), or to the end."""

    file: int
    first: int = 0
    end: int | None = None


@dataclass(frozen=True)
class ParquetRows:
    """Ranges of rows of Parquet files: a row of Spark is the index of a piece in `pieces`."""

    physical: Mapping[str, str]
    files: tuple[str, ...]
    pieces: tuple[tuple[Range, ...], ...]

    def register_parts(
        self, batches: Iterable[pa.RecordBatch], link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """Define the relation as the ranges of rows of one piece after the other."""
        for place in _piece_indexes(batches):
            selects = [self._range_sql(link, piece) for piece in self.pieces[place]]
            rows = " UNION ALL ".join(selects)
            yield from _temporary_view(rows, self.physical, link, relation)

    def _range_sql(self, link: Link, piece: Range) -> str:
        """Return the rows of a range, with the types that the columns have in all files."""
        source = parquet_sql([Path(self.files[piece.file])])
        file_types = link.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        stored = {str(name): str(kind) for name, kind, *_ in file_types}
        columns = [
            _column_sql(name, stored.get(name), kind) for name, kind in self.physical.items()
        ]
        where = ""
        if piece.end is not None:
            where = f" WHERE {ROW_NUMBER} >= {piece.first} AND {ROW_NUMBER} < {piece.end}"
        return f"SELECT {', '.join(columns) or '1 AS one'} FROM {source}{where}"


def _column_sql(name: str, stored: str | None, wanted: str) -> str:
    """Return a column of a file with the type of all files; raise TypesDiffer for another type."""
    column = quoting.identifier(name)
    if stored == wanted:
        return column
    if not {stored, wanted} <= SMALL_INTEGERS:
        raise TypesDiffer(name)
    return f"CAST({column} AS {wanted}) AS {column}"


@dataclass(frozen=True)
class TextRows:
    """Whole text files, read as the engine duckdb reads them, also where a line is invalid.

    A row of Spark is the index of a piece in `pieces`; a piece has the indices of its files.
    """

    physical: Mapping[str, str]
    reader: EngineCall
    files: tuple[str, ...]
    pieces: tuple[tuple[int, ...], ...]

    def register_parts(
        self, batches: Iterable[pa.RecordBatch], link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """Define the relation as the rows of one text file after the other."""
        for place in _piece_indexes(batches):
            for file in self.pieces[place]:
                yield from self._read_whole_file(Path(self.files[file]), link, folder, relation)

    def _read_whole_file(
        self, file: Path, link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """Make a view of a text file, decompressed and recoded if needed, while it is used."""
        marked = self.reader.function == "read_json" and has_byte_order_mark(file)
        copied = marked or not self.reader.packing.is_plain
        if copied:
            plain = folder / "text"
            self.reader.packing.write(file, plain)
            file = plain
        try:
            rows = f"SELECT {select_list_sql(self.physical)} FROM {self.reader.relation([file])}"
            yield from _temporary_view(rows, self.physical, link, relation)
        finally:
            if copied:
                file.unlink()


def _piece_indexes(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Yield the indexes of the pieces that a task must read."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _temporary_view(
    rows: str, physical: Mapping[str, str], link: Link, relation: str
) -> Iterator[None]:
    """Define a relation as the rows of a SELECT, inside the block."""
    link.execute(f"CREATE TEMP VIEW {relation} AS {rows}")
    require_types(physical, link, relation)
    yield
    link.execute(f"DROP VIEW {relation}")
