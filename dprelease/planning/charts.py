"""Charts, by matplotlib (the extra `plot`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import OutputError, Place
from dprelease.errors.printable import printable
from dprelease.planning.auto.comparison import Compared

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

FORMATS = (".png", ".svg", ".pdf")


def check_target(path: Path) -> None:
    """Raise OutputError before any work is done for a chart that can't be drawn.

    DP-OUTPUT-004: matplotlib is not installed; DP-OUTPUT-005: the file name does not end like an
    image.
    """
    if path.suffix.lower() not in FORMATS:
        formats = ", ".join(FORMATS)
        raise OutputError("DP-OUTPUT-005", place=Place(key="plot"), name=path.name, formats=formats)
    if find_spec("matplotlib") is None:
        raise OutputError("DP-OUTPUT-004", place=Place(key="plot"), name=path.name)


def draw_comparison(rows: Sequence[Compared], path: Path) -> None:
    """Write bars of the mean, 95 % and 99.9 % errors of every mechanism, on a logarithmic axis.

    Raises
    ------
    OutputError
        DP-OUTPUT-002 if the file can't be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 0.5 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    series = (
        ("mean", [row.mechanism.mean_absolute_error for row in rows]),
        ("95 %", [float(row.mechanism.half_width(0.95)) for row in rows]),
        ("99.9 %", [float(row.mechanism.half_width(0.999)) for row in rows]),
    )
    for i, (label, values) in enumerate(series):
        _bars(axes, i - 1.0, label, values)
    axes.set_yticks(range(len(rows)), [row.mechanism.name for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(left=min(value for value in series[0][1] if value > 0) / 2)
    axes.set_xlabel("error of one answer, lattice steps")
    axes.legend(title="error")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a chart, whose names are shown as they are; no name is taken for a formula.

    Raises OutputError DP-OUTPUT-002 if the file can't be written.
    """
    from matplotlib.text import Text

    ticks = {id(label) for axes in figure.axes for label in _tick_labels(axes)}
    for text in figure.findobj(Text):
        if isinstance(text, Text) and id(text) not in ticks:  # ticks' numbers may be formulas
            text.set_text(printable(text.get_text()))
            text.set_parse_math(False)
    try:
        figure.savefig(path)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError("DP-OUTPUT-002", name=path.name, reason=reason) from None


def _tick_labels(axes: Axes) -> list[Text]:
    """Return the labels of an axis that are made from its numbers, when it is drawn."""
    return [
        label for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels(which="both")
    ]


def _bars(axes: Axes, offset: float, label: str, values: Sequence[float]) -> None:
    places = [row + 0.25 * offset for row in range(len(values))]
    widths = [value if math.isfinite(value) else 0.0 for value in values]
    axes.barh(places, widths, height=0.23, label=label)
