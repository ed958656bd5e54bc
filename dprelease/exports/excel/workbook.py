"""Write one Excel workbook per release, and compare two workbooks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from dprelease.documents.metadata import Metadata
from dprelease.exports.export import Export, Problem, PublishedRelease
from dprelease.exports.layout import TableLayout, is_records, layout_of, max_rows
from dprelease.exports.names import create_parent_folder

FILE = "excel/release.xlsx"

MOST_ROWS_ABOVE = 8
"""Maximum number of rows on a sheet above the first row of its table."""

MOST_ROWS, MOST_COLUMNS = 1_048_576 - MOST_ROWS_ABOVE, 16_384

IN_MEMORY = 1 << 17
"""Maximum number of cells of a workbook whose rows are in memory, which takes some 100 MB."""

MOST_SIZE_RATIO = 4
"""Two workbooks are not compared if one is more than this many times as large as the other."""


class Excel(Export):
    """The format with a workbook, which has a cover, contents, notes and a sheet for each table."""

    name = "excel"
    extra = "excel"
    packages = ("xlsxwriter", "zlib")

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield the tables that may not fit on a sheet, or a problem if no table is readable."""
        tables = _tables_for_people(metadata)
        if not tables:
            yield Problem("no table has readable values")
        for layout in tables:
            name, rows = layout.table.name, max_rows(layout.table)
            if rows is None:
                yield Problem("its number of rows is only known after the run", name)
            elif (rows if layout.pivot_key is None else layout.row_count or 0) > MOST_ROWS:
                yield Problem(
                    f"it has {rows:,} rows, but a sheet can have only {MOST_ROWS:,}", name
                )
            if len(layout.columns) > MOST_COLUMNS:
                found = f"{len(layout.columns):,}"
                yield Problem(
                    f"it has {found} columns, but a sheet can have only {MOST_COLUMNS:,}", name
                )

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the workbook, and return the name of its file."""
        from dprelease.exports.excel.book import Book
        from dprelease.exports.excel.sheets import write_sheets

        metadata, path = release.metadata, create_parent_folder(folder / FILE)
        title, author = metadata.about.heading(metadata.language), metadata.about.publisher
        tables = _tables_for_people(metadata)
        cells = sum((layout.row_count or 0) * len(layout.columns) for layout in tables)
        scratch = path.parent if cells > IN_MEMORY else None
        book = Book(title, author or "dprelease", metadata.language, scratch)
        try:
            write_sheets(book, tables, release)
            book.save(path)
        except OSError:
            book.discard()
            raise
        return [FILE]

    def has_same_content(self, one: Path, other: Path) -> bool:
        """Return whether two workbooks have the same parts, and sheets with the same cells."""
        try:
            with ZipFile(one) as held, ZipFile(other) as made:
                sizes = [sum(part.file_size for part in each.infolist()) for each in (held, made)]
                if sorted(held.namelist()) != sorted(made.namelist()):
                    return False
        except BadZipFile as problem:
            raise ValueError("no archive") from problem
        if sizes[0] > MOST_SIZE_RATIO * sizes[1]:
            return False
        return all(
            left == right
            for left, right in zip_longest(_sheet_contents(one), _sheet_contents(other))
        )


def _tables_for_people(metadata: Metadata) -> list[TableLayout]:
    """Return the tables for people with their layouts; synthetic records are only for programs."""
    read = (
        table for table in metadata.tables_for_readers if table.values and not is_records(table)
    )
    return [layout_of(table, metadata) for table in read]


def _sheet_contents(path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the content of all sheets in order: name and state of a sheet, then its rows."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True)
    try:
        for sheet in book.worksheets:
            yield sheet.title, sheet.sheet_state
            for row in sheet.iter_rows():
                yield tuple((cell.value, cell.data_type) for cell in row)
    finally:
        book.close()


EXPORT = Excel()
