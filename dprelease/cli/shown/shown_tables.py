"""Tables for people: as wide as their terminal, wrapped by words."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Sequence

from dprelease.errors.printable import one_line

GAP = "  "
WORD = re.compile(r"\s+(?!%)")
PIECE = re.compile(r"\s+(?!%)|(?<=[._/,-])(?=[^\W\d_])")
ANYWHERE = re.compile(r"\s+(?!%)|(?=.)")
"""Where a text may be broken; numbers are whole for as long as anything else can be cut."""

KEPT = 34
"""Words of so many letters are not broken for others' sake: a mechanism's name may be as long."""


def room() -> int:
    """Return how many columns there are: $COLUMNS, those of the terminal, or 80."""
    return shutil.get_terminal_size().columns


def table(
    rows: Sequence[Sequence[str]],
    *,
    wide: bool = False,
    more: Sequence[str] = (),
    right: Sequence[str] = (),
) -> str:
    """Return rows of texts as aligned columns, the first row being the heads.

    `wide`: every row on a line of its own, however long; else what does not fit is wrapped.
    `more`: heads of columns that are there only if it is wide. `right`: those of columns that are
    aligned at their right ends.
    """
    shown = [i for i, head in enumerate(rows[0]) if wide or head not in more]
    cells = [[one_line(row[i]) for i in shown] for row in rows]
    widths = _widths(cells, None if wide else room() - len(GAP) * (len(shown) - 1))
    at_right = [head in right for head in cells[0]]
    return "\n".join(line for row in cells for line in _lines(row, widths, at_right))


def _widths(cells: Sequence[Sequence[str]], limit: int | None) -> list[int]:
    """Return the widths of the columns.

    The widest are cut first: between words, else at marks in words, else anywhere.
    """
    columns = [list(column) for column in zip(*cells, strict=True)]
    widths = [max(map(_width, column)) for column in columns]
    if limit is None or sum(widths) <= limit:
        return widths
    for end in (WORD, PIECE, ANYWHERE):
        parts = [[part for text in column for part in end.split(text)] for column in columns]
        least = [min(max(map(_width, part)), KEPT) for part in parts]
        if sum(least) <= limit:
            return _cut(widths, least, limit)
        widths = least
    return widths  # there are more columns than room


def _cut(widths: Sequence[int], least: Sequence[int], limit: int) -> list[int]:
    """Return widths that fit a limit, from widths that do not and some that do."""
    for cap in range(limit, 0, -1):
        widths_cut = [max(min(width, cap), low) for width, low in zip(widths, least, strict=True)]
        if sum(widths_cut) <= limit:
            return widths_cut
    return list(least)


def _lines(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """Return a row as lines; what follows the first line of a cell is below it."""
    parts = [_wrap_text(text, width) for text, width in zip(row, widths, strict=True)]
    lines = []
    for i in range(max(map(len, parts))):
        padded = []
        for part, width, at_right in zip(parts, widths, right, strict=True):
            text = part[i] if i < len(part) else ""
            space = " " * (width - _width(text))
            padded.append(space + text if at_right else text + space)
        lines.append(GAP.join(padded).rstrip())
    return lines


def _wrap_text(text: str, width: int) -> list[str]:
    """Return a text as lines of at most a width."""
    if _width(text) <= width:
        return [text]
    lines = [""]
    for part in WORD.split(text):
        joined = f"{lines[-1]} {part}" if lines[-1] else part
        if _width(joined) <= width:
            lines[-1] = joined
            continue
        lines = [line for line in lines if line] + _broken(part, width)
    return lines


def _broken(long_word: str, width: int) -> list[str]:
    """Return a word in pieces of at most a width."""
    lines = [""]
    for piece in PIECE.split(long_word):
        parts = [piece] if _width(piece) <= width else ANYWHERE.split(piece)
        for part in parts:
            if _width(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
    return [line for line in lines if line]


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
