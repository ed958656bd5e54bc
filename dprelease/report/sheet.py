"""One small drawing, as wide as a phone: lines, dots and texts, which a template writes as SVG."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dprelease.report.safe import printable_text

INCH = 72.0
"""Points per inch; a point is the unit of a drawing."""

WIDTH = 3.4
"""Width in inches: 326 pixels, which fit into a window of 360 pixels without scaling."""

LEFT, RIGHT, BELOW, ABOVE = 0.06, 0.06, 0.46, 0.06
"""Margins around the field of a drawing, in inches."""

INK, PALE, GRID = "#1a1a1a", "#5c5c5c", "#d9d9d9"
BLUE, ORANGE = "#0b5394", "#a34700"
"""Dark colours on white that are distinguishable with red-green colour blindness.

Shapes differ as well, for black-and-white print.
"""

DIGIT_WIDTH, DIGIT_GAP = 0.066, 0.03
"""Width of a digit of a scale, and minimum distance between two numbers, in inches."""

LETTERS = 46
"""Number of Latin letters that fit into a line."""

BASELINE_SHIFT = {"top": 0.76, "middle": 0.26, "bottom": -0.24}
"""Distance from the vertical position of a text to its baseline, as a share of the font size."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear or logarithmic scale between two numbers."""

    low: float
    high: float
    is_log: bool = False

    def position_of(self, value: float) -> float:
        """Return the position of a number on the scale: 0 at its start, 1 at its end."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def number_at(self, part: float) -> float:
        """Return the number at a position on the scale between 0 and 1."""
        if self.is_log:
            return self.low * math.pow(self.high / self.low, part)
        return self.low + part * (self.high - self.low)

    def clip(self, value: float) -> float:
        """Return a number, or the nearest end of the scale if the number is outside."""
        return min(max(value, min(self.low, self.high)), max(self.low, self.high))


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, as SVG writes them."""

    points: str
    colour: str
    width: float
    dashes: str


@dataclass(frozen=True, slots=True)
class DotStyle:
    """The look of a dot: its diameter and the width of its edge in points, and its colours."""

    size: float
    fill: str
    edge: str
    width: float = 1.0

    @property
    def radius(self) -> float:
        """Return half of the diameter."""
        return self.size / 2


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot at a position."""

    x: str
    y: str
    look: DotStyle


@dataclass(frozen=True, slots=True)
class Text:
    """A text at a position; `anchor`: the part of the text that is there, as in SVG."""

    x: str
    y: str
    text: str
    anchor: str
    colour: str
    size: float
    bold: bool


class Sheet:
    """A drawing: a field of `height` inches with two axes, and margins around it.

    Lines are painted first, texts last.
    """

    def __init__(
        self,
        height: float,
        x: Axis,
        y: Axis,
        *,
        left: float = LEFT,
        right: float = RIGHT,
        above: float = ABOVE,
    ) -> None:
        self.x, self.y = x, y
        self._left, self._above = left * INCH, above * INCH
        self._wide, self._high = (WIDTH - left - right) * INCH, height * INCH
        self.width, self.height = WIDTH * INCH, (height + above + BELOW) * INCH
        self.lines: list[Line] = []
        self.dots: list[Dot] = []
        self.texts: list[Text] = []

    def _svg_position(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of two numbers in the drawing, in inches from the top left."""
        across, up = self.x.position_of(x), self.y.position_of(y)
        return self._left + across * self._wide, self._above + (1 - up) * self._high

    def line(
        self,
        points: Iterable[tuple[float, float]],
        colour: str = GRID,
        width: float = 0.6,
        dashes: str = "",
    ) -> None:
        """Draw a line through points of the field; points outside are moved to its edge."""
        positions = [self._svg_position(self.x.clip(x), self.y.clip(y)) for x, y in points]
        corners = " ".join(f"{_decimal_text(x)},{_decimal_text(y)}" for x, y in positions)
        self.lines.append(Line(corners, colour, width, dashes))

    def dot(self, x: float, y: float, look: DotStyle) -> None:
        """Draw a dot."""
        across, down = self._svg_position(x, y)
        self.dots.append(Dot(_decimal_text(across), _decimal_text(down), look))

    def write(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str,
        place: str,
        *,
        offset: tuple[float, float] = (0, 0),
        colour: str = INK,
        size: float = 8.0,
        bold: bool = False,
    ) -> None:
        """Write a text at a position of the field.

        `anchor`: the part of the text that is there: start, middle or end. `place`: the vertical
        part that is there: top, middle or bottom. `offset`: a shift in points to the right and
        upwards.
        """
        across, down = self._svg_position(x, y)
        line = down - offset[1] + BASELINE_SHIFT[place] * size
        start, label = _decimal_text(across + offset[0]), printable_text(text, None)
        self.texts.append(Text(start, _decimal_text(line), label, anchor, colour, size, bold))

    def scale(self, ticks: Sequence[tuple[float, str]], name: str) -> None:
        """Draw the scale below the field: vertical lines, separate numbers, and its title."""
        bottom = self.y.low
        taken = -math.inf
        for value, text in sorted(ticks):
            self.line([(value, bottom), (value, self.y.high)])
            anchor, first, last = self._anchor_and_extent(value, text)
            if first < taken:
                continue
            taken = last + DIGIT_GAP
            self.write(value, bottom, text, anchor, "top", offset=(0, -3), colour=PALE, size=7.5)
        title = truncate_text(printable_text(name))
        self.write(self.x.number_at(0.5), bottom, title, "middle", "top", offset=(0, -17))

    def _anchor_and_extent(self, value: float, text: str) -> tuple[str, float, float]:
        """Return the anchor of a number that keeps the number inside the drawing.

        The horizontal extent of the number in inches is returned too.
        """
        part = self.x.position_of(value)
        anchor = "start" if part < 0.06 else "end" if part > 0.94 else "middle"
        wide = DIGIT_WIDTH * len(text)
        first = part * self._wide / INCH - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        return anchor, first, first + wide


def _decimal_text(number: float) -> str:
    """Return a number with one decimal, without a final zero."""
    return f"{number:.1f}".removesuffix(".0")


def truncate_text(text: str, letters: int = LETTERS) -> str:
    """Return a text shortened to fit, with an ellipsis; wide letters count twice."""
    room = letters
    for i, letter in enumerate(text):
        room -= 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if room < 0:
            return f"{text[: max(0, i - 1)]}\u2026"
    return text


def ticks_between(low: float, high: float) -> list[float]:
    """Return three to six round numbers on a logarithmic scale."""
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
