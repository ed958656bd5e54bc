"""Charts, by matplotlib (the extra `plot`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import OutputError, Place
from dprelease.release.comparison import Compared

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    """Write a chart; raise OutputError DP-OUTPUT-002 if the file can't be written."""
    try:
        figure.savefig(path)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError("DP-OUTPUT-002", name=path.name, reason=reason) from None


def _bars(axes: Axes, offset: float, label: str, values: Sequence[float]) -> None:
    places = [row + 0.25 * offset for row in range(len(values))]
    widths = [value if math.isfinite(value) else 0.0 for value in values]
    axes.barh(places, widths, height=0.23, label=label)
