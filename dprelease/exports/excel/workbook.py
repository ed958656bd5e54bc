"""Write one Excel workbook per release, and compare two workbooks.

The archive holds no time and no machine name, so that the same release gives the same workbook.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from dprelease.documents.metadata import Metadata
from dprelease.exports.export import Problem, PublishedRelease
from dprelease.exports.layout import Laid, is_records, laid_out, most_rows
from dprelease.exports.names import in_first, parent

if TYPE_CHECKING:
    from dprelease.exports.excel.sheets import Book


WRITTEN = (1980, 1, 1, 0, 0, 0)
"""Timestamp of every part of an archive: the earliest that the format allows."""

CORE = "docProps/core.xml"
TIMES = re.compile(rb"(<dcterms:(created|modified)\b[^>]*>)[^<]*")

IO = "IO_"
"""Prefix of system errors from the XML library."""

MOST_TIMES = 4
"""A workbook more than this many times as large as the other is not compared."""


def without_times(source: Path, target: Path) -> None:
    """Rewrite an archive with its parts in the same order and without timestamps."""
    with ZipFile(source) as read, ZipFile(target, "w", ZIP_DEFLATED) as write:
        for part in read.infolist():
            info = ZipInfo(part.filename, WRITTEN)
            info.compress_type, info.file_size = ZIP_DEFLATED, part.file_size
            info.create_system, info.external_attr = 3, 0o600 << 16
            with read.open(part) as one, write.open(info, "w") as other:
                if part.filename == CORE:
                    other.write(TIMES.sub(rb"\g<1>1980-01-01T00:00:00Z", one.read()))
                else:
                    shutil.copyfileobj(one, other)


def reads_same(one: Path, other: Path) -> bool:
    """Return whether two workbooks have the same parts and the same content in every cell.

    Raises
    ------
    OSError, ValueError, KeyError
        If one is not a workbook.
    """
    try:
        with ZipFile(one) as held, ZipFile(other) as made:
            sizes = [sum(part.file_size for part in each.infolist()) for each in (held, made)]
            if sorted(held.namelist()) != sorted(made.namelist()):
                return False
        if sizes[0] > MOST_TIMES * sizes[1]:
            return False
        return all(left == right for left, right in _side_by_side(one, other))
    except BadZipFile as problem:
        raise ValueError("no archive") from problem


def _side_by_side(one: Path, other: Path) -> Iterator[tuple[Any, Any]]:
    from itertools import zip_longest

    yield from zip_longest(_cells(one), _cells(other))


def _cells(path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the content of every sheet in order: its name and state, then each cell."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True)
    try:
        for sheet in book.worksheets:
            yield sheet.title, sheet.sheet_state
            for row in sheet.iter_rows():
                yield tuple((c.value, c.data_type) for c in row)
    finally:
        book.close()


@contextmanager
def system_errors() -> Iterator[None]:
    """Raise disk errors of the XML library as system errors, as for other files.

    Raises
    ------
    OSError
        With the number that its name stands for: IO_ENOSPC is a full disk.
    """
    from lxml.etree import SerialisationError

    number = 0
    try:
        yield
    except SerialisationError as problem:
        told = str(problem)
        if not told.startswith(IO):
            raise
        number = getattr(errno, told.removeprefix(IO), errno.EIO)
    if number:
        raise OSError(number, os.strerror(number))


FILE = "excel/release.xlsx"
ABOVE = 8
"""Maximum number of rows above the first row of a table."""

MOST_ROWS, MOST_COLUMNS = 1_048_576 - ABOVE, 16_384


@dataclass(frozen=True, slots=True)
class Excel:
    """A workbook with a cover, contents, notes and a sheet for each table; see `Export`."""

    name: str = "excel"
    extra: str | None = "excel"
    packages: tuple[str, ...] = ("openpyxl", "lxml", "zlib")

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """See `Export.problems`."""
        tables = _tables(metadata)
        if not tables:
            yield Problem("no table has readable values")
        for laid in tables:
            name, rows = laid.table.name, most_rows(laid.table)
            if rows is None:
                yield Problem("its number of rows is only known after the run", name)
            elif (rows if laid.turned is None else laid.rows or 0) > MOST_ROWS:
                yield Problem(
                    f"it has {rows:,} rows, but a sheet can have only {MOST_ROWS:,}", name
                )
            if len(laid.columns) > MOST_COLUMNS:
                found = f"{len(laid.columns):,}"
                yield Problem(
                    f"it has {found} columns, but a sheet can have only {MOST_COLUMNS:,}", name
                )

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """See `Export.write`: rows are written as they are read, and cells hold no formula."""
        from dprelease.exports.excel.sheets import Book

        metadata, path = release.metadata, parent(folder / FILE)
        with system_errors(), Book(path.parent) as book:
            _write_sheets(book, release)
            _save(book, metadata, path)
        return [FILE]

    def same(self, one: Path, other: Path) -> bool:
        """See `PackagedExport.same`: the same sheets with the same cells."""
        return reads_same(one, other)


def _tables(metadata: Metadata) -> list[Laid]:
    """Return the tables for people, laid out; synthetic records are for programs only."""
    read = (table for table in metadata.read if table.values and not is_records(table))
    return [laid_out(table, metadata) for table in read]


def _write_sheets(book: Book, release: PublishedRelease) -> None:
    """Write cover, contents, notes and all tables."""
    from dprelease.exports.excel.cover import cover_lines
    from dprelease.exports.excel.excel_cells import text_cell
    from dprelease.exports.excel.sheets import TitledTable, note_rows, unique_titles, write_table

    metadata = release.metadata
    every = list(_tables(metadata))
    names = [laid.table.name for laid in every]
    titles = [in_first(laid.table.label, metadata) or laid.table.name for laid in every]
    tables = [
        TitledTable(f"Table {i}", laid, title)
        for i, (laid, title) in enumerate(zip(every, unique_titles(titles, names), strict=True), 1)
    ]
    cover = book.sheet("Cover", [46])
    cover.append([text_cell(cover, metadata.about.heading(metadata.language), "title")])
    for style, text in cover_lines(release):
        cover.append([text_cell(cover, text, style)])
    contents = [("Notes", "Background of the numbers")]
    contents += [(titled.sheet, titled.title) for titled in tables]
    book.words_table("Contents", ("Worksheet", "Title"), contents, links=True)
    heads = ("Note", "Worksheets", "Column", "Text")
    book.words_table("Notes", heads, note_rows(tables, release))
    for titled in tables:
        write_table(book, titled, release)


def _save(book: Book, metadata: Metadata, path: Path) -> None:
    """Write the archive without any time or machine name."""
    properties = book.workbook.properties
    properties.title = metadata.about.heading(metadata.language)
    properties.language = metadata.language
    properties.creator = metadata.about.publisher or "dprelease"
    properties.created = properties.modified = datetime(1980, 1, 1)
    draft = path.with_name(f".{path.name}")
    _archive(book.workbook, draft)
    without_times(draft, path)
    draft.unlink()


def _archive(workbook: Any, path: Path) -> None:
    """Write a workbook's archive and close it in all cases.

    After a disk error the library leaves its archive open, which would print a message when
    deleted.
    """
    from openpyxl.writer.excel import ExcelWriter

    archive = ZipFile(path, "w", ZIP_DEFLATED, allowZip64=True)
    try:
        ExcelWriter(workbook, archive).save()
    except BaseException:
        with suppress(OSError, ValueError):
            archive.close()
        raise


EXPORT = Excel()
