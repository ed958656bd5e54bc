"""Figures as data, and their drawing: lines with their names at their ends, for all eyes."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#8C6D00")
"""Of Okabe and Ito, told apart with any colour vision; the yellow darker, for white paper."""

STYLE = {
    "font.size": 8.5,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "path.simplify_threshold": 0.2,
}
GAP = 0.062
"""Least distance of two names, in heights of a panel."""


@dataclass(frozen=True)
class Series:
    """One curve: `style` is line, dashed (a bound or a reference) or dots (single values)."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "line"


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `log` names those that are logarithmic, of "x", "y", "xy" and ""."""

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log: str = ""
    title: str = ""
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Figure:
    """One figure of a paper: its number there, and what is drawn here.

    `there`: what is known of the printed one. `drawn`: what the panels show, computed.
    """

    name: str
    number: str
    there: str
    drawn: str
    panels: tuple[Panel, ...]


def drawn(figure: Figure) -> Canvas:
    """Return the picture, for matplotlib to write."""
    from matplotlib.figure import Figure as Picture

    wide = len(figure.panels)
    canvas = Picture(figsize=(4.9 * wide, 3.1), layout="constrained")
    axes = canvas.subplots(1, wide, squeeze=False)[0]
    for one, panel in zip(axes, figure.panels, strict=True):
        _draw(one, panel)
    return canvas


def svg(figure: Figure) -> str:
    """Return the picture as an SVG element; the same text for the same points."""
    from matplotlib import rc_context

    with rc_context({**STYLE, "svg.hashsalt": figure.name}):
        file = io.StringIO()
        drawn(figure).savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    label = escape(f"{figure.number}: {figure.drawn}", {'"': "'"})
    return text[text.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _draw(axes: Axes, panel: Panel) -> None:
    if "x" in panel.log:
        axes.set_xscale("log")
    if "y" in panel.log:
        axes.set_yscale("log")
    for series, colour in zip(panel.series, COLOURS, strict=False):
        if series.style == "dots":
            axes.plot(series.x, series.y, "o", ms=3.5, color=colour)
        else:
            dashes = "--" if series.style == "dashed" else "-"
            axes.plot(series.x, series.y, dashes, lw=1.4, color=colour)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title)
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    _name(axes, panel)


def _name(axes: Axes, panel: Panel) -> None:
    """Write the names at the right ends of the curves, none over another."""
    low, high = axes.get_ylim()
    ends = [_height(_last(one), low, high, "y" in panel.log) for one in panel.series]
    order = sorted(range(len(ends)), key=lambda i: ends[i])
    places = dict(zip(order, _apart([ends[i] for i in order]), strict=True))
    for i, (series, colour) in enumerate(zip(panel.series, COLOURS, strict=False)):
        axes.text(
            1.02, places[i], series.label, color=colour, va="center", transform=axes.transAxes
        )


def _last(series: Series) -> float:
    """Return the value at the right end of a curve."""
    finite = [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(y)]
    return max(finite)[1]


def _height(value: float, low: float, high: float, log: bool) -> float:
    """Return a value's place between the ends of an axis, 0 to 1."""
    if log:
        low, high, value = (math.log(max(one, 5e-324)) for one in (low, high, value))
    return min(max((value - low) / (high - low), 0.0), 1.0)


def _apart(places: list[float]) -> list[float]:
    """Return ascending places moved as little as it takes to keep `GAP` between any two."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + GAP) if found else place)
    beyond = max(found[-1] - 1.0, 0.0) if found else 0.0
    for i in range(len(found) - 1, -1, -1):
        least = 1.0 if i == len(found) - 1 else found[i + 1] - GAP
        found[i] = min(found[i], least) if beyond else found[i]
    return found
