"""Define workbooks that are written sheet by sheet, whatever their file format is.

Texts stay texts, and numbers keep their digits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

DIGITS = 15
"""Significant digits of a number that Excel stores; a longer number is written as text."""

MOST_UTF16_UNITS = 32_767
"""Maximum length of a cell's text in UTF-16 units."""

LEAST_WIDTH, MOST_WIDTH = 8, 48
"""Minimum and maximum column width in characters; longer texts wrap."""

LEAST_LINE = 110
"""Least characters of a line of text over the columns of a table."""

WRAPPING = ("text", "head", "right head", "center head")
"""The named styles whose texts may have several lines; the others are "section" and "title"."""

GREY = "#767676"
"""The colour of unreliable numbers, which has enough contrast on white paper."""


class Look(NamedTuple):
    """The look of a cell: its number format, and whether it is unreliable or a total.

    `align`: where in its column a text is, if not at the left. `wrap`: whether it may have several
    lines.
    """

    number_format: str = ""
    weak: bool = False
    bold: bool = False
    align: str = ""
    wrap: bool = False


class ExactNumber(float):
    """A number that is written with the digits of its text; XlsxWriter would write 16 digits."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __format__(self, _format: str) -> str:
        """Return the text of the number, whatever format XlsxWriter uses."""
        return self.text


class SheetLink(str):
    """The name of a sheet, which is written as a link to that sheet; `row`: the row in it."""

    row = 1


Cell = str | bool | ExactNumber | None
"""A value of a cell; None and an empty text give an empty cell."""


def exact_number(text: str) -> ExactNumber | str:
    """Return a number, or its text if Excel would not store all its digits."""
    return ExactNumber(text) if significant_digits(text) <= DIGITS else text


def significant_digits(text: str) -> int:
    """Return the number of significant digits of a number."""
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    return len(digits.rstrip("0"))


def fit_into_cell(text: str) -> str:
    """Return a text that fits into a cell; a truncated text ends with an ellipsis."""
    units = text.encode("utf-16-le")
    if len(units) <= 2 * MOST_UTF16_UNITS:
        return text
    return (
        # `ignore` leaves out half of a surrogate pair at the end.
        f"{units[: 2 * MOST_UTF16_UNITS - 2].decode('utf-16-le', 'ignore')}\N{HORIZONTAL ELLIPSIS}"
    )


class Sheet(ABC):
    """A sheet that is written row by row; `widths`: those of its columns in characters."""

    def __init__(self, widths: Sequence[int]) -> None:
        self._widths, self._row = widths, 0

    @property
    def next_row(self) -> int:
        """Return the number of the next row, from 1."""
        return self._row + 1

    @abstractmethod
    def add(self, cells: Sequence[tuple[Cell, str | Look]]) -> None:
        """Write a row of cells, each with the name of its style or its look."""

    def add_text(self, text: str, style: str = "") -> None:
        """Write a row with one text, which continues over the next columns unless it wraps."""
        self.add([(text, style)])

    def add_lines(self, text: str, style: str = "") -> None:
        """Write a text over the columns of a table, in lines as long as the table is wide."""
        width = max(LEAST_LINE, sum(self._widths))
        for line in wrap(text, width, break_long_words=False, break_on_hyphens=False):
            self.add_text(line, style)

    @abstractmethod
    def add_heads(self, heads: Sequence[tuple[str, str]], keys: int = 0) -> None:
        """Write the heads of a table, each with its style.

        They and the first `keys` columns stay visible while others are scrolled, and the heads are
        printed on every page.
        """

    @abstractmethod
    def end_table(self) -> None:
        """Mark up the table between its heads and the last row, unless it is empty."""


class Book(ABC):
    """A workbook that is written sheet by sheet."""

    @abstractmethod
    def reserve_sheets(self, names: Iterable[str]) -> None:
        """Add empty sheets in this order, which `add_sheet` fills in any order."""

    @abstractmethod
    def add_sheet(
        self, name: str, widths: Sequence[int], *, most_width: int = MOST_WIDTH, most_pages: int = 0
    ) -> Sheet:
        """Return a reserved sheet whose columns have these widths, in characters.

        It is printed on landscape pages of A4. `most_pages`: the maximum number of pages, if the
        file format can declare it; 0 for any number.
        """

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the file; raise OSError if it can't be written."""

    @abstractmethod
    def close(self) -> None:
        """Close the temporary files of rows, also after a failure."""


def fitted_widths(widths: Iterable[int], most_width: int) -> list[int]:
    """Return the widths of columns with a margin, within the limits of widths."""
    return [min(most_width, max(LEAST_WIDTH, width + 2)) for width in widths]
