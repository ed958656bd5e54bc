"""Layer 1 on measured numbers: up the tree and down again, for each residual space separately.

A piece is a set of consecutive areas with all areas below them (`Tree.below`), or the top of the
tree above the pieces' roots. Sums are whole numbers and a node's share of its family's difference
follows from running sums in the order of the children, so that cuts into pieces don't change a bit.

**Additive to the last unit.** Of d = x_p - s_p, children get r_1, r_2 - r_1, ..., r_n - r_(n-1)
with r_c the rounded d times (W_1 + ... + W_c) / W: r_n = d, as the last quotient is 1.

**Error.** Each product is wrong by at most half a unit and by eta times its factor, which the
declared largest number bounds (`variances.eta`: apart from this the gains are least-squares gains).
Hence `rounding`, the bound of |published - exact least squares|, one number for each level, by the
same recursion:
    up:    e_u = (1 - a) n e_u' + a e_m + e,        n the children
    down:  e_x' = e_u' + g (e_x + (n e_u')) + 2 e
with e = 1/2 + eta * limit + 2**-52 * limit and e_m one e for each table beyond the first that
measures the space, and a half for a mean that is not whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.consistency.algebra import Contrasts, Table, cells, contrasts
from dprelease.consistency.fixed_point import Whole, differences, sibling_sums, whole, within
from dprelease.consistency.tree import Ranges
from dprelease.consistency.variances import SpaceVariances, Variances

Read = Callable[
    [int, Table, int, int], Whole
]  # level, table, start, stop -> (nodes, n_i ...) measured


@dataclass
class Upward:
    """Results of the upward pass of a piece: for each level, estimates u and children's sums s."""

    best: list[Contrasts]
    sums: list[Contrasts]


def own_contrasts(variances: Variances, read: Read, level: int, start: int, stop: int) -> Contrasts:
    """Return m, the weighted contrasts of a level's own tables, for the spaces that these measure.

    The first table of a space has weight 1, others enter as weighted differences from it: with one
    table, or with exact ones, there is no rounding.
    """
    structure = variances.structure
    own: Contrasts = {}
    first: Contrasts = {}
    for table, law in structure.laws[level].items():
        parts = contrasts(structure.sizes, table, read(level, table, start, stop))
        for space, part in parts.items():
            weights = variances.weights[level][space]
            if table not in weights:
                continue
            scaled = within(part, structure.limit(space) >> structure.bits) << structure.bits
            if not space and law.mean:
                scaled -= round(law.mean * cells(structure.sizes, table) * 2**structure.bits)
            if space not in own:
                own[space], first[space] = scaled, scaled
            else:
                apart = within(scaled - first[space], structure.limit(space))
                own[space] = own[space] + whole(weights[table] * apart.astype(np.float64))
    return own


