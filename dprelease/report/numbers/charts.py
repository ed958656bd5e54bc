"""The pictures of a page as a template draws them, and the places of a column chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from dprelease.report.numbers.cells import Number
from dprelease.report.numbers.marks import UNRELIABLE, Mark, Scale, percent_text, shade_of
from dprelease.report.numbers.number_texts import NumberText, NumberTexts

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
