"""Compute exact standard errors of any area made of leaves, from the declaration only.

An area gives each leaf a weight (1 within, 0 without, or a share). For one residual space, going up
the tree with `variances`' V and g, let A be the weighted sum over the leaves below a node, and
alpha_c its slope in a child's x_c. Given the sum x_p of children, of which c has the estimate u_c
with variance V_c, x_c has covariance diag(V) - V V' / U, so
    alpha_p = sum g_c alpha_c,
    Var(A given x_p) grows by sum alpha_c^2 V_c - (sum alpha_c V_c)^2 / U_p
                            = sum V_c (alpha_c - alpha_p)^2,
a sum in which nothing cancels. At the root, Var = alpha^2 V + all of these: one sum over the
ancestors of the leaves, taken exactly by math.fsum, so that no order can matter. (Derived here;
the design sketch computes the first form from node to node.) If exactly one child has an infinite
V, its g is 1, and alpha_p is its slope. If several children have an infinite V, they must have the
same slope, otherwise the area is not estimable.

Slopes are rounded, because each is a sum of rounded products of whole V, over U; in the end each is
wrong by at most delta = levels * eta. As (x + d)^2 <= (1 + e) x^2 + (1 + 1 / e) d^2, the sum of V
(alpha_c - alpha_p)^2 and alpha^2 V at the root are covered by 1 + e times what is computed and (1
+ 1 / e) (2 delta)^2 times the sum of these V; e is 2**-32 (`_SQUARE_SLACK`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.fixed_point import Floats, Whole, round_half_even
from dprelease.consistency.variances import INFINITE, SpaceVariances, Variances

_SQUARE_SLACK = 2.0**-32


@dataclass(frozen=True)
class Area:
    """Leaves with weights, which make up one area.

    - `leaves`: by level, the ascending indices of the areas or leaves whose tables are added up.
    - `shares`: by level, the weight of each of these areas or leaves, from 0 to 1.
    """

    leaves: list[Whole]
    shares: list[Floats]


def area_variances(variances: Variances, area: Area) -> dict[Table, float]:
    """Return F_T of an area for every residual space T; infinite if T is not estimable there.

    Use as `standard_errors.variance_upper_bound(variances, coefficients, lambda space:
    np.array([F[space]]))`.

    Raises ValueError if there is not one set of leaves for each level, or if one of the leaves
    contains another.
    """
    if len(area.leaves) != variances.structure.tree.levels:
        raise ValueError("an area names leaves of every level, perhaps none")
    return {space: _area_variance(one, area) for space, one in variances.of.items()}


@dataclass
class _VarianceTerms:
    """Non-negative terms of a variance, and the variances that their slopes multiply."""

    terms: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)

    def add(self, slopes: Floats, variances: Floats) -> None:
        # An unmeasured node outside the area has a slope of 0, and 0 times infinity would be
        # undefined.
        products = np.multiply(
            slopes * slopes, variances, out=np.zeros(len(slopes)), where=slopes != 0
        )
        self.terms.extend(products.tolist())
        self.scales.extend(variances[np.isfinite(variances)].tolist())

    def total(self, delta: float) -> float:
        if not all(map(math.isfinite, self.terms)):
            return math.inf
        rounding_term = (1 + 1 / _SQUARE_SLACK) * (2 * delta) ** 2
        return (1 + _SQUARE_SLACK) * math.fsum(self.terms) + rounding_term * math.fsum(self.scales)


def _area_variance(one: SpaceVariances, area: Area) -> float:
    terms = _VarianceTerms()
    nodes, slopes = np.empty(0, np.int64), np.empty(0)
    for level in reversed(range(one.tree.levels)):
        if len(nodes):
            nodes, slopes = _parent_slopes(one, level, nodes, slopes, terms)
        leaves = np.asarray(area.leaves[level], np.int64)
        if np.isin(leaves, nodes).any():
            raise ValueError("an area of a set of areas lies within another one")
        nodes = np.concatenate((nodes, leaves))
        slopes = np.concatenate((slopes, np.asarray(area.shares[level], np.float64)))
        # `np.unique` and `reduceat` below need the children of a parent side by side.
        order = np.argsort(nodes, kind="stable")
        nodes, slopes = nodes[order], slopes[order]
    terms.add(slopes, one.variances_from_below(0, 0, one.tree.counts[0])[nodes])
    variance = terms.total(one.tree.levels * one.eta)
    return variance if one.gains is None else one.gains.reduced(variance, area.leaves, area.shares)


def _parent_slopes(
    one: SpaceVariances, level: int, nodes: Whole, slopes: Floats, terms: _VarianceTerms
) -> tuple[Whole, Floats]:
    """Return the parents of some nodes and the slopes of the parents; add variances to `terms`."""
    parents, starts = np.unique(one.tree.parents[level][nodes], return_index=True)
    sizes = np.diff(np.append(starts, len(nodes)))
    upward = _upward_variances(one, level + 1, nodes)
    finite = np.maximum(upward, 0)
    total = one.summed[level][parents]
    weighted_slopes = np.add.reduceat(round_half_even(finite.astype(np.float64) * slopes), starts)
    parent_slopes = weighted_slopes.astype(np.float64) / np.maximum(total, 1).astype(np.float64)
    for at in np.flatnonzero(total == INFINITE):  # parents with an unmeasured child
        siblings = slice(starts[at], starts[at] + sizes[at])
        parent_slopes[at], total[at] = _slope_of_unmeasured_children(
            one, level, int(parents[at]), upward[siblings], slopes[siblings], terms
        )
    scale = math.ldexp(1.0, -one.bits[level + 1])
    terms.add(slopes - np.repeat(parent_slopes, sizes), scale * finite.astype(np.float64))
    rest = total - np.add.reduceat(finite, starts)  # the children outside the area
    terms.add(parent_slopes, scale * rest.astype(np.float64))
    return parents, parent_slopes


def _slope_of_unmeasured_children(
    one: SpaceVariances,
    level: int,
    parent: int,
    upward: Whole,
    slopes: Floats,
    terms: _VarianceTerms,
) -> tuple[float, int]:
    """Return the slope of the children with infinite V, and the sum of their siblings' V."""
    start, stop = one.tree.starts[level][parent : parent + 2]
    children = one.upward_of(level + 1, int(start), int(stop))
    slopes_of_unmeasured = slopes[upward == INFINITE]
    different = set(slopes_of_unmeasured.tolist())
    if len(slopes_of_unmeasured) < int((children == INFINITE).sum()):
        different.add(0.0)  # a child outside the area has the slope 0
    if len(different) > 1:
        # The estimates of these children have equal shares of an unknown difference, so only an
        # area that weighs them equally is known.
        terms.terms.append(math.inf)
    return different.pop(), int(np.maximum(children, 0).sum())


def _upward_variances(one: SpaceVariances, level: int, nodes: Whole) -> Whole:
    if level == one.tree.levels - 1:
        return np.full(len(nodes), one.upward[level][0])
    return one.upward[level][nodes]
