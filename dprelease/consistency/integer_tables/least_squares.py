"""Compute the integer tables of a level by least squares over all measured tables.

For each parent, the tables of its children are one problem (`nearest_tables`), rounded to integers
whose sums over the children are the parent's table (`controlled_rounding`). Where tables are known
exactly, and where a table has very many cells, the results are rounded along a chain of nested
tables instead (`nested_tables`), which keeps exact tables as they are.

Problems are solved in batches of similar size, and each result depends only on its own problem.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table, cell_count, spaces_of
from dprelease.consistency.fixed_point import Floats, Whole, round_half_even
from dprelease.consistency.integer_tables.allotment import Mask
from dprelease.consistency.integer_tables.decisions import Refinement, measured_tables
from dprelease.consistency.integer_tables.nearest_tables import nearest_tables
from dprelease.consistency.integer_tables.nested_tables import (
    Level,
    batches,
    children,
    padded_children,
    roots,
    similar_problems,
)
from dprelease.consistency.variances import Variances

# Round tables to integers whose sums over children hold, with small errors in all measured tables.
#
# Each entry of the finest table becomes the next lower or higher integer. The cells are rounded one
# after the other, for all children of a parent at once: the sum over the children says how many
# entries are rounded up, and those are rounded up whose measured tables then have the smallest
# errors. So the error of one cell is compensated by later cells, in all measured tables together,
# as error diffusion does in images. A second pass decides about each cell again, with all others
# known. Coarse tables have larger weights, because more cells can compensate their errors.
#
# Controlled rounding in more than two dimensions may not exist (Causey, Cox and Ernst 1985), so an
# error of 1 and more is possible in a coarse table; it is rare. The order of operations is fixed,
# as in `nearest_tables`, so results have the same bits everywhere.
#
# Source: Causey, Cox and Ernst, "Applications of transportation theory to statistical problems"
# (1985), for the limits of controlled rounding; the error diffusion over tables is derived here.

PASSES = 2
_LEAST_SUM = 2.0**-500  # below it a quotient by the sum may be infinite


def round_tables(
    x: Floats, possible: Mask, sums: Whole | None, tables: Iterable[Table], passes: int = PASSES
) -> Whole:
    """Return integer tables near `x` whose sums over children are `sums`, in the shape of `x`.

    - `x`: (n_i ..., children, problems) tables of at least 0, whose sums are near those of the
      parents.
    - `possible`: (n_i ..., children, problems) the entries that can be more than 0.
    - `sums`: (n_i ..., problems) the tables of the parents; None for roots, which are rounded
      freely.
    - `tables`: the tables whose errors count, as sets of axes, in addition to the finest and the
      total.
    """
    sizes, last = x.shape[:-2], x.shape[-2:]
    target = x.reshape(-1, *last) if sums is None else _with_exact_sums(x, possible, sums)
    can_be = possible.reshape(-1, *last)
    low = np.floor(target).astype(np.int64)
    fraction = target - low
    up = np.zeros(target.shape, np.int64)
    everything = tuple(range(len(sizes)))
    errors = {t: np.zeros((*(sizes[i] for i in t), *last)) for t in {(), *tables, everything}}
    # Powers of two, so that products with weights are exact.
    weights = {table: 2.0 ** -sum(sizes[axis] > 1 for axis in table) for table in errors}
    missing = None if sums is None else sums.reshape(len(target), -1) - low.sum(axis=1)
    for again in range(passes):
        for at, cell in enumerate(itertools.product(*map(range, sizes))):
            if not fraction[at].any() and (missing is None or not missing[at].any()):
                continue  # whole numbers that need no change
            views = [(weights[t], errors[t][tuple(cell[i] for i in t)]) for t in sorted(errors)]
            if again:
                for _, error in views:
                    error -= up[at] - fraction[at]
            gain = np.zeros(last)
            for weight, error in views:
                gain += weight * (2.0 * (fraction[at] - error) - 1.0)
            if missing is None:
                up[at] = (gain > 0) & (fraction[at] > 0)
            else:
                up[at] = _roundings(gain, low[at], fraction[at] > 0, can_be[at], missing[at])
            for _, error in views:
                error += up[at] - fraction[at]
    return (low + up).reshape(x.shape)


def _with_exact_sums(x: Floats, possible: Mask, sums: Whole) -> Floats:
    """Return entries scaled so that their sums over children are `sums`: (cells, ...).

    The iterations of `nearest_tables` leave sums that are nearly those of the parents.
    """
    last = x.shape[-2:]
    # Where all children of a cell came out as 0, the parent's number is divided evenly.
    shares = np.where((_child_sums(x) > _LEAST_SUM)[..., None, :], x, possible)
    total = _child_sums(shares)
    factor = np.divide(sums, total, out=np.zeros(sums.shape), where=total > 0)
    scaled: Floats = (shares * factor[..., None, :]).reshape(-1, *last)
    return scaled


def _child_sums(x: Floats) -> Floats:
    """Return the sums over children, added child by child."""
    total = np.zeros((*x.shape[:-2], x.shape[-1]))
    for child in range(x.shape[-2]):
        total += x[..., child, :]
    return total


def _roundings(gain: Floats, low: Whole, between: Mask, possible: Mask, missing: Whole) -> Whole:
    """Return by how much each child's entry is above `low`, in sum `missing`: shape of `gain`.

    Entries between two integers with the largest gain are rounded up first. In the rare case that
    these are not enough, or that the sum is too large already, entries change one step at a time.
    """
    up = np.zeros(gain.shape, np.int64)
    candidates = between
    while missing.any():
        sign = np.sign(missing)
        candidates = np.where(missing < 0, low + up > 0, candidates)
        worst_last = np.where(candidates, -sign * gain, np.inf)
        # A sort of a sort is the rank. It is stable, so that ties go to the first child on every
        # machine.
        rank = np.argsort(np.argsort(worst_last, axis=0, kind="stable"), axis=0, kind="stable")
        changed = candidates & (rank < abs(missing))
        up += sign * changed
        missing = missing - sign * changed.sum(axis=0)
        candidates = possible
    return up


Number = TypeVar("Number", np.int64, np.float64)

CHILD_ITERATIONS, ROOT_ITERATIONS, MOST_ITERATIONS = 40, 400, 1000
"""Iterations for children and for roots, which are few and whose errors reach all areas below.