def upward(
    variances: Variances, read: Read, level: int, ranges: Ranges, given: Contrasts | None = None
) -> Upward:
    """Return the estimates of every node of a piece from its own subtree.

    Parameters
    ----------
    variances
        Of the whole structure.
    read
        Returns the measured whole numbers of some areas of a level.
    level
        Of the piece's highest areas.
    ranges
        The piece's areas, from `level` down.
    given
        u of the lowest areas of `ranges`, where these aren't the tree's lowest.

    Raises
    ------
    FixedPointRangeError
        If numbers are too large for the declared largest number.
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
        here: Contrasts = {}
        below: Contrasts = {}
        for space in structure.spaces:
            if at < tree.levels - 1:
                family = tree.starts[at][start : stop + 1]
                below[space] = sibling_sums(best[-1][space], family - family[0])
            here[space] = _weighted_estimates(
                variances, space, at, (start, stop), own.get(space), below.get(space)
            )
        best.append(here)
        sums.append(below)
    return Upward(best[::-1], sums[::-1])


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
        return within(nothing if below is None else below, limit)
    if below is None:
        return own
    mix = variances.of[space].mixes_of(level, *nodes)[:, None]
    return within(below + whole(mix * within(own - below, limit).astype(np.float64)), limit)


def downward(
    variances: Variances, level: int, ranges: Ranges, up: Upward, top: Contrasts
) -> list[Contrasts]:
    """Return the final contrasts x of every node of a piece, by level.

    Parameters
    ----------
    up
        The result of `upward` for the piece.
    top
        x of the piece's highest areas; for roots it is their u.
    """
    final = [top]
    for at in range(level + 1, level + len(ranges)):
        start, stop = ranges[at - level]
        here: Contrasts = {}
        for space, one in variances.of.items():
            apart = final[-1][space] - up.sums[at - level - 1][space]
            within(apart, variances.structure.limit(space))
            shared = _child_differences(one, at, (start, stop), ranges[at - level - 1], apart)
            here[space] = up.best[at - level][space] + shared
        final.append(here)
    return final


def _child_differences(
    one: SpaceVariances, level: int, nodes: tuple[int, int], above: tuple[int, int], apart: Whole
) -> Whole:
    """Return each child's part of its parent's difference: whole, and summing to it."""
    if nodes[0] == nodes[1]:
        return np.zeros((0, apart.shape[1]), np.int64)
    _weights, running, total = one.shares(level, *nodes)
    parents = one.tree.parents[level - 1][nodes[0] : nodes[1]] - above[0]
    if not total.all() and apart[parents[total == 0]].any():
        raise ValueError("exact tables of two levels contradict each other")
    gain = np.divide(running, total, out=np.ones(len(total)), where=total > 0)
    family = one.tree.starts[level - 1][above[0] : above[1] + 1] - nodes[0]
    return differences(whole(gain[:, None] * apart.astype(np.float64)[parents]), family)


def rounding(variances: Variances, space: Table) -> list[float]:
    """Return, by level, a bound of |x - exact least squares| in units of values; no data is needed.

    Parameters
    ----------
    space
        The residual space; the bound holds for each of its contrasts.
    """
    if space not in variances.rounded:
        variances.rounded[space] = _rounding(variances, space)
    return variances.rounded[space]


def _rounding(variances: Variances, space: Table) -> list[float]:
    structure, one = variances.structure, variances.of[space]
    tree = structure.tree
    step = 0.5 + (one.eta + 2.0**-52) * structure.limit(space)
    up = [0.0] * (tree.levels + 1)
    for level in reversed(range(tree.levels)):
        tables = variances.weights[level][space]
        own = step * max(0, len(tables) - 1) + _mean_error(variances, level, space)
        mix = one.mixes[level]
        above = (1.0 - mix) * tree.fan(level)[: len(mix)] * up[level + 1]
        up[level] = float((above + mix * own).max()) + (step if level < tree.levels - 1 else 0.0)
    down = [up[0]]
    for level in range(1, tree.levels):
        passed = max(
            _inherited_error(one, level, nodes, down[-1], up[level]) for nodes in tree.some(level)
        )
        down.append(up[level] + passed + 2 * step)
    return down


def _inherited_error(
    one: SpaceVariances, level: int, nodes: tuple[int, int], above: float, own: float
) -> float:
    """Return the largest error that nodes of whole families inherit from their parents."""
    parents = one.tree.parents[level - 1][slice(*nodes)]
    weights, _running, total = one.shares(level, *nodes)
    gain = np.divide(weights, total, out=np.zeros(len(total)), where=total > 0)
    passed = gain * (above + one.tree.fan(level - 1)[parents] * own)
    return float(passed.max())


def _mean_error(variances: Variances, level: int, space: Table) -> float:
    """Return 1/2 if a noise mean that is not whole in units of values is subtracted, else 0."""
    structure = variances.structure
    used = variances.weights[level][space]
    means = [structure.laws[level][t].mean * cells(structure.sizes, t) for t in used if not space]
    return 0.5 if any((mean * 2**structure.bits).denominator > 1 for mean in means) else 0.0
