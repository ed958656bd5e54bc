"""Compute expected errors before data is read: of measured tables, and after least squares."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.consistency.algebra import Table, cell_count, spaces_of
from dprelease.consistency.fixed_point import Floats, Whole
from dprelease.consistency.standard_errors import (
    cell_coefficients,
    rounding_error,
    variance_upper_bound,
)
from dprelease.consistency.structure import Structure
from dprelease.consistency.variances import SpaceVariances, Variances

_BATCH_SIZE = 1 << 20
_ROUNDING_FACTOR = 1 + 2.0**-40  # rounds errors upwards, as `standard_errors` does


@dataclass(frozen=True)
class ErrorRange:
    """The least, the median and the greatest error among the areas of a level."""

    least: float
    median: float
    greatest: float

    def all(self) -> tuple[float, float, float]:
        """Return the least, the median and the greatest error, in this order."""
        return self.least, self.median, self.greatest


@dataclass(frozen=True)
class ExpectedError:
    """The expected errors of one published table at one level.

    - `level`, `table`: the level, and the attributes of the table.
    - `areas`: the number of areas of the level.
    - `cells`: the number of cells of the table, over all of these areas.
    - `measured`: the variance of a measured cell; None if the table is not measured.
    - `summed`: the least variance of a cell as a sum of cells of one measured table of this level:
      the table itself or a finer table. This is the error without consistent tables; None if there
      is no such measured table.
    - `variance`: the variance of the least-squares estimate of a cell; infinite if the cell can't
      be estimated.
    - `standard_error`: the square root of `variance`, rounded up.
    - `margin`: `quantile` standard errors, plus the fixed-point error.
    """

    level: int
    table: Table
    areas: int
    cells: int
    measured: float | None
    summed: float | None
    variance: ErrorRange
    standard_error: ErrorRange
    margin: ErrorRange


def expected_errors(
    variances: Variances, published: Sequence[Collection[Table]], quantile: float
) -> list[ExpectedError]:
    """Return the expected errors of all published tables, level by level from the top.

    The function opens no data.

    - `published`: for each level, the published tables.
    - `quantile`: the number of standard errors in a margin, as in `standard_errors.half_widths`.
    """
    sizes, known = variances.structure.sizes, set(variances.of)
    added = {
        table: rounding_error(variances, table)
        for table in {table for tables in published for table in tables}
        if known.issuperset(spaces_of(sizes, table))
    }
    rows = []
    for level, tables in enumerate(published):
        final, areas = _variances_by_space(variances, level, tables)
        for table in tables:
            factors = cell_coefficients(variances.structure.sizes, table)
            each = variance_upper_bound(variances, factors, final.__getitem__)
            spread = _error_range(np.broadcast_to(each, areas.shape), areas)
            bits = variances.structure.bits
            rest = math.ldexp(added[table][level], -bits) if table in added else math.inf
            rows.append(_expected_error(variances, level, table, spread, quantile, rest))
    return rows


def _expected_error(
    variances: Variances, level: int, table: Table, spread: ErrorRange, quantile: float, rest: float
) -> ExpectedError:
    structure = variances.structure
    areas = structure.tree.counts[level]
    errors = ErrorRange(*(math.sqrt(v) * _ROUNDING_FACTOR for v in spread.all()))
    margins = ErrorRange(*(quantile * error + (rest if error else 0.0) for error in errors.all()))
    number = areas * cell_count(structure.sizes, table)
    measured, summed = measured_variances(structure, level, table)
    return ExpectedError(level, table, areas, number, measured, summed, spread, errors, margins)


def measured_variances(
    structure: Structure, level: int, table: Table
) -> tuple[float | None, float | None]:
    """Return the variance of a cell as measured, and as a sum of cells of one measured table.

    The table is one of a level, or of a grouping.
    """
    noise_moments = structure.moments_at(level)
    sums = [
        float(moments.variance) * cell_count(structure.sizes, set(other) - set(table))
        for other, moments in noise_moments.items()
        if set(table) <= set(other)
    ]
    return float(noise_moments[table].variance) if table in noise_moments else None, min(
        sums, default=None
    )


def _variances_by_space(
    variances: Variances, level: int, tables: Collection[Table]
) -> tuple[dict[Table, Floats], Whole]:
    """Return F of the residual spaces of some tables, and the number of areas for each value.

    Leaves of the last level under one parent share one value, unless groupings are measured.
    """
    tree = variances.structure.tree
    areas, picked = np.ones(tree.counts[level], np.int64), np.arange(tree.counts[level])
    if level == tree.levels - 1 and not variances.structure.groupings:
        fan = tree.fan(level - 1) if level else areas.sum(keepdims=True)
        areas = fan[fan > 0]
        # One leaf for each parent stands for its siblings, which have the same variance.
        picked = tree.starts[level - 1][:-1][fan > 0] if level else np.zeros(1, np.int64)
    spaces = {s for table in tables for s in spaces_of(variances.structure.sizes, table)}
    return {
        space: _variances_of_some_areas(variances.of[space], level, picked)
        for space in spaces
        if space in variances.of
    }, areas


def _variances_of_some_areas(one: SpaceVariances, level: int, picked: Whole) -> Floats:
    """Return F of some areas of a level, in ascending order; computed in batches."""
    count = one.tree.counts[level]
    parts = []
    for start in range(0, count, _BATCH_SIZE):
        stop = min(start + _BATCH_SIZE, count)
        low, high = np.searchsorted(picked, (start, stop))
        parts.append(one.variances(level, start, stop)[picked[low:high] - start])
    return np.concatenate(parts)


def _error_range(each: Floats, areas: Whole) -> ErrorRange:
    order = np.argsort(each, kind="stable")
    until = np.cumsum(areas[order])
    middle = int(np.searchsorted(until, (until[-1] + 1) // 2))
    return ErrorRange(*(float(each[order[at]]) for at in (0, middle, -1)))
