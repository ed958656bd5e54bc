"""The expected errors of consistent tables, computed before any data is read.

They are also drawn as a chart, by level and table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.consistency.algebra import Table
from dprelease.consistency.expected import ErrorRange, ExpectedError, expected_errors
from dprelease.numerics.rounding import finite
from dprelease.planning.charts import finish_log_axis, is_drawn, save, write_row_label
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.family_columns import FamilyColumn, agreed_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.outputs import tables_with_estimates
from dprelease.postprocess.consistent.step import Consistent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WIDTH, ROW, FRAME = 7.5, 0.21, 1.1
"""Inches: of the chart, of a row, of the space above and below the rows."""

ROOM = 0.17
"""Fraction of the scale that the label of a mark takes."""

ALONE, TOGETHER = "0.4", "C0"
"""Colours of a single table's errors, and of the estimates."""

GONE = {0.0: "exact", math.inf: "not estimable"}
"""Texts in place of errors that a logarithmic axis can't show."""


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

    A ring is the error of the measured table of this level that determines a cell best; a dot is
    the median error after least squares, and the line through it covers all areas of the level.

    Parameters
    ----------
    errors
        The result of `expected_errors`; at least one.
    levels
        Names of the tree's levels, from the top.
    tables
        Names of the tables.
    path
        The file; its suffix determines the image format.
    step
        One step of the errors, in the unit of the chart.
    unit
        The name of that unit.

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
        write_row_label(axes, at, of, weight="bold")
        for row in rows:
            at += 1.0
            _draw_row(axes, at, row, step)
            write_row_label(axes, at, tables[row.table])
            if not labelled and _alone(row) and is_drawn(row.standard_error.median):
                labelled = _name_marks(axes, at, row, step)
        at += 1.5
    axes.set_ylim(at - 0.7, -0.8)  # from the top
    _make_room(axes, labelled)
    finish_log_axis(axes)
    save(figure, path)


def _alone(row: ExpectedError) -> float:
    """Return the standard error without the other tables; 0 if it can't be drawn."""
    return math.sqrt(row.summed) if row.summed else 0.0


def _draw_row(axes: Axes, at: float, row: ExpectedError, step: float) -> None:
    error = ErrorRange(*(step * part for part in row.standard_error.all()))
    alone = step * _alone(row)
    if is_drawn(error.least) and is_drawn(error.greatest):
        axes.plot([error.least, error.greatest], [at, at], color=TOGETHER, linewidth=1.2)
    if alone:
        axes.plot([alone], [at], marker="o", linestyle="", mfc="white", mec=ALONE, markersize=5)
    if is_drawn(error.median):
        axes.plot([error.median], [at], marker="o", linestyle="", color=TOGETHER, markersize=4)
    write_row_label(axes, at, GONE.get(error.median, f"{error.median:.3g}"), right=True)


def _make_room(axes: Axes, places: Sequence[float]) -> None:
    """Extend the scale so that the labels of marks fit inside."""
    low, high = (math.log(end) for end in axes.get_xlim())
    for place in map(math.log, places):
        if place - low < ROOM * (high - low):
            low = (place - ROOM * high) / (1 - ROOM)
        if high - place < ROOM * (high - low):
            high = (place - ROOM * low) / (1 - ROOM)
    axes.set_xlim(math.exp(low), math.exp(high))


def _name_marks(axes: Axes, at: float, row: ExpectedError, step: float) -> tuple[float, ...]:
    """Label the first marks, on sides that face away; return their positions."""
    first = row.standard_error.median < _alone(row)
    for x, label, color, left in (
        (row.standard_error.median, "least squares", TOGETHER, first),
        (_alone(row), "one table alone", ALONE, not first),
    ):
        axes.annotate(
            label,
            (step * x, at),
            xytext=(-2 if left else 2, 7),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7,
            color=color,
        )
    return step * row.standard_error.median, step * _alone(row)


@dataclass(frozen=True, slots=True)
class AgreedErrors:
    """The errors of one column of a family, a row for each table with estimates."""

    family: str
    agreed: FamilyColumn
    rows: tuple[ExpectedError, ...]

    @property
    def names(self) -> Mapping[tuple[int, Table], str]:
        """Return the names of tables by level and attributes."""
        return {(one.level, one.attributes): one.name for one in self.agreed.shape.placed}

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows as JSON values, in the column's unit."""
        step = float(self.agreed.step)
        return [
            {
                "table": self.names[row.level, row.table],
                "column": self.agreed.name,
                "level": self.agreed.shape.levels[row.level],
                "areas": row.areas,
                "cells": row.cells,
                "measured": _root(row.measured, step),
                "one_table": _root(row.summed, step),
                "estimate": finite(row.standard_error.median * step),
                "largest": finite(row.standard_error.greatest * step),
                "margin": finite(row.margin.greatest * step),
                "confidence": float(self.agreed.confidence),
            }
            for row in self.rows
        ]


def _root(variance: float | None, step: float) -> float | None:
    return None if variance is None else float(variance**0.5 * step)


def agreed_errors(plan: Plan) -> Iterator[AgreedErrors]:
    """Yield the expected errors of all columns in consistent tables; opens no data.

    `measured` is the standard error of a cell's own noise, `one_table` that of the best estimate
    from a single measured table of the level, `estimate` that of least squares over all tables.
    """
    for family in plan.families:
        if not isinstance(family.step, Consistent):
            continue
        shape = Shape.of(family.tables)
        shown = {
            (one.level, one.attributes) for one in tables_with_estimates(shape, family.step.spec)
        }
        for agreed in agreed_columns(shape):
            published = [
                [one.attributes for one in shape.at(level) if (level, one.attributes) in shown]
                for level in range(len(shape.levels))
            ]
            rows = expected_errors(agreed.variances, published, agreed.quantile)
            yield AgreedErrors(family.name, agreed, tuple(rows))


def draw_agreed_errors(plan: Plan, path: Path) -> None:
    """Write a chart for each column of consistent tables, next to a file of other charts.

    Raises
    ------
    OutputError
        DP-OUTPUT-002 if one can't be written.
    """
    for errors in agreed_errors(plan):
        target = path.with_name(f"{path.stem}_{errors.family}_{errors.agreed.name}{path.suffix}")
        shape = errors.agreed.shape
        tables = {
            one.attributes: " x ".join(shape.attributes[i].column for i in one.attributes)
            or "total"
            for one in shape.placed
        }
        draw_family_errors(
            errors.rows,
            shape.levels,
            tables,
            target,
            step=float(errors.agreed.step),
            unit=errors.agreed.measurement.error_unit,
        )
