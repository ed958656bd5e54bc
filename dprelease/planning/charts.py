"""Draw charts with matplotlib (the extra `plot`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import OutputError, Place
from dprelease.errors.printable import printable
from dprelease.planning.auto.single_mechanism import MechanismComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

IMAGE_SUFFIXES = (".png", ".svg", ".pdf")


def require_drawable(path: Path) -> None:
    """Raise OutputError if a chart can't be drawn, before any other work.

    The code is DP-OUTPUT-004 if matplotlib is not installed, and DP-OUTPUT-005 if the file name has
    no suffix of an image format.
    """
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        formats = ", ".join(IMAGE_SUFFIXES)
        raise OutputError("DP-OUTPUT-005", place=Place(key="plot"), name=path.name, formats=formats)
    if find_spec("matplotlib") is None:
        raise OutputError("DP-OUTPUT-004", place=Place(key="plot"), name=path.name)


ERROR_MARKS = (("mean", "o", "C0"), ("95 %", "o", "white"), ("99.9 %", "|", "0.1"))
"""The label, the marker and the face colour of each error; shape alone distinguishes the marks."""


def draw_comparison(rows: Sequence[MechanismComparison], path: Path) -> None:
    """Draw the mean, 95 % and 99.9 % errors of every mechanism as dots on a logarithmic axis.

    Bars would mislead, because their lengths have no meaning on an axis without 0.

    Raises OutputError: DP-OUTPUT-002 if the file can't be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 1.2 + 0.3 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xscale="log", xlabel="error of one result, in steps", yticks=[])
    has_labels = False
    for y, row in enumerate(rows):
        errors = _errors_to_draw(row)
        drawn = [error for error in errors if is_drawn(error)]
        axes.plot([min(drawn, default=1), max(drawn, default=1)], [y, y], color="0.75", zorder=1)
        for error, (_, marker, face) in zip(errors, ERROR_MARKS, strict=True):
            if is_drawn(error):
                style = {"marker": marker, "mfc": face, "mec": "0.1" if marker == "|" else "C0"}
                axes.plot([error], [y], linestyle="", markersize=6, zorder=2, **style)  # type: ignore[arg-type]
        write_row_label(axes, y, row.mechanism.name)
        write_row_label(
            axes, y, f"{errors[0]:.3g}" if is_drawn(errors[0]) else "no mean", right=True
        )
        if not has_labels and len(drawn) == len(ERROR_MARKS):
            _label_marks(axes, y, errors)
            has_labels = True
    axes.set_ylim(len(rows) - 0.4, -0.9)  # from the top
    finish_log_axis(axes)
    save_chart(figure, path)


def _errors_to_draw(row: MechanismComparison) -> list[float]:
    """Return the mean error of a mechanism and its margins at 95 % and 99.9 %."""
    mechanism = row.mechanism
    return [
        mechanism.mean_absolute_error,
        float(mechanism.half_width(0.95)),
        float(mechanism.half_width(0.999)),
    ]


def _label_marks(axes: Axes, y: float, errors: Sequence[float]) -> None:
    """Label the marks in the first row that has all of them."""
    for error, (label, _, _) in zip(errors, ERROR_MARKS, strict=True):
        axes.annotate(
            label, (error, y), xytext=(0, 6), textcoords="offset points",
            ha="center", va="bottom", fontsize=7, color="0.3",
        )  # fmt: skip


def is_drawn(error: float) -> bool:
    """Return whether a logarithmic axis can show an error."""
    return 0.0 < error < math.inf


def write_row_label(
    axes: Axes, y: float, label: str, *, right: bool = False, weight: str = "normal"
) -> None:
    """Write a label next to a row, as a text: matplotlib would parse formulas in tick labels."""
    axes.text(
        1.01 if right else -0.01,
        y,
        label,
        transform=axes.get_yaxis_transform(),
        ha="left" if right else "right",
        va="center",
        fontsize=8,
        weight=weight,
    )


def finish_log_axis(axes: Axes) -> None:
    """Add ticks to a logarithmic axis below rows, and remove the rest of the frame."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = axes.get_xlim()  # within one power of ten, a logarithmic axis has hardly any ticks
    if high < 10 * low:
        axes.xaxis.set_major_locator(MaxNLocator(6))
    else:
        subs = (1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)
        axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["left", "right", "top"]].set_visible(False)


def save_chart(figure: Figure, path: Path) -> None:
    """Write a chart to a file, without parsing any name in it as a formula.

    Raises OutputError DP-OUTPUT-002 if the file can't be written.
    """
    from matplotlib.text import Text

    ticks = {id(label) for axes in figure.axes for label in _tick_labels(axes)}
    for text in figure.findobj(Text):
        if isinstance(text, Text) and id(text) not in ticks:  # tick numbers may be formulas
            text.set_text(printable(text.get_text()))
            text.set_parse_math(False)
    try:
        figure.savefig(path)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError(
            "DP-OUTPUT-002", name=path.name, reason=reason, refused_by=problem
        ) from None


def _tick_labels(axes: Axes) -> list[Text]:
    """Return the tick labels of both axes, which matplotlib makes from numbers when it draws."""
    return [
        label for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels(which="both")
    ]
