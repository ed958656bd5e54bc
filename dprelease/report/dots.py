"""Draw rows of dots on one scale: the form of most pictures of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dprelease.report.sheet import (
    BLUE,
    GRID,
    INK,
    LETTERS,
    ORANGE,
    PALE,
    Sheet,
    cut,
    ticks_between,
)

ROW = 0.32
"""Inches of a row: name above, dots below."""

LOOKS = {
    "dot": {"marker": "o", "markersize": 5.0, "mfc": BLUE, "mec": BLUE},
    "ring": {"marker": "o", "markersize": 6.0, "mfc": "white", "mec": ORANGE, "mew": 1.2},
    "faint": {"marker": "o", "markersize": 3.0, "mfc": "white", "mec": PALE, "mew": 0.6},
    "bar": {"marker": "|", "markersize": 7.0, "mec": INK, "mew": 1.2},
}
"""Marks that differ in shape, not only in colour."""


@dataclass(frozen=True, slots=True)
class Row:
    """A name, a text at the right end of its line, marks, and a line between two numbers."""

    name: str
    told: str
    marks: tuple[tuple[float, str], ...]
    line: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of a picture. `ends`: of a linear scale; a logarithmic one has those of its rows.

    `beside`: rows of other pictures with the same scale.
    """

    name: str
    number: Callable[[float], str]
    ends: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()
    beside: tuple[Row, ...] = ()

    @property
    def is_log(self) -> bool:
        """Return whether it is logarithmic."""
        return self.ends is None


def is_drawn(value: float | None) -> bool:
    """Return whether a number can be drawn on a logarithmic scale."""
    return value is not None and 0.0 < value < math.inf


def rows_of_dots(rows: Sequence[Row], scale: Scale, key: Sequence[tuple[str, str]] = ()) -> Sheet:
    """Return a drawing of rows, from the top; `key`: the meaning of each kind of mark."""
    above = 0.08 + 0.17 * len(key)
    sheet = Sheet(ROW * len(rows), above=above, left=0.1, right=0.12)
    axes = sheet.axes
    axes.set_ylim(len(rows) * ROW, 0.0)  # in inches, from the top
    low, high = scale.ends or _around([*rows, *scale.beside])
    if scale.is_log:
        axes.set_xscale("log")
    axes.set_xlim(low, high)
    places = scale.ticks or (ticks_between(low, high) if scale.is_log else (low, high))
    sheet.scale(low, high, [(place, scale.number(place)) for place in places], scale.name)
    for i, row in enumerate(rows):
        _draw(sheet, row, i * ROW, (low, high))
    for i, (look, words) in enumerate(key):
        _tell(sheet, look, words, (low, high), -0.17 * (len(key) - i) + 0.03)
    return sheet


def _around(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the ends of a logarithmic scale, with space around the outermost marks."""
    drawn = [place for row in rows for place, _ in row.marks if is_drawn(place)]
    drawn += [end for row in rows for end in row.line or () if is_drawn(end)]
    low, high = min(drawn, default=1.0), max(drawn, default=1.0)
    room = max(1.15, (high / low) ** 0.05)
    least = 3.0  # a scale of one number still has ticks
    if high / low < least:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(least), middle * math.sqrt(least)
    return low / room, high * room


def _draw(sheet: Sheet, row: Row, top: float, ends: tuple[float, float]) -> None:
    room = LETTERS - len(row.told)
    line = top + 0.235
    sheet.write(ends[0], top + 0.1, cut(row.name, room), ha="left", va="center")
    sheet.write(ends[1], top + 0.1, row.told, ha="right", va="center", color=PALE)
    axes = sheet.axes
    axes.plot([*ends], [line, line], color=GRID, linewidth=0.6, zorder=0)
    if row.line is not None:
        axes.plot([*row.line], [line, line], color=BLUE, linewidth=1.4, zorder=2)
    for place, look in row.marks:
        shown = ends[0] <= place <= ends[1]
        if shown:
            style = {"linestyle": "", "zorder": 3, **LOOKS[look]}
            axes.plot([place], [line], **style)  # type: ignore[arg-type]


def _tell(sheet: Sheet, look: str, words: str, ends: tuple[float, float], at: float) -> None:
    """Draw the legend entry of one kind of mark above the field."""
    axes = sheet.axes
    style = {"linestyle": "", "clip_on": False, **LOOKS[look]}
    low, high = ends
    at_log = axes.get_xscale() == "log"
    place = low * (high / low) ** 0.02 if at_log else low + 0.02 * (high - low)
    axes.plot([place], [at], **style)  # type: ignore[arg-type]
    sheet.write(place, at, words, beside=(8, 0), ha="left", va="center")
