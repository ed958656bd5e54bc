"""Charts as a template draws them: bars, intervals and colours on scales, in percent of the width.

Texts never scale. A drawing has no script and no fixed width: it is as wide as its place on a
screen or on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from dprelease.report.numbers.cells import Number
from dprelease.report.numbers.number_texts import NumberText, NumberTexts

ROOM = 1.35
"""How far the scale reaches beyond the largest value, to show the ends of intervals."""

SHADES = 6
"""Number of shades of a heat table, from the smallest to the largest value."""

UNRELIABLE = frozenset(("D", "at_bound"))
"""Quality codes of values that are drawn faded."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale from the left end of a drawing to its right end; it contains 0."""

    low: float
    high: float

    @classmethod
    def around(cls, numbers: Iterable[Number]) -> Scale:
        """Return the scale of some numbers and, as far as there is room, of their intervals."""
        found = list(numbers)
        values = [one.number for one in found if one.number is not None]
        ends = [end for one in found for end in (one.low, one.high) if end is not None]
        high, low = max([0.0, *values]), min([0.0, *values])
        far = ROOM * max(high, -low) or max(map(abs, ends), default=1.0) or 1.0
        high = max(high, min(max(ends, default=high), far))
        low = min(low, max(min(ends, default=low), -far if low < 0 else -0.1 * high))
        return cls(low, high if high > low else low + 1.0)

    def part(self, value: float) -> float:
        """Return the place of a value in percent of the width, at most a little outside of it."""
        at = 100.0 * (value - self.low) / (self.high - self.low)
        return min(max(at, -1.0), 101.0)


@dataclass(frozen=True, slots=True)
class Mark:
    """One number as a bar and the line of its interval; places are texts such as 12.5 %."""

    start: str
    width: str
    low: str
    high: str
    has_bar: bool
    has_line: bool
    is_faded: bool


def mark_of(number: Number, scale: Scale) -> Mark:
    """Return the bar of a number from 0, and the line of its interval."""
    value = number.number
    zero, at = scale.part(0.0), scale.part(value or 0.0)
    low, high = (scale.part(end) if end is not None else 0.0 for end in (number.low, number.high))
    return Mark(
        percent_text(min(zero, at)),
        percent_text(abs(at - zero)),
        percent_text(low),
        percent_text(high),
        has_bar=value is not None,
        has_line=number.low is not None and number.high is not None and high > low,
        is_faded=number.quality in UNRELIABLE,
    )


def percent_text(part: float) -> str:
    """Return a place as SVG writes it, in percent of the width."""
    return f"{part:.2f}".rstrip("0").rstrip(".").replace("-0", "0", part > -0.005) + "%"


def round_lines(scale: Scale) -> list[float]:
    """Return two to four round numbers on a scale, for the lines of a chart."""
    step = _round_step((scale.high - scale.low) / 4.0)
    first = math.ceil(scale.low / step - 1e-9)
    return [k * step for k in range(first, math.floor(scale.high / step + 1e-9) + 1) if k]


def shade_of(value: float | None, largest: float) -> int:
    """Return the shade of a value by its square root, 0 to `SHADES`: so small values differ."""
    if value is None or value <= 0.0 or largest <= 0.0:
        return 0
    return min(SHADES, math.ceil(SHADES * math.sqrt(value / largest)))


def class_edges(values: Sequence[float]) -> list[float]:
    """Return round edges of about ten classes of values; 1, 2, 5, 10 ... for skewed values.

    The first class of skewed values has no lower end.
    """
    ordered = sorted(values)
    low, high, middle = ordered[0], ordered[-1], ordered[len(ordered) // 2]
    if low > -0.05 * high and high > 8.0 * max(middle, 1.0):
        first = max(ordered[len(ordered) // 10], high / 1e4, 1.0)
        return [-math.inf, *_round_numbers(first, high)]
    step = _round_step((high - low or abs(high) or 1.0) / 10.0)
    first = math.floor(low / step)
    return [k * step for k in range(first, math.floor(high / step) + 2)]


def _round_step(size: float) -> float:
    """Return the least of 1, 2, 5, 10 ... that is at least as large."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(power * part for part in (1, 2, 5, 10) if power * part >= size * (1 - 1e-9))


def _round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2, 5, 10 ... from the least above `low` to the least above `high`."""
    found = [_round_step(low)]
    while found[-1] <= high:
        found.append(_above(found[-1]))
    return found


def _above(number: float) -> float:
    """Return the next of 1, 2, 5, 10 ... above one of these numbers."""
    return _round_step(number * 1.5)


MOST_BARS = 24
"""Maximum number of bars; of more rows, the largest values are drawn, and their distribution."""

TICKS = 4
"""Maximum number of texts below a column chart, which fit beside each other on a phone."""

TICK_HEIGHT = 14.0
"""Height in pixels of the number of a line of a column chart, which is above the line."""

HEIGHT = 180
"""Height in pixels of a column chart without its scale."""


@dataclass(frozen=True)
class Panel:
    """One picture: `kind` is the macro of the template that draws it."""

    kind: str
    title: Markup
    note: Markup
    alt: str = ""
    bars: list[Bar] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    lines: list[tuple[float, str]] = field(default_factory=list)
    heads: list[Markup] = field(default_factory=list)
    corner: Markup = field(default_factory=Markup)
    rows: list[tuple[Markup, list[HeatCell]]] = field(default_factory=list)


@dataclass(frozen=True)
class Bar:
    """One row of a bar chart: its name, its number, and its mark."""

    name: Markup
    text: NumberText
    mark: Mark


@dataclass(frozen=True)
class Column:
    """One column of a column chart; places are in percent, heights in pixels of the drawing."""

    x: str
    middle: str
    width: str
    top: float
    height: float
    low: float
    high: float
    alt: str
    tick: str = ""
    anchor: str = "middle"
    is_faded: bool = False


@dataclass(frozen=True)
class HeatCell:
    """One cell of a heat table: its number and its shade."""

    text: NumberText
    shade: int
    is_faded: bool


def heat_cell(texts: NumberTexts, number: Number, largest: float) -> HeatCell:
    """Return one cell of a heat table with its number and its shade."""
    shade = shade_of(number.number, largest)
    return HeatCell(texts.of(number), shade, number.quality in UNRELIABLE)


def columns_of(
    numbers: Sequence[Number], names: Sequence[str], alts: Sequence[str], scale: Scale
) -> list[Column]:
    """Return the columns of a chart from left to right; some columns have their name below."""
    wide = 100.0 / len(numbers)
    every = max(1, math.ceil(len(numbers) / TICKS))
    columns = []
    for i, number in enumerate(numbers):
        top, zero = down(scale, number.number or 0.0), down(scale, 0.0)
        is_ticked = i % every == 0 and i + every / 2 <= len(numbers)
        column = Column(
            percent_text(wide * (i + 0.12)),
            percent_text(wide * (i + 0.5)),
            percent_text(wide * 0.76),
            min(top, zero),
            round(abs(zero - top), 1),
            down(scale, number.low) if number.low is not None else top,
            down(scale, number.high) if number.high is not None else top,
            alts[i],
            names[i] if is_ticked else "",
            "start" if i == 0 else "middle",
            number.quality in UNRELIABLE,
        )
        columns.append(column)
    return columns


def down(scale: Scale, value: float) -> float:
    """Return the distance of a value from the top of a column chart, in pixels."""
    return round(HEIGHT * (1.0 - scale.part(value) / 100.0), 1)
