"""What errors tables that agree will have, told before any data is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprelease.consistency.algebra import Table
from dprelease.consistency.expected import ExpectedError, expected_errors
from dprelease.numerics.rounding import finite
from dprelease.planning.families.family_chart import draw_family_errors
from dprelease.planning.families.family_plan import families_of
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.family_columns import Agreed, agreed_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.outputs import tables_with_estimates
from dprelease.postprocess.consistent.step import Consistent
from dprelease.schema.release import ReleaseSpec


@dataclass(frozen=True, slots=True)
class AgreedErrors:
    """The errors of one column of a family, a row for each table with estimates."""

    family: str
    agreed: Agreed
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


def agreed_errors(spec: ReleaseSpec, plan: Plan) -> Iterator[AgreedErrors]:
    """Yield the expected errors of all columns whose tables agree; opens no data.

    `measured` is the standard error of a cell's own noise, `one_table` what the best measured table
    of the level says of it by itself, `estimate` what least squares makes of all.
    """
    for family in families_of(spec, plan.columns):
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


def draw_agreed_errors(spec: ReleaseSpec, plan: Plan, path: Path) -> None:
    """Write a chart for each column whose tables agree, beside a file of other charts.

    Raises
    ------
    OutputError
        DP-OUTPUT-002 if one can't be written.
    """
    for errors in agreed_errors(spec, plan):
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
