"""Write the Excel workbooks of a release, and compare two workbooks.

Each language has a workbook with the official figures. If the release has real-valued estimates of
consistent tables, another workbook has these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from dprelease.documents.metadata import Metadata
from dprelease.exports.excel.localization import WorkbookWords, release_words
from dprelease.exports.excel.sheet_tables import SheetTable, sheet_tables, without_unset_flags
from dprelease.exports.export import Export, Problem, PublishedRelease
from dprelease.exports.names import create_parent_folder
from dprelease.postprocess.consistent.outputs import ESTIMATES

FILE, RELEASE = "excel/{}.xlsx", "release"
"""Name of a workbook; with several languages, `_` and the language follow the first part."""

MOST_ROWS_ABOVE = 1 << 10
"""Room on a sheet for rows of text above and below its table."""

MOST_ROWS, MOST_COLUMNS = 1_048_576 - MOST_ROWS_ABOVE, 16_384

IN_MEMORY = 1 << 17
"""Maximum number of cells of a workbook whose rows are in memory, which takes some 100 MB."""

MOST_SIZE_RATIO = 4
"""Two workbooks are not compared if one is more than this many times as large as the other."""


class Excel(Export):
    """The format with workbooks: a cover, contents, notes, a sheet for each query, an annex."""

    name = "excel"
    extra = "excel"
    packages = ("xlsxwriter", "zlib")

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield the tables that may not fit on a sheet, or a problem if no table is readable."""
        tables = sheet_tables(metadata, estimates=False)
        if not tables:
            yield Problem("no table has readable values")
        for table in [*tables, *sheet_tables(metadata, estimates=True)]:
            name, rows = table.main.name, table.most_rows
            if rows is None:
                yield Problem("its number of rows is only known after the run", name)
            elif rows > MOST_ROWS:
                yield Problem(
                    f"it has {rows:,} rows, but a sheet can have only {MOST_ROWS:,}", name
                )
            if table.column_count > MOST_COLUMNS:
                found = f"{table.column_count:,}"
                yield Problem(
                    f"it has {found} columns, but a sheet can have only {MOST_COLUMNS:,}", name
                )

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the workbooks of each language; return the names of their files."""
        metadata = release.metadata
        official = [
            without_unset_flags(one, release) for one in sheet_tables(metadata, estimates=False)
        ]
        estimates = sheet_tables(metadata, estimates=True)
        files = []
        for language in metadata.languages:
            tag = f"_{language}" if len(metadata.languages) > 1 else ""
            words = release_words(release, language)
            file, other = FILE.format(RELEASE + tag), FILE.format(ESTIMATES + tag)
            text = words.say("official_meaning", file=Path(other).name) if estimates else ""
            _write_workbook(release, official, words, text, create_parent_folder(folder / file))
            files.append(file)
            if estimates:
                text = words.say("estimates_meaning", file=Path(file).name)
                _write_workbook(release, estimates, words, text, folder / other)
                files.append(other)
        return files

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


def _write_workbook(
    release: PublishedRelease,
    tables: Sequence[SheetTable],
    words: WorkbookWords,
    introduction: str,
    path: Path,
) -> None:
    """Write one workbook in one language; `introduction`: the first text of its cover, if any."""
    from dprelease.exports.excel.book import Book
    from dprelease.exports.excel.sheets import write_sheets

    about = release.metadata.about
    cells = sum((table.most_rows or 0) * table.column_count for table in tables)
    scratch = path.parent if cells > IN_MEMORY else None
    title, author = about.heading(words.language), about.publisher or "dprelease"
    book = Book(title, author, words.language, scratch)
    try:
        write_sheets(book, tables, release, words, introduction)
        book.save(path)
    except OSError:
        book.discard()
        raise


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
