"""Compute estimates (layer 1) by a pass up the tree and a pass down, space by space.

A piece is a set of consecutive areas with all areas below them (`Tree.below`), or the top of the
tree above the pieces' roots. Sums are whole numbers, and a node's share of its family's difference
follows from running sums in the order of the children, so that cuts into pieces don't change a bit.

**Additive to the last unit.** The difference d = x_p - s_p is divided among children as r_1, r_2 -
r_1, ..., r_n - r_(n-1), with r_c the rounded d times (W_1 + ... + W_c) / W: r_n = d, as the last
quotient is 1.

**Error.** Each product is wrong by at most half a unit and by eta times its factor, which the
declared largest number bounds (`variances.eta`: apart from this the gains are least-squares gains).
Hence `rounding_bounds`, the bound of |published - exact least squares|, one number for each level,
by the same recursion:
    up:    e_u = (1 - a) n e_u' + a e_m + e,        n the children
    down:  e_x' = e_u' + g (e_x + (n e_u')) + 2 e
with e = 1/2 + eta * limit + 2**-52 * limit and e_m one e for each table beyond the first that
measures the space, and a half for a mean that is not whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.consistency.algebra import Contrasts, Table, cell_count, contrasts
from dprelease.consistency.fixed_point import (
    Whole,
    require_below,
    round_half_even,
    sibling_differences,
    sibling_sums,
)
from dprelease.consistency.group_gains import Errors
from dprelease.consistency.tree import Ranges
from dprelease.consistency.variances import SpaceVariances, Variances

Read = Callable[
    [int, Table, int, int], Whole
]  # level, table, start, stop -> (nodes, n_i ...) measured


@dataclass
class UpwardPass:
    """Results of the upward pass of a piece.

    - `best`: for each level, the estimates u of its nodes from their own subtrees.
    - `sums`: for each level, the sums s of the children's estimates.
    """

    best: list[Contrasts]
    sums: list[Contrasts]


def own_contrasts(variances: Variances, read: Read, level: int, start: int, stop: int) -> Contrasts:
    """Return m, the weighted contrasts of the tables of a level, for the spaces that they measure.

    The first table of a space has weight 1, and other tables enter as weighted differences from the
    first. So nothing is rounded if there is one table, or an exact one. Changes that follow from
    measured groupings are added to the contrasts of the last level.
    """
    structure = variances.structure
    own: Contrasts = {}
    first: Contrasts = {}
    for table, moments in structure.moments_at(level).items():
        parts = contrasts(structure.sizes, table, read(level, table, start, stop))
        for space, part in parts.items():
            weights = variances.weights[level][space]
            if table not in weights:
                continue
            # Checked before the shift, in which larger numbers would lose their first bits.
            scaled = require_below(part, structure.limit(space) >> structure.bits) << structure.bits
            # A constant mean is a constant table, of which only the total has a contrast.
            if not space and moments.mean:
                scaled -= round(
                    moments.mean * cell_count(structure.sizes, table) * 2**structure.bits
                )
            if space not in own:
                own[space], first[space] = scaled, scaled
            else:
                difference = require_below(scaled - first[space], structure.limit(space))
                own[space] = own[space] + round_half_even(
                    weights[table] * difference.astype(np.float64)
                )
    if level == structure.tree.levels - 1:
        for space, changes in variances.changes.items():
            for groups, change in changes:
                own[space] = require_below(
                    own[space] + change[groups[start:stop]], structure.limit(space)
                )
    return own


def upward_pass(
    variances: Variances, read: Read, level: int, ranges: Ranges, given: Contrasts | None = None
) -> UpwardPass:
    """Return the estimates of every node of a piece from its own subtree.

    - `variances`: the variances of the whole structure.
    - `read`: a function that returns the measured whole numbers of some areas of a level.
    - `level`: the level of the piece's highest areas.
    - `ranges`: for each level from `level` down, the piece's areas.
    - `given`: the estimates u of the lowest areas of `ranges`, if these aren't the lowest of the
      tree.

    Raises FixedPointRangeError if numbers are too large for the declared largest number.
    """
    structure, tree = variances.structure, variances.structure.tree
    best: list[Contrasts] = []
    sums: list[Contrasts] = []
    for at in reversed(range(level, level + len(ranges))):
        start, stop = ranges[at - level]
        if at == level + len(ranges) - 1 and given is not None:
            best.append(given)
            sums.append({})
            continue
        own = own_contrasts(variances, read, at, start, stop)
        estimates: Contrasts = {}
        below: Contrasts = {}
        for space in structure.spaces:
            if at < tree.levels - 1:
                family = tree.starts[at][start : stop + 1]
                below[space] = sibling_sums(best[-1][space], family - family[0])
            estimates[space] = _weighted_estimates(
                variances, space, at, (start, stop), own.get(space), below.get(space)
            )
        best.append(estimates)
        sums.append(below)
    return UpwardPass(best[::-1], sums[::-1])


def _weighted_estimates(
    variances: Variances,
    space: Table,
    level: int,
    nodes: tuple[int, int],
    own: Whole | None,
    below: Whole | None,
) -> Whole:
    """Return u = s + a (m - s) of some nodes of a level."""
    structure = variances.structure
    limit = structure.limit(space)
    if own is None:
        width = 1
        for i in space:
            width *= structure.sizes[i] - 1
        nothing = np.zeros((nodes[1] - nodes[0], width), np.int64)
        return require_below(nothing if below is None else below, limit)
    if below is None:
        return own
    weight = variances.of[space].measurement_weights_of(level, *nodes)[:, None]
    return require_below(
        below + round_half_even(weight * require_below(own - below, limit).astype(np.float64)),
        limit,
    )


def downward_pass(
    variances: Variances, level: int, ranges: Ranges, up: UpwardPass, top: Contrasts
) -> list[Contrasts]:
    """Return the final contrasts x of every node of a piece, by level.

    - `up`: the result of `upward_pass` for the piece.
    - `top`: the final contrasts x of the piece's highest areas; those of roots are their estimates
      u.
    """
    final = [top]
    for at in range(level + 1, level + len(ranges)):
        start, stop = ranges[at - level]
        estimates: Contrasts = {}
        for space, space_variances in variances.of.items():
            difference = final[-1][space] - up.sums[at - level - 1][space]
            require_below(difference, variances.structure.limit(space))
            shared = _child_differences(
                space_variances, at, (start, stop), ranges[at - level - 1], difference
            )
            estimates[space] = up.best[at - level][space] + shared
        final.append(estimates)
    return final


def _child_differences(
    space_variances: SpaceVariances,
    level: int,
    nodes: tuple[int, int],
    above: tuple[int, int],
    difference: Whole,
) -> Whole:
    """Return each child's part of its parent's difference, in integers that sum to it."""
    if nodes[0] == nodes[1]:
        return np.zeros((0, difference.shape[1]), np.int64)
    _weights, running, total = space_variances.shares(level, *nodes)
    parents = space_variances.tree.parents[level - 1][nodes[0] : nodes[1]] - above[0]
    if not total.all() and difference[parents[total == 0]].any():
        raise ValueError("exact tables of two levels contradict each other")
    # If all V of a family are 0, its difference is 0 as well (checked above), so any gain is right.
    gain = np.divide(running, total, out=np.ones(len(total)), where=total > 0)
    family = space_variances.tree.starts[level - 1][above[0] : above[1] + 1] - nodes[0]
    return sibling_differences(
        round_half_even(gain[:, None] * difference.astype(np.float64)[parents]), family
    )


def rounding_bounds(variances: Variances, space: Table) -> list[float]:
    """Return, by level, a bound of |x - exact least squares| in units of values, without data.

    - `space`: the residual space; the bound holds for each of its contrasts.
    """
    if space not in variances.rounding_bounds:
        bounds, gains = rounding_bounds_of_tree(variances, space), variances.of[space].gains
        if gains is not None:
            errors = errors_of_gains(variances, space)
            bounds = [one + gains.error_at(level, errors) for level, one in enumerate(bounds)]
        variances.rounding_bounds[space] = bounds
    return variances.rounding_bounds[space]


def rounding_bounds_of_tree(variances: Variances, space: Table) -> list[float]:
    """Return the bounds without the errors that measured groupings add."""
    if space not in variances.rounding_bounds_of_tree:
        variances.rounding_bounds_of_tree[space] = _compute_rounding_bounds(variances, space)
    return variances.rounding_bounds_of_tree[space]


def errors_of_gains(variances: Variances, space: Table) -> Errors:
    """Return the errors of which the effect of measured groupings on a space is a function."""
    structure, space_variances = variances.structure, variances.of[space]
    step, limit = _rounding_step(variances, space), structure.limit(space)
    groupings = range(structure.tree.levels, len(variances.weights))
    own = max(_own_error(variances, level, space, step) for level in groupings)
    leaf = rounding_bounds_of_tree(variances, space)[-1]
    return Errors(leaf, own, 4 * space_variances.eta * limit)


def _rounding_step(variances: Variances, space: Table) -> float:
    """Return the largest error of one product, in units of values."""
    return 0.5 + (variances.of[space].eta + 2.0**-52) * variances.structure.limit(space)


def _compute_rounding_bounds(variances: Variances, space: Table) -> list[float]:
    """Return the bounds of estimates from the tree, for changed measurements of the leaves."""
    structure, space_variances = variances.structure, variances.of[space]
    tree = structure.tree
    gains = space_variances.gains
    step = _rounding_step(variances, space)
    up = [0.0] * (tree.levels + 1)
    for level in reversed(range(tree.levels)):
        own = _own_error(variances, level, space, step)
        if gains is not None and level == tree.levels - 1:
            own += gains.change_error
        weight = space_variances.measurement_weights[level]
        above = (1.0 - weight) * tree.fan(level)[: len(weight)] * up[level + 1]
        up[level] = float((above + weight * own).max()) + (step if level < tree.levels - 1 else 0.0)
    down = [up[0]]
    for level in range(1, tree.levels):
        inherited = max(
            _inherited_error(space_variances, level, nodes, down[-1], up[level])
            for nodes in tree.some(level)
        )
        down.append(up[level] + inherited + 2 * step)
    return down


def _inherited_error(
    space_variances: SpaceVariances, level: int, nodes: tuple[int, int], above: float, own: float
) -> float:
    """Return the largest error that the nodes of complete families inherit from their parents."""
    parents = space_variances.tree.parents[level - 1][slice(*nodes)]
    weights, _running, total = space_variances.shares(level, *nodes)
    gain = np.divide(weights, total, out=np.zeros(len(total)), where=total > 0)
    inherited = gain * (above + space_variances.tree.fan(level - 1)[parents] * own)
    return float(inherited.max())


def _own_error(variances: Variances, level: int, space: Table, step: float) -> float:
    """Return the largest error of `own_contrasts`: `step` for each table beyond the first.

    One half is added if a noise mean that is not whole in units of values is subtracted.
    """
    structure = variances.structure
    used = variances.weights[level][space]
    means = [
        structure.moments_at(level)[t].mean * cell_count(structure.sizes, t)
        for t in used
        if not space
    ]
    is_rounded = any((mean * 2**structure.bits).denominator > 1 for mean in means)
    return step * max(0, len(used) - 1) + (0.5 if is_rounded else 0.0)
