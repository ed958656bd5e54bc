"""Write cells: a text always stays a text, and a number has the digits of the table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openpyxl.cell import Cell

DIGITS = 15
"""Significant digits that Excel stores of a number; longer numbers are written as text."""

LONGEST = 32_767
"""Maximum number of characters of a cell."""

# Characters that XML forbids or changes, and text that would be read as such an escape.
ESCAPED = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def escape_text(text: str) -> str:
    """Return a text as a cell holds it: some characters as `_xHHHH_` (ECMA-376, ST_Xstring).

    A truncated text ends in a character that marks it as truncated.
    """
    whole = ESCAPED.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def text_cell(sheet: Any, text: str, style: str = "") -> Cell | None:
    """Return a cell that holds a text, never a formula or an error; None for no text."""
    from openpyxl.cell import WriteOnlyCell

    if not text:
        return None
    cell = WriteOnlyCell(sheet, value=escape_text(text))
    cell.data_type = "s"
    if style:
        cell.style = style
    return cell


def number_cell(sheet: Any, text: str, form: str, *, exact: bool) -> Cell | None:
    """Return a cell that holds a number as written; as text, if Excel would change it.

    `form`: its number format. `exact`: whether every digit matters; a binary float stays a
    number.
    """
    from openpyxl.cell import WriteOnlyCell

    if exact and significant(text) > DIGITS:
        return text_cell(sheet, text)
    cell = WriteOnlyCell(sheet, value=text)
    cell.data_type = "n"
    if form:
        cell.number_format = form
    return cell


def significant(text: str) -> int:
    """Return the number of significant digits of a number."""
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    return len(digits.rstrip("0"))
