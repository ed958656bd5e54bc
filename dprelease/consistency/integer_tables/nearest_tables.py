"""Compute non-negative tables nearest to layer 1, by least squares over all measured tables.

The table H of a parent is known, in integers. For each child c, layer 1 has the estimates z_c of
the finest table, and for each residual space T the variance v_cT of what was measured at the child
and below it (`variances`, upward). The tables of the children are those that

    minimise  sum_c sum_T |P_T (x_c - z_c)|^2 / v_cT    over  x_c >= 0,  sum_c x_c = H.

Up to a constant this is the weighted sum of squared differences to all measurements of the children
and of the areas below them: z minimises that sum for another H and without x >= 0, and there its
gradient is the same for all children. So each measured table counts with its own precision, and the
order in which tables are declared does not matter. A cell that is 0 at the parent is 0 below it.
The roots have no parent: for them only x >= 0 and the structural zeros hold.

**Coarse tables first.** With x >= 0 for cells alone, a cell of a coarse table whose true value is 0
is the sum of many cells that noise makes positive. So the coarse measured tables are made
non-negative first, each by itself, smallest first. Their results replace the estimates of their
residual spaces, with a precision that is `TRUST` times as large, and the finer tables follow.

**Method.** The alternating direction method of multipliers (Boyd et al. 2011, section 5) splits the
problem in two that have closed forms: least squares with the sums held, one scalar for each child
and residual space, and the larger of a number and 0. Its step is the geometric mean of the least
and the largest precision of a child, and it is over-relaxed (section 3.4.3 there). Only the
residual spaces of coarse measured tables have precisions of their own: all others are measured by
the finest tables alone and share one precision, so they need not be separated.

**The same bits everywhere.** The number of iterations is fixed. Every operation on floats is one
correctly rounded operation for each entry, and sums are added entry by entry in one order, because
the order of NumPy's own sums depends on shapes and machines. Problems are padded with zeros, which
change no sum, so it does not matter which of them are solved together.

Source: Boyd, Parikh, Chu, Peleato and Eckstein, "Distributed optimization and statistical learning
via the alternating direction method of multipliers" (2011).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.consistency.algebra import Table, cell_count, subtables
from dprelease.consistency.fixed_point import Floats
from dprelease.consistency.integer_tables.allotment import Mask

COARSE_ITERATIONS = 40
TRUST = 16.0
_RELAXATION = 1.7
_SMALL = 1 << 14  # entries of an array whose running sums cost little

Parts = dict[Table, Floats]
"""Parts of tables in residual spaces, with axes of length 1 where they are constant."""

Precisions = Mapping[Table, Floats]
"""(children, problems) for each residual space: 1 over the variance of a coordinate in an
orthonormal basis of it. Infinite for what is known exactly, 0 for what nothing measures."""


def nearest_tables(
    estimates: Floats,
    precisions: Precisions,
    possible: Mask,
    sums: Floats | None,
    coarse: Sequence[Table],
    first: Sequence[Table],
    iterations: int,
) -> Floats:
    """Return non-negative tables near the estimates whose sums over children are nearly `sums`.

    - `estimates`: (n_i ..., children, problems) of the finest table; 0 for a child that does not
      exist.
    - `precisions`: the precisions of the estimates.
    - `possible`: (n_i ..., children, problems) the entries that can be more than 0.
    - `sums`: (n_i ..., problems) the tables of the parents; None for roots.
    - `coarse`: the measured tables other than the finest and the total, as sets of axes.
    - `first`: the tables that are made non-negative first: sums of coarse measured tables, or
      these.
    - `iterations`: the number of iterations for the finest table; coarser ones have
      `COARSE_ITERATIONS`.
    """
    tables = sorted(first, key=lambda table: (len(table), table))
    trusted: dict[Table, Floats] = dict(precisions)
    for _, same_length in itertools.groupby(tables, key=len):
        changes: dict[Table, list[Floats]] = {}
        for table in same_length:
            change_of = _coarse_changes(estimates, trusted, possible, sums, table, coarse)
            for space, change in change_of.items():
                changes.setdefault(space, []).append(change)
        for space, several in changes.items():
            estimates = estimates + _sum(np.stack(several), 0) / len(several)
            trusted[space] = TRUST * precisions[space]
    return project(estimates, trusted, possible, sums, coarse, iterations)


def _coarse_changes(
    estimates: Floats,
    precisions: Precisions,
    possible: Mask,
    sums: Floats | None,
    table: Table,
    tables: Sequence[Table],
) -> Parts:
    """Return the changes of the finest table, by residual space, that make a coarser one >= 0."""
    sizes = estimates.shape[:-2]
    summed = tuple(axis for axis in range(len(sizes)) if axis not in table)
    merged = cell_count(sizes, summed)
    coarse = _margin(estimates, summed)
    within = {
        tuple(table.index(axis) for axis in space): precision / merged
        for space, precision in precisions.items()
        if set(space) <= set(table)
    }
    found = project(
        coarse,
        within,
        np.asarray(possible.any(axis=summed)),
        None if sums is None else _margin(sums, summed),
        [tuple(table.index(a) for a in other if a in table) for other in tables],
        COARSE_ITERATIONS,
    )
    spread = np.expand_dims((found - coarse) / merged, summed)
    spaces = [space for space in subtables(table) if space in precisions]
    return _parts(spread, spaces)


def project(
    estimates: Floats,
    precisions: Precisions,
    possible: Mask,
    sums: Floats | None,
    coarse: Sequence[Table],
    iterations: int,
) -> Floats:
    """Return the non-negative tables nearest to the estimates; parameters as `nearest_tables`."""
    step = _step(precisions)
    exists = np.asarray(possible.any(axis=tuple(range(possible.ndim - 2))))
    # The space of all attributes, if it is measured. Spaces that only finest tables measure share
    # its precision.
    rest = max(precisions, key=len)
    pulls = {
        space: _Pull.of(precision, step, exists, has_sums=sums is not None)
        for space, precision in precisions.items()
        if space != rest and (not space or any(set(space) <= set(table) for table in coarse))
    }
    of_rest = _Pull.of(precisions[rest], step, exists, has_sums=sums is not None)
    spaces = list(pulls)
    of_sums = None if sums is None else sums[..., None, :]
    sum_parts = {} if of_sums is None else _parts(of_sums, spaces)
    constant = of_rest.constant(estimates, of_sums)
    constants = {
        space: (pulls[space].constant(part, held), of_rest.constant(part, held))
        for space, part in _parts(estimates, spaces).items()
        for held in [sum_parts.get(space)]
    }
    x = np.where(possible, np.maximum(estimates, 0.0), 0.0)
    slack = np.zeros_like(estimates)
    for _ in range(iterations):
        current = x - slack
        difference = {
            space: pulls[space].apply(part, constants[space][0])
            - of_rest.apply(part, constants[space][1])
            for space, part in _parts(current, spaces).items()
        }
        solved = _add_parts(of_rest.apply(current, constant), difference)
        relaxed = _RELAXATION * solved + (1.0 - _RELAXATION) * x
        relaxed += slack
        x = np.where(possible, np.maximum(relaxed, 0.0), 0.0)
        slack = relaxed - x
    return x


@dataclass(frozen=True)
class _Pull:
    """Closed form of least squares in one residual space, with sums over children held.

    `weight`: the weight of an estimate against the current table, 1 if it is known exactly.
    `gain`: the share of each child in what is missing from the sum over its siblings; None without
    such sums.
    """

    weight: Floats
    gain: Floats | None

    @classmethod
    def of(cls, precision: Floats, step: Floats, exists: Mask, *, has_sums: bool) -> _Pull:
        """Return the closed form for precisions of children (children, problems)."""
        known = np.isinf(precision)
        finite = np.where(known, 0.0, precision)
        weight = np.where(known, 1.0, finite / (finite + step))
        if not has_sums:
            return cls(weight, None)
        # A missing sum is divided by variance: less precise children take more. Exact children take
        # nothing.
        share = np.where(exists & ~known, 1.0 / (finite + step), 0.0)
        whole = _sum(share, 0)
        return cls(weight, np.divide(share, whole, out=np.zeros_like(share), where=whole > 0))

    def constant(self, estimates: Floats, sums: Floats | None) -> Floats:
        """Return the part of the result that does not depend on the current table."""
        found: Floats = self.weight * estimates
        if self.gain is not None and sums is not None:
            found += self.gain * (sums - _sum(found, found.ndim - 2)[..., None, :])
        return found

    def apply(self, current: Floats, constant: Floats) -> Floats:
        """Return the table between `current` and the estimates."""
        found: Floats = (1.0 - self.weight) * current
        if self.gain is not None:
            found -= self.gain * _sum(found, found.ndim - 2)[..., None, :]
        found += constant
        return found


def _step(precisions: Precisions) -> Floats:
    """Return the step of each child: (children, problems)."""
    every = np.stack(list(precisions.values()))
    finite = np.isfinite(every) & (every > 0)
    least = np.where(finite, every, np.inf).min(axis=0)
    most = np.where(finite, every, 0.0).max(axis=0)
    # Two roots and not the root of the product, which could overflow or underflow.
    step: Floats = np.sqrt(np.where(most > 0, least, 1.0)) * np.sqrt(np.where(most > 0, most, 1.0))
    return step


def _sum(x: Floats, axis: int) -> Floats:
    """Return the sum along an axis, added entry by entry in its order."""
    if x.shape[axis] == 1:
        return x.squeeze(axis)
    if x.size < _SMALL:  # one call, which stores all running sums, instead of one for each entry
        running: Floats = np.add.accumulate(x, axis=axis)
        return running[_index(axis, -1)]
    # A loop of whole slices: NumPy's own sum uses pairs and vector registers, so that its order
    # differs between machines.
    total: Floats = x[_index(axis, 0)] + x[_index(axis, 1)]
    for at in range(2, x.shape[axis]):
        total += x[_index(axis, at)]
    return total


def _index(axis: int, at: int) -> tuple[slice | int, ...]:
    return (*(slice(None),) * axis, at)


def _margin(x: Floats, axes: Sequence[int]) -> Floats:
    """Return the sum over several axes."""
    for axis in sorted(axes, reverse=True):
        x = _sum(x, axis)
    return x


def _parts(x: Floats, spaces: Sequence[Table]) -> Parts:
    """Return the parts of tables in residual spaces, of which all subsets are `spaces` too."""
    axes = range(x.ndim - 2)
    means: Parts = {}
    for space in sorted(spaces, key=len, reverse=True):
        finer = next((means[t] for t in means if set(space) < set(t)), x)
        summed = [axis for axis in axes if axis not in space and finer.shape[axis] > 1]
        mean = finer
        for axis in reversed(summed):
            mean = np.expand_dims(_sum(mean, axis) / mean.shape[axis], axis)
        means[space] = mean
    parts: Parts = {}
    for space in sorted(spaces, key=len):
        part = means[space].copy()
        for inner in subtables(space)[:-1]:
            if inner in parts:
                part -= parts[inner]
        parts[space] = part
    return parts


def _add_parts(x: Floats, parts: Parts) -> Floats:
    """Add parts of several residual spaces to tables, the coarsest into finer ones first."""
    waiting = dict(parts)
    for space in sorted(parts, key=len):
        part = waiting.pop(space)
        finer = next((t for t in sorted(waiting, key=len) if set(space) < set(t)), None)
        if finer is None:
            x += part
        else:
            waiting[finer] = waiting[finer] + part
    return x
