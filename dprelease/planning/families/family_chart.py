"""The chart of a consistent family: errors by level and table, before any data is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.consistency.algebra import Table
from dprelease.consistency.expected import ExpectedError, Spread
from dprelease.planning.charts import beside, finish_log_axis, is_drawn, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW, FRAME = 7.5, 0.21, 1.1
"""Inches: of the chart, of a row, of what is above and below the rows."""

ROOM = 0.17
"""Part of the scale that the name of a mark takes."""

ALONE, TOGETHER = "0.4", "C0"
"""Colours of what a single table says, and of the estimates."""

GONE = {0.0: "exact", math.inf: "not estimable"}
"""What stands in the place of an error that a logarithmic axis does not have."""


def draw_family_errors(
    errors: Sequence[ExpectedError],
    levels: Sequence[str],
    tables: Mapping[Table, str],
    path: Path,
    *,
    step: float = 1.0,
    unit: str = "",
) -> None:
    """Write a chart of standard errors: a row for each table, in a group for each level.

    A ring is the error of the one measured table, of those of this level, that tells a cell best; a
    dot the median error after least squares, the line through it all areas of the level.

    Parameters
    ----------
    errors
        What `expected_errors` returns; at least one.
    levels
        Names of the tree's levels, from the top.
    tables
        Names of the tables.
    path
        The file; its ending says which kind of image.
    step
        What one lattice step of the errors is, in the unit that is drawn.
    unit
        Its name.

    Raises
    ------
    OutputError
        DP-OUTPUT-002 if the file can't be written.
    """
    from matplotlib.figure import Figure

    groups = [(level, list(rows)) for level, rows in groupby(errors, lambda row: row.level)]
    height = FRAME + ROW * (len(errors) + 1.5 * len(groups))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    of_unit = f" ({unit})" if unit else ""
    axes.set(xscale="log", xlabel=f"standard error of a cell{of_unit}", yticks=[])
    at = 0.0
    labelled: tuple[float, ...] = ()
    for level, rows in groups:
        number = rows[0].areas
        of = f"{levels[level]} ({number:,} area{'s' if number > 1 else ''})"
        beside(axes, at, of, weight="bold")
        for row in rows:
            at += 1.0
            _draw_row(axes, at, row, step)
            beside(axes, at, tables[row.table])
            if not labelled and _alone(row) and is_drawn(row.standard_error.median):
                labelled = _name_marks(axes, at, row, step)
        at += 1.5
    axes.set_ylim(at - 0.7, -0.8)  # from the top
    _make_room(axes, labelled)
    finish_log_axis(axes)
    save(figure, path)


def _alone(row: ExpectedError) -> float:
    """Return the standard error without the other tables; 0 where nothing can be drawn of it."""
    return math.sqrt(row.summed) if row.summed else 0.0


def _draw_row(axes: Axes, at: float, row: ExpectedError, step: float) -> None:
    error = Spread(*(step * part for part in row.standard_error.all()))
    alone = step * _alone(row)
    if is_drawn(error.least) and is_drawn(error.greatest):
        axes.plot([error.least, error.greatest], [at, at], color=TOGETHER, linewidth=1.2)
    if alone:
        axes.plot([alone], [at], marker="o", linestyle="", mfc="white", mec=ALONE, markersize=5)
    if is_drawn(error.median):
        axes.plot([error.median], [at], marker="o", linestyle="", color=TOGETHER, markersize=4)
    beside(axes, at, GONE.get(error.median, f"{error.median:.3g}"), right=True)


def _make_room(axes: Axes, places: Sequence[float]) -> None:
    """Move the ends of the scale so far from marks that have names that these don't leave it."""
    low, high = (math.log(end) for end in axes.get_xlim())
    for place in map(math.log, places):
        if place - low < ROOM * (high - low):
            low = (place - ROOM * high) / (1 - ROOM)
        if high - place < ROOM * (high - low):
            high = (place - ROOM * low) / (1 - ROOM)
    axes.set_xlim(math.exp(low), math.exp(high))


def _name_marks(axes: Axes, at: float, row: ExpectedError, step: float) -> tuple[float, ...]:
    """Say beside the first marks what they are, on sides that look away; return their places."""
    first = row.standard_error.median < _alone(row)
    for x, words, color, left in (
        (row.standard_error.median, "least squares", TOGETHER, first),
        (_alone(row), "one table alone", ALONE, not first),
    ):
        axes.annotate(
            words,
            (step * x, at),
            xytext=(-2 if left else 2, 7),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7,
            color=color,
        )
    return step * row.standard_error.median, step * _alone(row)
