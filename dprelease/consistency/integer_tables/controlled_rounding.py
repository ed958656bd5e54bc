"""Round tables to integers whose sums over children hold, with small errors in all measured tables.

Each entry of the finest table becomes the next lower or higher integer. The cells are rounded one
after the other, for all children of a parent at once: the sum over the children says how many
entries are rounded up, and those are rounded up whose measured tables then have the smallest
errors. So the error of one cell is compensated by later cells, in all measured tables together, as
error diffusion does in images. A second pass decides about each cell again, with all others known.
Coarse tables have larger weights, because more cells can compensate their errors.

Controlled rounding in more than two dimensions may not exist (Causey, Cox and Ernst 1985), so an
error of 1 and more is possible in a coarse table; it is rare. The order of operations is fixed, as
in `nearest_tables`, so results have the same bits everywhere.

Source: Causey, Cox and Ernst, "Applications of transportation theory to statistical problems"
(1985), for the limits of controlled rounding; the error diffusion over tables is derived here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.fixed_point import Floats, Whole
from dprelease.consistency.integer_tables.allotment import Mask

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
        rank = np.argsort(np.argsort(worst_last, axis=0, kind="stable"), axis=0, kind="stable")
        changed = candidates & (rank < abs(missing))
        up += sign * changed
        missing = missing - sign * changed.sum(axis=0)
        candidates = possible
    return up
