"""Write the Excel workbooks of a release, and compare two workbooks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from dprelease.exports.workbooks.book import Book
from dprelease.exports.workbooks.workbook import Workbooks

MOST_SIZE_RATIO = 4
"""Two workbooks are not compared if one is more than this many times as large as the other."""


class Excel(Workbooks):
    """The format with workbooks of Excel."""

    name, ending = "excel", "xlsx"
    extra = "excel"
    packages = ("xlsxwriter", "zlib")

    def new_book(self, title: str, author: str, language: str, scratch: Path | None) -> Book:
        """Return an empty workbook; `scratch`: a folder for the rows of a large workbook."""
        from dprelease.exports.workbooks.xlsx_book import ExcelBook

        return ExcelBook(title, author, language, scratch)

    def has_same_content(self, one: Path, other: Path) -> bool:
        """Return whether two workbooks have the same parts, and sheets with the same cells."""
        try:
            with ZipFile(one) as held, ZipFile(other) as made:
                sizes = [sum(part.file_size for part in each.infolist()) for each in (held, made)]
                if sorted(held.namelist()) != sorted(made.namelist()):
                    return False
        except BadZipFile as problem:
            raise ValueError("no archive") from problem
        # A forged workbook may be a small archive of gigabytes; the other one was made here.
        if sizes[0] > MOST_SIZE_RATIO * sizes[1]:
            return False
        return all(
            left == right
            for left, right in zip_longest(_sheet_contents(one), _sheet_contents(other))
        )


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
