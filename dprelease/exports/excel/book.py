"""Write sheets, rows and cells with XlsxWriter: texts stay texts, numbers keep their digits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

DIGITS = 15
"""Significant digits of a number that Excel stores; a longer number is written as text."""

MOST_UTF16_UNITS = 32_767
"""Maximum length of a cell's text in UTF-16 units."""

MOST_WIDTH = 48
"""Maximum column width in characters; longer texts wrap."""

# Characters that XML forbids or changes, and text that would be read as such an escape.
ESCAPED = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")

# XlsxWriter takes the first for its own XML, and of the second escapes only every other part.
AMBIGUOUS = re.compile("^<r>.*</r>$|_x[0-9A-Fa-f]{4}_x[0-9A-Fa-f]{4}_", re.DOTALL)

CREATED = datetime(1980, 1, 1)
"""Time of creation of every workbook, so that its bytes do not depend on a clock."""

WRAPPED = {"text_wrap": True, "valign": "top"}
STYLES = {
    "text": WRAPPED,
    "head": {**WRAPPED, "bold": True},
    "title": {**WRAPPED, "bold": True, "font_size": 14},
}


class ExactNumber(float):
    """A number that is written with the digits of its text; XlsxWriter would write 16 digits."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __format__(self, _format: str) -> str:
        """Return the text of the number, whatever format XlsxWriter uses."""
        return self.text


class SheetLink(str):
    """The name of a sheet, which is written as a link to that sheet."""


Cell = str | bool | ExactNumber | None
"""A value of a cell; None and an empty text give an empty cell."""


def exact_number(text: str) -> ExactNumber | str:
    """Return a number, or its text if Excel would not store all its digits."""
    return ExactNumber(text) if significant_digits(text) <= DIGITS else text


def significant_digits(text: str) -> int:
    """Return the number of significant digits of a number."""
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    return len(digits.rstrip("0"))


def escape_text(text: str) -> str:
    """Return a text with some characters as `_xHHHH_` (ECMA-376, ST_Xstring)."""
    return ESCAPED.sub(lambda match: f"_x{ord(match[0]):04X}_", text)


def fit_into_cell(text: str) -> str:
    """Return a text that fits into a cell; a truncated text ends with an ellipsis."""
    units = text.encode("utf-16-le")
    if len(units) <= 2 * MOST_UTF16_UNITS:
        return text
    return (
        f"{units[: 2 * MOST_UTF16_UNITS - 2].decode('utf-16-le', 'ignore')}\N{HORIZONTAL ELLIPSIS}"
    )


class Book:
    """A workbook that is written sheet by sheet, row by row.

    `scratch`: a folder for the rows of long tables, so that only one row is in memory. XlsxWriter
    then can't mark up tables, so the cells of each table only get a name. Without `scratch`, all
    rows are in memory.
    """

    def __init__(self, title: str, author: str, language: str, scratch: Path | None) -> None:
        from xlsxwriter import Workbook

        self._stream, self._long, self._tables = BytesIO(), scratch is not None, 0
        rows = {"constant_memory": True, "tmpdir": str(scratch)} if scratch else {"in_memory": True}
        self._workbook = Workbook(self._stream, {**rows, "use_zip64": True})
        self._workbook.set_properties({"title": title, "author": author, "created": CREATED})
        self._workbook.set_custom_property("Language", language)
        self._styles = {name: self._workbook.add_format(look) for name, look in STYLES.items()}

    def style(self, name: str) -> Any:
        """Return the style with a name or a number format; None for an empty name."""
        if name and name not in self._styles:
            self._styles[name] = self._workbook.add_format({"num_format": name})
        return self._styles.get(name)

    def add_sheet(self, name: str, widths: Sequence[int]) -> Sheet:
        """Return a new sheet whose columns have these widths, in characters."""
        worksheet = self._workbook.add_worksheet(name)
        for i, width in enumerate(widths):
            worksheet.set_column(i, i, min(MOST_WIDTH, max(10, width + 2)))
        return Sheet(self, worksheet)

    def mark_up(self, worksheet: Any, first: int, heads: Sequence[str], rows: int) -> None:
        """Mark up a table with this number of rows; its heads are in row `first` (from 0)."""
        from xlsxwriter.utility import xl_range_abs

        self._tables += 1
        name, ends = f"Table_{self._tables}", (first, 0, first + rows, len(heads) - 1)
        if self._long:
            self._workbook.define_name(name, f"='{worksheet.name}'!{xl_range_abs(*ends)}")
            return
        columns = [{"header": escape_text(head)} for head in heads]
        looks = {"autofilter": False, "banded_rows": False, "style": None}
        worksheet.add_table(*ends, {"name": name, "columns": columns, **looks})

    def save(self, path: Path) -> None:
        """Write the file; raise OSError if it can't be written."""
        from xlsxwriter.exceptions import FileCreateError

        try:
            self._workbook.close()
        except FileCreateError as problem:
            raise problem.args[0] from None
        path.write_bytes(self._stream.getbuffer())

    def discard(self) -> None:
        """Close the temporary files of rows, which XlsxWriter leaves open after a failure."""
        for worksheet in self._workbook.worksheets():
            for stream in filter(None, (worksheet.row_data_fh, worksheet.fh)):
                with suppress(OSError):  # the error of the same disk is already reported
                    stream.close()


class Sheet:
    """A sheet that is written row by row."""

    def __init__(self, book: Book, worksheet: Any) -> None:
        self._book, self._worksheet, self._row = book, worksheet, 0

    def add(self, cells: Sequence[Cell], styles: Sequence[str] = ()) -> None:
        """Write a row; each cell has its style or number format, if there is one."""
        looks = map(self._book.style, styles or [""] * len(cells))
        for column, (cell, look) in enumerate(zip(cells, looks, strict=True)):
            self._write_cell(column, cell, look)
        self._row += 1

    def add_text(self, text: str, style: str = "") -> None:
        """Write a row with one text."""
        self.add([text], [style])

    def add_heads(self, heads: Sequence[str], rows: int) -> None:
        """Write the heads of a table with this number of rows; an empty table is not marked up."""
        if rows:
            self._book.mark_up(self._worksheet, self._row, heads, rows)
        self.add(heads, ["head"] * len(heads))

    def _write_cell(self, column: int, cell: Cell, look: Any) -> None:
        """Write a cell by the type of its value."""
        if isinstance(cell, bool):
            self._worksheet.write_boolean(self._row, column, cell, look)
        elif isinstance(cell, ExactNumber):
            self._worksheet.write_number(self._row, column, cell, look)
        elif isinstance(cell, SheetLink):
            self._worksheet.write_url(self._row, column, f"internal:'{cell}'!A1", look, cell)
        elif cell and AMBIGUOUS.search(cell):  # XlsxWriter does not interpret single characters
            end = [] if look is None else [look]
            self._worksheet.write_rich_string(self._row, column, *fit_into_cell(cell), *end)
        elif cell:
            self._worksheet.write_string(self._row, column, fit_into_cell(cell), look)
