"""Draw rows of dots on one scale, as in most pictures of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dprelease.report.sheet import (
    BLUE,
    LETTERS,
    ORANGE,
    PALE,
    Axis,
    DotStyle,
    Sheet,
    ticks_between,
    truncate_text,
)

ROW = 0.32
"""Height of a row in inches: the name above, the dots below."""

LOOKS = {
    "dot": DotStyle(5.0, BLUE, BLUE),
    "ring": DotStyle(6.0, "white", ORANGE, 1.2),
    "faint": DotStyle(3.0, "white", PALE, 0.6),
}
"""Looks of marks, which differ in shape and not only in colour."""


@dataclass(frozen=True, slots=True)
class PictureRow:
    """One row of a picture: a name, a text at the right end of its line, marks, and a line."""

    name: str
    note: str
    marks: tuple[tuple[float, str], ...]
    line: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class PictureScale:
    """The scale of a picture, which is linear or logarithmic.

    `ends`: the ends of a linear scale; the ends of a logarithmic scale follow from its rows.
    `others`: rows of other pictures that share this scale.
    """

    name: str
    number: Callable[[float], str]
    ends: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()
    others: tuple[PictureRow, ...] = ()

    @property
    def is_log(self) -> bool:
        """Return whether the scale is logarithmic."""
        return self.ends is None


def can_be_drawn(value: float | None) -> bool:
    """Return whether a number can be drawn on a logarithmic scale."""
    return value is not None and 0.0 < value < math.inf


def rows_of_dots(
    rows: Sequence[PictureRow], scale: PictureScale, key: Sequence[tuple[str, str]] = ()
) -> Sheet:
    """Return a drawing of rows from top to bottom; `key`: the meaning of each kind of mark."""
    low, high = scale.ends or _scale_ends([*rows, *scale.others])
    above = 0.08 + 0.17 * len(key)
    x, y = Axis(low, high, scale.is_log), Axis(len(rows) * ROW, 0.0)  # inches from the top
    sheet = Sheet(ROW * len(rows), x, y, above=above, left=0.1, right=0.12)
    places = scale.ticks or (ticks_between(low, high) if scale.is_log else (low, high))
    sheet.scale([(place, scale.number(place)) for place in places], scale.name)
    for i, row in enumerate(rows):
        _draw_row(sheet, row, i * ROW)
    for i, (look, meaning) in enumerate(key):
        _draw_legend_entry(sheet, look, meaning, -0.17 * (len(key) - i) + 0.03)
    return sheet


def _scale_ends(rows: Sequence[PictureRow]) -> tuple[float, float]:
    """Return the ends of a logarithmic scale, with space around the outermost marks."""
    drawn = [place for row in rows for place, _ in row.marks if can_be_drawn(place)]
    drawn += [end for row in rows for end in row.line or () if can_be_drawn(end)]
    low, high = min(drawn, default=1.0), max(drawn, default=1.0)
    room = max(1.15, (high / low) ** 0.05)
    least = 3.0  # ensures ticks for a scale of one number
    if high / low < least:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(least), middle * math.sqrt(least)
    return low / room, high * room


def _draw_row(sheet: Sheet, row: PictureRow, top: float) -> None:
    """Draw a row: its name, its note, its line and its marks."""
    low, high = sheet.x.low, sheet.x.high
    text, line = top + 0.1, top + 0.235
    sheet.write(low, text, truncate_text(row.name, LETTERS - len(row.note)), "start", "middle")
    sheet.write(high, text, row.note, "end", "middle", colour=PALE)
    sheet.line([(low, line), (high, line)])
    if row.line is not None:
        sheet.line([(end, line) for end in row.line], BLUE, 1.4)
    for value, look in row.marks:
        if low <= value <= high:
            sheet.dot(value, line, LOOKS[look])


def _draw_legend_entry(sheet: Sheet, look: str, meaning: str, top: float) -> None:
    """Draw the legend entry of one kind of mark above the field."""
    value = sheet.x.number_at(0.02)
    sheet.dot(value, top, LOOKS[look])
    sheet.write(value, top, meaning, "start", "middle", offset=(8, 0))
