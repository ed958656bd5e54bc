"""Write and compare workbooks of Excel: texts stay texts, numbers keep their digits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import Any
from zipfile import BadZipFile, ZipFile

from dprelease.exports.workbooks.book import (
    GREY,
    MOST_WIDTH,
    WRAPPING,
    Book,
    Cell,
    ExactNumber,
    Look,
    Sheet,
    SheetLink,
    fit_into_cell,
    fitted_widths,
)
from dprelease.exports.workbooks.workbook import Workbooks

# Characters that XML forbids or changes, and text that would be read as such an escape.
ESCAPED = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")

# XlsxWriter takes the first for its own XML, and of the second escapes only every other part.
AMBIGUOUS = re.compile("^<r>.*</r>$|_x[0-9A-Fa-f]{4}_x[0-9A-Fa-f]{4}_", re.DOTALL)

CREATED = datetime(1980, 1, 1)
"""Time of creation of every workbook, so that its bytes do not depend on a clock."""

A4, MOST_CHARACTERS = 9, 220
"""Excel's number of the paper, and the most characters of a readable line on a landscape page."""

MOST_FOOTER = 100
"""Maximum characters of a title in a page's footer, which Excel limits to 255."""

WRAPPED = {"text_wrap": True, "valign": "top"}
STYLES = {
    "text": WRAPPED,
    "head": {**WRAPPED, "bold": True, "bottom": 1},
    "right head": {**WRAPPED, "bold": True, "bottom": 1, "align": "right"},
    "center head": {**WRAPPED, "bold": True, "bottom": 1, "align": "center"},
    "section": {"bold": True, "font_size": 12},
    "title": {"bold": True, "font_size": 14},
}
LINE, HEIGHTS = 15, {"section": 22, "title": 22}
"""Height of a line in points, and of rows of headings; not every program fits heights itself."""

MEAN_CHARACTERS = 1.1
"""Mean number of characters of a text in the width of a digit, which is the unit of widths."""


def escape_text(text: str) -> str:
    """Return a text with some characters as `_xHHHH_` (ECMA-376, ST_Xstring)."""
    return ESCAPED.sub(lambda match: f"_x{ord(match[0]):04X}_", text)


def _line_count(text: str, width: int, *, bold: bool) -> int:
    """Return about the number of lines that a text needs in a column."""
    return max(1, len(wrap(text, width if bold else int(width * MEAN_CHARACTERS))))


def _properties(look: Look) -> dict[str, Any]:
    """Return a look as properties of XlsxWriter."""
    return {
        "valign": "top",
        **({"num_format": look.number_format} if look.number_format else {}),
        **({"italic": True, "font_color": GREY} if look.weak else {}),
        **({"bold": True} if look.bold else {}),
        **({"align": look.align} if look.align else {}),
        **({"text_wrap": True} if look.wrap else {}),
    }


