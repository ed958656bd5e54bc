"""Tables for people, as wide as their terminal, with texts wrapped between words."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Sequence

from dprelease.errors.printable import one_line

GAP = "  "
# A number stays with its percent sign.
WORD = re.compile(r"\s+(?!%)")
PIECE = re.compile(r"\s+(?!%)|(?<=[._/,-])(?=[^\W\d_])")
BREAK_POINTS = re.compile(r"\s+(?!%)|(?=.)")
"""Positions at which a text may be broken if necessary; numbers are broken last."""

UNBROKEN_LENGTH = 34
"""Words of up to this length, such as names of mechanisms, are not broken to save width."""


def terminal_width() -> int:
    """Return the width of the terminal in columns: $COLUMNS, the real width, or 80."""
    return shutil.get_terminal_size().columns


def table_text(
    rows: Sequence[Sequence[str]],
    *,
    wide: bool = False,
    more: Sequence[str] = (),
    right: Sequence[str] = (),
    unbroken: Sequence[str] = (),
) -> str:
    """Return rows of texts as a table with aligned columns, in one text of several lines.

    The first row has the heads of the columns.

    `wide`: every row is one line, however long it is; otherwise texts that do not fit are wrapped.
    `more`: heads of the columns that are shown only if the table is wide. `right`: heads of the
    columns that are aligned to the right. `unbroken`: heads of columns whose texts are wrapped only
    if nothing else can be.
    """
    shown = [i for i, head in enumerate(rows[0]) if wide or head not in more]
    cells = [[one_line(row[i]) for i in shown] for row in rows]
    limit = None if wide else terminal_width() - len(GAP) * (len(shown) - 1)
    widths = _column_widths(cells, limit, [head in unbroken for head in cells[0]])
    at_right = [head in right for head in cells[0]]
    return "\n".join(line for row in cells for line in _row_lines(row, widths, at_right))


def table_or_records(
    rows: Sequence[Sequence[str]], *, title: int, right: Sequence[str] = ()
) -> str:
    """Return rows as a table if the terminal is wide enough for whole words, or else as records.

    A record has its first `title` texts in one line, and then a line for each other text that is
    not empty.
    """
    cells = [[one_line(text) for text in row] for row in rows]
    columns = zip(*cells, strict=True)
    words = [[word for text in column for word in WORD.split(text)] for column in columns]
    least = sum(max(map(_text_width, column)) for column in words) + len(GAP) * (len(words) - 1)
    if least <= terminal_width():
        return table_text(rows, right=right)
    names = cells[0][title:]
    indent = len(GAP) + max(map(_text_width, names)) + len(GAP)
    lines = []
    for row in cells[1:]:
        lines += _wrap_text(" ".join(text for text in row[:title] if text), terminal_width())
        for name, text in zip(names, row[title:], strict=True):
            if text:
                parts = _wrap_text(text, max(terminal_width() - indent, UNBROKEN_LENGTH // 2))
                first = f"{GAP}{name}".ljust(indent)
                lines += [first + parts[0], *(" " * indent + part for part in parts[1:])]
    return "\n".join(lines)


def _column_widths(
    cells: Sequence[Sequence[str]], limit: int | None, unbroken: Sequence[bool]
) -> list[int]:
    """Return the widths of the columns; `unbroken` columns keep theirs as long as possible.

    The widest columns are narrowed first: at spaces between words, then at punctuation in words,
    then anywhere.
    """
    columns = [list(column) for column in zip(*cells, strict=True)]
    widths = [max(map(_text_width, column)) for column in columns]
    if limit is None or sum(widths) <= limit:
        return widths
    for end in (WORD, PIECE, BREAK_POINTS):
        parts = [[part for text in column for part in end.split(text)] for column in columns]
        least = [min(max(map(_text_width, part)), UNBROKEN_LENGTH) for part in parts]
        if end is not BREAK_POINTS:
            least = [w if fixed else n for w, n, fixed in zip(widths, least, unbroken, strict=True)]
        if sum(least) <= limit:
            return _narrowed_widths(widths, least, limit)
        widths = least
    return widths  # even columns of the least widths do not fit into the terminal


def _narrowed_widths(widths: Sequence[int], least: Sequence[int], limit: int) -> list[int]:
    """Return widths within a limit, by narrowing columns, none below its width in `least`."""
    for cap in range(limit, 0, -1):
        widths_cut = [max(min(width, cap), low) for width, low in zip(widths, least, strict=True)]
        if sum(widths_cut) <= limit:
            return widths_cut
    return list(least)


def _row_lines(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """Return one row as lines; each cell continues below its first line."""
    parts = [_wrap_text(text, width) for text, width in zip(row, widths, strict=True)]
    lines = []
    for i in range(max(map(len, parts))):
        padded = []
        for part, width, at_right in zip(parts, widths, right, strict=True):
            text = part[i] if i < len(part) else ""
            space = " " * (width - _text_width(text))
            padded.append(space + text if at_right else text + space)
        lines.append(GAP.join(padded).rstrip())
    return lines


def _wrap_text(text: str, width: int) -> list[str]:
    """Return a text as lines of at most `width` columns."""
    if _text_width(text) <= width:
        return [text]
    lines = [""]
    for part in WORD.split(text):
        joined = f"{lines[-1]} {part}" if lines[-1] else part
        if _text_width(joined) <= width:
            lines[-1] = joined
            continue
        lines = [line for line in lines if line] + _word_parts(part, width)
    return lines


def _word_parts(long_word: str, width: int) -> list[str]:
    """Return the parts of a long word, each at most `width` columns wide."""
    lines = [""]
    for piece in PIECE.split(long_word):
        parts = [piece] if _text_width(piece) <= width else BREAK_POINTS.split(piece)
        for part in parts:
            if _text_width(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
    return [line for line in lines if line]


def _text_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def number_text(number: float | None, *, digits: int = 4) -> str:
    """Return a number with some significant digits; empty if there is none."""
    return "" if number is None else f"{number:,.{digits}g}"
