"""Compute and draw the expected errors of consistent tables, before any data is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.consistency.algebra import Table
from dprelease.consistency.expected import ErrorRange, ExpectedError, expected_errors
from dprelease.numerics.rounding import finite
from dprelease.planning.charts import finish_log_axis, is_drawn, save_chart, write_row_label
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.area_tables import expected_group_errors
from dprelease.postprocess.consistent.consistency_record import RefinementRecord
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.outputs import tables_with_estimates
from dprelease.postprocess.consistent.record import refinement_records
from dprelease.postprocess.consistent.step import Consistent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WIDTH, ROW, FRAME = 7.5, 0.21, 1.1
"""In inches: the width of the chart, the height of a row, the space above and below all rows."""

LABEL_WIDTH = 0.17
"""Fraction of the scale's length that the label of a mark takes."""

SINGLE_TABLE_COLOUR, ESTIMATE_COLOUR = "0.4", "C0"
"""Colours of a single table's errors, and of the estimates."""

TEXTS_OF_UNDRAWN = {0.0: "exact", math.inf: "not estimable"}
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

    A ring is the error of the best estimate from a single measured table of the level. A dot is the
    median error after least squares, and the line through the dot covers the errors of all areas.

    - `errors`: the result of `expected_errors`; at least one.
    - `levels`: names of the tree's levels, from the top.
    - `path`: the file; its suffix determines the image format.
    - `step`: one step of the errors, in the unit of the chart.
    - `unit`: the name of that unit.

    Raises OutputError: DP-OUTPUT-002 if the file can't be written.
    """
    from matplotlib.figure import Figure

    groups = [(level, list(rows)) for level, rows in groupby(errors, lambda row: row.level)]
    height = FRAME + ROW * (len(errors) + 1.5 * len(groups))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    of_unit = f" ({unit})" if unit else ""
    axes.set(xscale="log", xlabel=f"standard error of a cell{of_unit}", yticks=[])
    y = 0.0
    labelled: tuple[float, ...] = ()
    for level, rows in groups:
        number = rows[0].areas
        heading = f"{levels[level]} ({number:,} area{'s' if number > 1 else ''})"
        write_row_label(axes, y, heading, weight="bold")
        for row in rows:
            y += 1.0
            _draw_row(axes, y, row, step)
            write_row_label(axes, y, tables[row.table])
            if not labelled and _single_table_error(row) and is_drawn(row.standard_error.median):
                labelled = _label_marks(axes, y, row, step)
        y += 1.5
    axes.set_ylim(y - 0.7, -0.8)  # from the top
    _extend_scale(axes, labelled)
    finish_log_axis(axes)
    save_chart(figure, path)


def _single_table_error(row: ExpectedError) -> float:
    """Return the standard error of the best estimate from a single table; 0 without one."""
    return math.sqrt(row.summed) if row.summed else 0.0


def _draw_row(axes: Axes, y: float, row: ExpectedError, step: float) -> None:
    """Draw the range of the expected errors of one table, and its error if published alone."""
    error = ErrorRange(*(step * part for part in row.standard_error.all()))
    single_table = step * _single_table_error(row)
    if is_drawn(error.least) and is_drawn(error.greatest):
        axes.plot([error.least, error.greatest], [y, y], color=ESTIMATE_COLOUR, linewidth=1.2)
    if single_table:
        axes.plot(
            [single_table],
            [y],
            marker="o",
            linestyle="",
            mfc="white",
            mec=SINGLE_TABLE_COLOUR,
            markersize=5,
        )
    if is_drawn(error.median):
        axes.plot(
            [error.median], [y], marker="o", linestyle="", color=ESTIMATE_COLOUR, markersize=4
        )
    write_row_label(axes, y, TEXTS_OF_UNDRAWN.get(error.median, f"{error.median:.3g}"), right=True)


def _extend_scale(axes: Axes, mark_positions: Sequence[float]) -> None:
    """Extend the scale so that the labels of marks fit inside."""
    low, high = (math.log(end) for end in axes.get_xlim())
    for mark in map(math.log, mark_positions):
        if mark - low < LABEL_WIDTH * (high - low):
            low = (mark - LABEL_WIDTH * high) / (1 - LABEL_WIDTH)
        if high - mark < LABEL_WIDTH * (high - low):
            high = (mark - LABEL_WIDTH * low) / (1 - LABEL_WIDTH)
    axes.set_xlim(math.exp(low), math.exp(high))


def _label_marks(axes: Axes, y: float, row: ExpectedError, step: float) -> tuple[float, ...]:
    """Label the two marks of the first row, on their outer sides; return their positions."""
    is_estimate_left = row.standard_error.median < _single_table_error(row)
    for x, label, color, left in (
        (row.standard_error.median, "least squares", ESTIMATE_COLOUR, is_estimate_left),
        (_single_table_error(row), "one table alone", SINGLE_TABLE_COLOUR, not is_estimate_left),
    ):
        axes.annotate(
            label,
            (step * x, y),
            xytext=(-2 if left else 2, 7),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7,
            color=color,
        )
    return step * row.standard_error.median, step * _single_table_error(row)


@dataclass(frozen=True, slots=True)
class ConsistentErrors:
    """The expected errors of one column of consistent tables, with a row for each table.

    `refinement`: how integer tables are computed, if there are any. `integers`: by table, their
    simulated mean absolute error, in the column's unit.
    """

    family: str
    agreed: FamilyColumn
    rows: tuple[ExpectedError, ...]
    refinement: tuple[RefinementRecord, ...] = ()
    integers: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> Mapping[tuple[int, Table], str]:
        """Return the names of the tables by level and attributes."""
        shape = self.agreed.shape
        listed = [*shape.placed, *(table for tables in shape.grouped for table, _ in tables)]
        return {(table.level, table.attributes): table.name for table in listed}

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows as JSON values, in the column's unit."""
        step, levels = float(self.agreed.step), _level_names(self.agreed.shape)
        return [
            {
                "table": self.names[row.level, row.table],
                "column": self.agreed.name,
                "level": levels[row.level],
                "areas": row.areas,
                "cells": row.cells,
                "measured": _standard_error(row.measured, step),
                "one_table": _standard_error(row.summed, step),
                "estimate": finite(row.standard_error.median * step),
                "largest": finite(row.standard_error.greatest * step),
                "margin": finite(row.margin.greatest * step),
                "confidence": float(self.agreed.confidence),
                "integers": self.integers.get(self.names[row.level, row.table]),
            }
            for row in self.rows
        ]