class ExcelBook(Book):
    """A workbook of Excel that is written sheet by sheet, row by row.

    `scratch`: a folder for the rows of long tables, so that only one row is in memory. XlsxWriter
    then can't mark up tables, so the cells of each table only get a name. Without `scratch`, all
    rows are in memory.
    """

    def __init__(self, title: str, author: str, language: str, scratch: Path | None) -> None:
        from xlsxwriter import Workbook

        self._stream, self._long = BytesIO(), scratch is not None
        rows = {"constant_memory": True, "tmpdir": str(scratch)} if scratch else {"in_memory": True}
        self._workbook = Workbook(self._stream, {**rows, "use_zip64": True})
        self._workbook.set_properties({"title": title, "author": author, "created": CREATED})
        self._workbook.set_custom_property("Language", language)
        # An & begins a code in Excel's footers; cutting the title may have left half of a doubled
        # one.
        self._footer = title.replace("&", "&&")[:MOST_FOOTER].rstrip("&")
        self._styles: dict[str | Look, Any] = {
            name: self._workbook.add_format(look) for name, look in STYLES.items()
        }

    def style(self, look: str | Look) -> Any:
        """Return the style with a name, None for an empty name, or the style of a look."""
        if isinstance(look, Look) and look not in self._styles:
            self._styles[look] = self._workbook.add_format(_properties(look))
        return self._styles.get(look)

    def reserve_sheets(self, names: Iterable[str]) -> None:
        """Add empty sheets in this order, which `add_sheet` fills in any order."""
        for name in names:
            self._workbook.add_worksheet(name)

    def add_sheet(
        self, name: str, widths: Sequence[int], *, most_width: int = MOST_WIDTH, most_pages: int = 0
    ) -> ExcelSheet:
        """Return a new or reserved sheet whose columns have these widths, in characters.

        It is printed on landscape pages of A4, with all columns on a page if they fit in a readable
        size. `most_pages`: the maximum number of pages; 0 for any number.
        """
        worksheet = self._workbook.get_worksheet_by_name(name)
        worksheet = worksheet or self._workbook.add_worksheet(name)
        fitted = fitted_widths(widths, most_width)
        for i, width in enumerate(fitted):
            worksheet.set_column(i, i, width)
        worksheet.set_landscape()
        worksheet.set_paper(A4)
        worksheet.fit_to_pages(-(-sum(fitted) // MOST_CHARACTERS), most_pages)
        worksheet.set_footer(f"&L{self._footer}&R&A, &P / &N")
        return ExcelSheet(self, worksheet, fitted)

    def mark_up(self, worksheet: Any, first: int, heads: Sequence[str], rows: int) -> bool:
        """Mark up a table whose heads are in row `first` (from 0); return whether it needs heads.

        XlsxWriter replaces the heads of a table that it marks up.
        """
        from xlsxwriter.utility import xl_range_abs

        name, ends = f"Table_{worksheet.index}", (first, 0, first + rows, len(heads) - 1)
        if self._long:
            self._workbook.define_name(name, f"='{worksheet.name}'!{xl_range_abs(*ends)}")
            return False
        columns = [{"header": escape_text(head)} for head in heads]
        looks = {"autofilter": False, "banded_rows": False, "style": None}
        worksheet.add_table(*ends, {"name": name, "columns": columns, **looks})
        return True

    def save(self, path: Path) -> None:
        """Write the file; raise OSError if it can't be written."""
        from xlsxwriter.exceptions import FileCreateError

        try:
            self._workbook.close()
        except FileCreateError as problem:
            # XlsxWriter wraps the OSError, whose number says whether the disk is full.
            raise problem.args[0] from None
        path.write_bytes(self._stream.getbuffer())

    def close(self) -> None:
        """Close the temporary files of rows, which XlsxWriter leaves open after a failure."""
        for worksheet in self._workbook.worksheets():
            for stream in filter(None, (worksheet.row_data_fh, worksheet.fh)):
                with suppress(OSError):  # the error of the same disk is already reported
                    stream.close()


class ExcelSheet(Sheet):
    """A sheet that is written row by row; `widths`: those of its columns in characters."""

    def __init__(self, book: ExcelBook, worksheet: Any, widths: Sequence[int]) -> None:
        super().__init__(widths)
        self._book, self._worksheet = book, worksheet
        self._heads: Sequence[tuple[str, str]] = ()
        self._first = 0

    def add(self, cells: Sequence[tuple[Cell, str | Look]]) -> None:
        """Write a row of cells, each with its style or look."""
        wrapped = (
            _line_count(cell, width, bold="head" in look) * LINE
            for (cell, look), width in zip(cells, self._widths, strict=False)
            if isinstance(cell, str) and (look.wrap if isinstance(look, Look) else look in WRAPPING)
        )
        height = max(wrapped, default=LINE)
        if height > LINE:
            self._worksheet.set_row(self._row, height)
        self._write_cells(cells)

    def add_text(self, text: str, style: str = "") -> None:
        """Write a row with one text, which continues over the next columns unless it wraps."""
        if style in HEIGHTS:
            self._worksheet.set_row(self._row, HEIGHTS[style])
        super().add_text(text, style)

    def add_heads(self, heads: Sequence[tuple[str, str]], keys: int = 0) -> None:
        """Write the heads of a table, each with its style.

        They and the first `keys` columns stay visible while others are scrolled, and are printed on
        every page.
        """
        self._heads, self._first = heads, self._row
        self._worksheet.repeat_rows(self._row)
        self._worksheet.freeze_panes(self._row + 1, keys)
        if keys:
            self._worksheet.repeat_columns(0, keys - 1)
        self.add(heads)

    def end_table(self) -> None:
        """Mark up the table between its heads and the last row, unless it is empty."""
        rows, texts = self._row - self._first - 1, [text for text, _ in self._heads]
        if rows and self._book.mark_up(self._worksheet, self._first, texts, rows):
            self._row = self._first
            self._write_cells(self._heads)
            self._row += rows

    def _write_cells(self, cells: Iterable[tuple[Cell, str | Look]]) -> None:
        for column, (cell, look) in enumerate(cells):
            self._write_cell(column, cell, self._book.style(look))
        self._row += 1

    def _write_cell(self, column: int, cell: Cell, look: Any) -> None:
        """Write a cell by the type of its value."""
        if isinstance(cell, bool):
            self._worksheet.write_boolean(self._row, column, cell, look)
        elif isinstance(cell, ExactNumber):
            self._worksheet.write_number(self._row, column, cell, look)
        elif isinstance(cell, SheetLink):
            self._worksheet.write_url(
                self._row, column, f"internal:'{cell}'!A{cell.row}", look, cell
            )
        elif cell and AMBIGUOUS.search(cell):  # XlsxWriter does not interpret single characters
            end = [] if look is None else [look]
            self._worksheet.write_rich_string(self._row, column, *fit_into_cell(cell), *end)
        elif cell:
            self._worksheet.write_string(self._row, column, fit_into_cell(cell), look)


MOST_SIZE_RATIO = 4
"""Two workbooks are not compared if one is more than this many times as large as the other."""


class Excel(Workbooks):
    """The format with workbooks of Excel."""

    name, ending = "excel", "xlsx"
    extra = "excel"
    packages = ("xlsxwriter", "zlib")

    def new_book(self, title: str, author: str, language: str, scratch: Path | None) -> Book:
        """Return an empty workbook; `scratch`: a folder for the rows of a large workbook."""
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
