"""Expected errors of tables before data is read: as measured, and after least squares."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.consistency.algebra import Table, cells, spaces_of
from dprelease.consistency.fixed_point import Floats, Whole
from dprelease.consistency.standard_errors import (
    cell_coefficients,
    rounding_error,
    variance_above,
)
from dprelease.consistency.structure import Structure
from dprelease.consistency.variances import SpaceVariances, Variances

_AT_ONCE = 1 << 20
_ROUNDED = 1 + 2.0**-40  # as `standard_errors` rounds upwards


@dataclass(frozen=True)
class ErrorRange:
    """The least, the median and the greatest over the areas of a level."""

    least: float
    median: float
    greatest: float

    def all(self) -> tuple[float, float, float]:
        """Return the three, smallest first."""
        return self.least, self.median, self.greatest


@dataclass(frozen=True)
class ExpectedError:
    """One published table at one level.

    Parameters
    ----------
    level, table
        Level and attributes.
    areas
        Of the level.
    cells
        Of the table, over all of these areas.
    measured
        The variance of a measured cell; None if the table is not measured.
    summed
        The least variance of a cell as a sum of cells of one measured table of this level: the
        table itself or a finer one. This is the result without consistency; None if there is no
        such table.
    variance
        Of the least-squares estimate of a cell; infinite where it can't be estimated.
    standard_error
        The square root of `variance`, rounded up.
    margin
        `quantile` standard errors, plus the fixed-point error.
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
    """Return a row for each published table of each level, levels from the top; opens no data.

    Parameters
    ----------
    variances
        Of the declared structure.
    published
        For each level, its tables.
    quantile
        Number of standard errors of a margin, as in `standard_errors.half_widths`.
    """
    sizes, known = variances.structure.sizes, set(variances.of)
    added = {
        table: rounding_error(variances, table)
        for table in {table for tables in published for table in tables}
        if known.issuperset(spaces_of(sizes, table))
    }
    rows = []
    for level, tables in enumerate(published):
        final, areas = _final(variances, level, tables)
        for table in tables:
            factors = cell_coefficients(variances.structure.sizes, table)
            each = variance_above(variances, factors, final.__getitem__)
            spread = _spread(np.broadcast_to(each, areas.shape), areas)
            bits = variances.structure.bits
            rest = math.ldexp(added[table][level], -bits) if table in added else math.inf
            rows.append(_row(variances, level, table, spread, quantile, rest))
    return rows


def _row(
    variances: Variances, level: int, table: Table, spread: ErrorRange, quantile: float, rest: float
) -> ExpectedError:
    structure = variances.structure
    areas = structure.tree.counts[level]
    errors = ErrorRange(*(math.sqrt(v) * _ROUNDED for v in spread.all()))
    margins = ErrorRange(*(quantile * error + (rest if error else 0.0) for error in errors.all()))
    number = areas * cells(structure.sizes, table)
    measured, summed = _without(structure, level, table)
    return ExpectedError(level, table, areas, number, measured, summed, spread, errors, margins)


def _without(structure: Structure, level: int, table: Table) -> tuple[float | None, float | None]:
    """Return the variance of a cell as measured, and as a sum of cells of one measured table."""
    laws = structure.laws[level]
    sums = [
        float(law.variance) * cells(structure.sizes, set(other) - set(table))
        for other, law in laws.items()
        if set(table) <= set(other)
    ]
    return float(laws[table].variance) if table in laws else None, min(sums, default=None)


def _final(
    variances: Variances, level: int, tables: Collection[Table]
) -> tuple[dict[Table, Floats], Whole]:
    """Return F of the residual spaces of some tables, and the number of areas for each value.

    Leaves of the last level under one parent share one value.
    """
    tree = variances.structure.tree
    areas, picked = np.ones(tree.counts[level], np.int64), np.arange(tree.counts[level])
    if level == tree.levels - 1:
        fan = tree.fan(level - 1) if level else areas.sum(keepdims=True)
        areas = fan[fan > 0]
        picked = tree.starts[level - 1][:-1][fan > 0] if level else np.zeros(1, np.int64)
    spaces = {s for table in tables for s in spaces_of(variances.structure.sizes, table)}
    return {
        space: _variances_of_areas(variances.of[space], level, picked)
        for space in spaces
        if space in variances.of
    }, areas


def _variances_of_areas(one: SpaceVariances, level: int, picked: Whole) -> Floats:
    """Return F of some areas of a level, rising; computed in pieces."""
    count = one.tree.counts[level]
    parts = []
    for start in range(0, count, _AT_ONCE):
        stop = min(start + _AT_ONCE, count)
        low, high = np.searchsorted(picked, (start, stop))
        parts.append(one.variances(level, start, stop)[picked[low:high] - start])
    return np.concatenate(parts)


def _spread(each: Floats, areas: Whole) -> ErrorRange:
    order = np.argsort(each, kind="stable")
    until = np.cumsum(areas[order])
    middle = int(np.searchsorted(until, (until[-1] + 1) // 2))
    return ErrorRange(*(float(each[order[at]]) for at in (0, middle, -1)))