def _standard_error(variance: float | None, step: float) -> float | None:
    """Return the standard error in units of the column; None if the variance is not known."""
    return None if variance is None else float(variance**0.5 * step)


def consistent_errors(plan: Plan) -> Iterator[ConsistentErrors]:
    """Yield the expected errors of all columns in consistent tables, without opening data.

    In the JSON values, `measured` is the standard error of the noise of a cell, `one_table` the
    standard error of the best estimate from a single measured table of the level, and `estimate`
    the standard error of least squares over all tables.
    """
    for family in plan.families:
        if not isinstance(family.step, Consistent):
            continue
        shape = Shape.of(family.tables)
        published_tables = {
            (table.level, table.attributes)
            for table in tables_with_estimates(shape, family.step.spec)
        }
        for agreed in consistent_columns(shape):
            published = [
                [
                    table.attributes
                    for table in shape.at(level)
                    if (level, table.attributes) in published_tables
                ]
                for level in range(len(shape.levels))
            ]
            rows = expected_errors(agreed.variances, published, agreed.quantile)
            rows += expected_group_errors(agreed)
            has_integers = family.step.spec.non_negative and agreed.is_shown
            how = refinement_records(agreed, family.step.spec) if has_integers else []
            yield ConsistentErrors(family.name, agreed, tuple(rows), tuple(how))


def _level_names(shape: Shape) -> tuple[str, ...]:
    """Return the names of the levels and, as in the levels of their tables, of the groupings."""
    return (*shape.levels, *(key.column for key in shape.groupings))


def family_margins(errors: Iterable[ConsistentErrors]) -> dict[tuple[str, str], float]:
    """Return the largest margin of each column of consistent tables, by table and column."""
    rows = [row for one in errors for row in one.to_json()]
    return {(row["table"], row["column"]): row["margin"] for row in rows if row["margin"]}


def draw_agreed_errors(plan: Plan, path: Path) -> None:
    """Write a chart for each column of consistent tables, next to the file of other charts.

    Raises OutputError: DP-OUTPUT-002 if a chart can't be written.
    """
    for errors in consistent_errors(plan):
        target = path.with_name(f"{path.stem}_{errors.family}_{errors.agreed.name}{path.suffix}")
        shape = errors.agreed.shape
        tables = {
            table.attributes: " x ".join(shape.attributes[i].column for i in table.attributes)
            or "total"
            for table in shape.placed
        }
        draw_family_errors(
            errors.rows,
            _level_names(shape),
            tables,
            target,
            step=float(errors.agreed.step),
            unit=errors.agreed.measurement.error_unit,
        )
