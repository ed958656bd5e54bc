"""One small drawing, as wide as a phone: positions in inches, texts as safe labels."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dprelease.report.safe import printable_text
from dprelease.report.svg import inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 3.4
"""Inches: 326 pixels, which fit a window of 360 pixels unscaled."""

LEFT, RIGHT, BELOW, ABOVE = 0.06, 0.06, 0.46, 0.06
"""Inches around the field of a drawing."""

INK, PALE, GRID = "#1a1a1a", "#5c5c5c", "#d9d9d9"
BLUE, ORANGE = "#0b5394", "#a34700"
"""Dark on white, and distinguishable with red-green colour blindness; shapes differ as well, for
print."""

LETTER, APART = 0.066, 0.03
"""Inches of a digit of a scale, and the minimum between two numbers."""

LETTERS = 46
"""Letters that fit in a line, at the width of Latin letters."""


class Sheet:
    """A drawing: `axes` is its field, without frames and ticks."""

    def __init__(
        self, height: float, *, left: float = LEFT, right: float = RIGHT, above: float = ABOVE
    ) -> None:
        from matplotlib.figure import Figure

        whole = height + above + BELOW
        self._figure = Figure(figsize=(WIDTH, whole))
        field = (left / WIDTH, BELOW / whole, 1 - (left + right) / WIDTH, height / whole)
        self.axes: Axes = self._figure.add_axes(field)
        self.axes.set_axis_off()
        self._figure.patch.set_visible(False)
        self._words: list[str] = []
        self._field = WIDTH - left - right
        self.whole = whole

    def placeholder(self, text: str) -> str:
        """Return the placeholder of a text until it is in the page."""
        self._words.append(text)
        return f"T{len(self._words) - 1}"

    def write(
        self, x: float, y: float, text: str, *, beside: tuple[float, float] = (0, 0), **look: Any
    ) -> None:
        """Write a text at a position of the field; `beside`: its offset in points."""
        style = {"fontsize": 8.0, "color": INK, **look}
        self.axes.annotate(
            self.placeholder(text), (x, y), xytext=beside, textcoords="offset points",
            annotation_clip=False, **style,
        )  # fmt: skip

    def scale(self, low: float, high: float, ticks: Sequence[tuple[float, str]], name: str) -> None:
        """Draw the scale below: fine vertical lines, numbers that don't overlap, and its title."""
        bottom, top = self.axes.get_ylim()
        self.axes.set_xlim(low, high)
        taken = -math.inf
        for place, text in sorted(ticks):
            self.axes.plot([place, place], [bottom, top], color=GRID, linewidth=0.6, zorder=0)
            side, first, last = self._room(place, text)
            if first < taken:
                continue
            taken = last + APART
            self.write(
                place, bottom, text, beside=(0, -3), ha=side, va="top", color=PALE, fontsize=7.5
            )
        middle = math.sqrt(low * high) if self.axes.get_xscale() == "log" else (low + high) / 2
        self.write(
            middle, bottom, cut(printable_text(name)), beside=(0, -17), ha="center", va="top"
        )

    def _room(self, place: float, text: str) -> tuple[str, float, float]:
        """Return the alignment of a number that keeps it inside the drawing.

        Also returns its extent, in inches.
        """
        low, high = self.axes.get_xlim()
        if self.axes.get_xscale() == "log":
            place, low, high = math.log(place), math.log(low), math.log(high)
        part = (place - low) / (high - low)
        side = "left" if part < 0.06 else "right" if part > 0.94 else "center"
        wide = LETTER * len(text)
        first = part * self._field - {"left": 0.0, "center": wide / 2, "right": wide}[side]
        return side, first, first + wide

    def svg(self, name: str, title: str, told: str) -> Markup:
        """Return the drawing as an element of a page."""
        return inline_svg(self._figure, self._words, name, title, told)


def cut(text: str, letters: int = LETTERS) -> str:
    """Return a text shortened to fit, with an ellipsis; wide letters count twice."""
    room = letters
    for i, letter in enumerate(text):
        room -= 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if room < 0:
            return f"{text[: max(0, i - 1)]}\u2026"
    return text


def ticks_between(low: float, high: float) -> list[float]:
    """Return round numbers on a logarithmic scale: three to six of them."""
    for subs in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)):
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        found = [
            sub * 10.0**power
            for power in range(first, last + 1)
            for sub in subs
            if low <= sub * 10.0**power <= high
        ]
        if len(found) >= 3:
            break
    every = math.ceil(len(found) / 6)
    return found[::every] if found else [math.sqrt(low * high)]