These are enough for equal noise in all tables. With unequal noise they grow with the square root of
the ratio of variances, up to the last number."""

UNMEASURED_ITERATIONS = 400
"""Least number of iterations if no table has all attributes: many tables are equally near then."""

_BATCH_ENTRIES = 1 << 18


@dataclass(frozen=True)
class LevelPrecisions:
    """How precisely the areas of a level are measured.

    - `precisions`: (areas,) for each residual space of the finest table, what `nearest_tables`
      needs.
    - `coarse`: the measured tables with fewer attributes than the finest, without the total.
    - `first`: the tables that are made non-negative first.
    - `iterations`: iterations for children; `ROOT_ITERATIONS` is the least number for roots.
    """

    precisions: Mapping[Table, Floats]
    coarse: Sequence[Table]
    first: Sequence[Table]
    iterations: int

    @classmethod
    def of(
        cls,
        variances: Variances,
        how: Refinement,
        level: int,
        areas: tuple[int, int],
        whole_level: int | None = None,
    ) -> LevelPrecisions:
        """Return how precisely some areas are measured, there and below.

        `level`: in the tree of `variances`, which may be a part of the whole tree, in which the
        level is `whole_level`.
        """
        sizes, finest = variances.structure.sizes, how.finest
        precisions = {}
        for space in spaces_of(sizes, finest):
            found = np.zeros(areas[1] - areas[0])
            if how.separator is not None and set(space) <= set(how.separator):
                found[:] = np.inf
            elif space in variances.of:
                variance = variances.of[space].variances_from_below(level, *areas)
                with np.errstate(divide="ignore"):  # an exact table has an infinite precision
                    found = cell_count(sizes, set(finest) - set(space)) / variance
            precisions[tuple(finest.index(i) for i in space)] = found
        coarse = measured_tables(variances.structure, finest, level)
        if how.separator is not None:
            coarse = sorted({*coarse, how.separator} - {()})
        first = how.first[level if whole_level is None else whole_level]
        iterations = _iterations(variances, finest, level)
        return cls(precisions, _axes(finest, coarse), _axes(finest, first), iterations)


def _iterations(variances: Variances, finest: Table, level: int) -> int:
    """Return the number of iterations for the children of a level, from the declaration alone."""
    noise = [
        float(moments.variance)
        for tables in variances.structure.noise_moments[level:]
        for moments in tables.values()
        if moments.variance
    ]
    # With the step of `_step`, the number of iterations of this method grows with the square root
    # of the condition number.
    ratio = max(noise, default=1.0) / min(noise, default=1.0)
    least = CHILD_ITERATIONS
    if max(spaces_of(variances.structure.sizes, finest), key=len) not in variances.of:
        least = UNMEASURED_ITERATIONS
    return min(MOST_ITERATIONS, max(least, math.ceil(CHILD_ITERATIONS * math.sqrt(ratio))))


def _axes(finest: Table, tables: Sequence[Table]) -> list[Table]:
    return [tuple(finest.index(i) for i in table) for table in tables]


def nearest_children(
    level: Level, measured: LevelPrecisions, chain: list[Table], exact: set[Table]
) -> Whole:
    """Return the finest integer tables of all children: (children, n_i ...).

    - `level`: the children with their estimates and parents.
    - `measured`: how precisely the children are measured.
    - `chain`: nested tables along which the results are rounded, the finest last; empty for
      controlled rounding of all measured tables.
    - `exact`: the tables of the chain that are known exactly.

    Raises ValueError if exact numbers of children contradict those of their parents.
    """
    totals = level.parents.reshape(len(level.parents), -1).sum(axis=1)
    integers = np.zeros(level.estimates.shape, np.int64)
    nearest = np.zeros(level.estimates.shape)
    # An only child has the table of its parent.
    only = np.flatnonzero((totals > 0) & (level.fan == 1))
    integers[level.families[only]] = level.parents[only]
    nearest[level.families[only]] = level.parents[only]
    parents = np.flatnonzero((totals > 0) & (level.fan > 1))
    entries = cell_count(level.sizes, level.finest)
    for problems in similar_problems(level.fan[parents]):
        width = int(level.fan[parents[problems]].max())
        for batch in batches(parents[problems], entries * width, _BATCH_ENTRIES):
            rows, exists = padded_children(level, batch)
            sums = np.ascontiguousarray(np.moveaxis(level.parents[batch], 0, -1))
            possible = (sums > 0)[..., None, :] & exists.T
            x = nearest_tables(
                _estimates_of(level, rows, exists),
                {t: np.where(exists, p[rows], 0.0).T for t, p in measured.precisions.items()},
                possible,
                sums.astype(np.float64),
                measured.coarse,
                measured.first,
                measured.iterations,
            )
            if chain:
                nearest[rows[exists]] = _by_child(x)[exists]
            else:
                whole = round_tables(x, possible, sums, measured.coarse)
                integers[rows[exists]] = _by_child(whole)[exists]
    return children(_with_targets(level, nearest), chain, exact) if chain else integers


def nearest_roots(
    level: Level,
    measured: LevelPrecisions,
    chain: list[Table],
    exact: set[Table],
    possible: Mask,
) -> Whole:
    """Return the finest integer tables of the roots, which have no parents: (roots, n_i ...).

    - `possible`: (n_i ...) the cells of the finest table that can be more than 0.

    Other parameters are those of `nearest_children`.

    Raises ValueError if exact numbers contradict the structural zeros.
    """
    rows = np.arange(len(level.estimates))[:, None]  # each root is one problem with one child
    exists = np.ones(rows.shape, bool)
    can_be = np.broadcast_to(possible[..., None, None], (*possible.shape, 1, len(rows)))
    x = nearest_tables(
        _estimates_of(level, rows, exists),
        {t: p[rows].T for t, p in measured.precisions.items()},
        can_be,
        None,
        measured.coarse,
        measured.first,
        max(ROOT_ITERATIONS, measured.iterations),
    )
    if chain:
        return roots(_with_targets(level, _by_child(x)[:, 0]), chain, exact, ~possible)
    return _by_child(round_tables(x, can_be, None, measured.coarse))[:, 0]


def _estimates_of(level: Level, rows: Whole, exists: Mask) -> Floats:
    """Return the estimates of children as (n_i ..., children, problems); 0 where none exists."""
    estimates = np.ldexp(level.estimates[rows].astype(np.float64), -level.bits)
    estimates[~exists] = 0.0
    last = estimates.ndim - 2
    return np.ascontiguousarray(np.moveaxis(estimates, (1, 0), (last, last + 1)))


def _by_child(x: NDArray[Number]) -> NDArray[Number]:
    """Return entries (n_i ..., children, problems) as (problems, children, n_i ...)."""
    return np.moveaxis(x, (-1, -2), (0, 1))


def _with_targets(level: Level, targets: Floats) -> Level:
    """Return the level with other values that its integers approximate."""
    found = copy(level)
    found.targets = round_half_even(np.ldexp(targets, level.bits))
    return found
