"""Compute exact standard errors of estimates (layer 1) and of any area made of leaves.

For a product of weights q = (x)_i a_i (a cell, any union of an attribute's values, a whole table's
cell with ones for the attributes that it leaves out) at an area with variances F_T (see
`variances`, in the units of the table T),
    Var = sum_T F_T prod_{i in T} (|a_i|^2 - (sum a_i)^2 / n_i) prod_{i not in T} ((sum a_i) /
    n_i)^2.
Derived here from Cov(P_T x) = F_T / N_(not T) P_T and |P_T q|^2 as a product over attributes; the
literature's last factor is (sum a_i)^2 / n_i, for F in the units of cells. For weights that are
not a product, `algebra.squared_lengths` returns |P_T q|^2.

Everything is rounded upwards: sums of non-negative floats of which each operation is wrong by a
factor of 1 +- 2**-53 at most are multiplied by 1 + 2**-40, and F by 1 + `slack`.

**Areas.** An area gives each leaf a weight (1 within, 0 without, or a share). For one residual
space, going up the tree with `variances`' V and g, let A be the weighted sum over the leaves below
a node, and alpha_c its slope in a child's x_c. Given the sum x_p of children, of which c has the
estimate u_c with variance V_c, x_c has covariance diag(V) - V V' / U, so
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from dprelease.consistency.algebra import Table, cell_count, spaces_of
from dprelease.consistency.fixed_point import Floats, Whole, round_half_even
from dprelease.consistency.passes import rounding_bounds, rounding_bounds_of_tree
from dprelease.consistency.variances import INFINITE, SpaceVariances, Variances

_ROUNDING_FACTOR = 1 + 2.0**-40  # of fewer than 2**12 operations, each within 1 +- 2**-53
FinalVariances = Callable[[Table], Floats]  # a function from a residual space to F at some areas


def product_coefficients(
    sizes: tuple[int, ...], weights: Sequence[Sequence[Fraction]]
) -> dict[Table, Fraction]:
    """Return the coefficients, other than 0, of F_T in the variance of a product of weights.

    - `sizes`: numbers of values of all attributes.
    - `weights`: for each attribute, the weight of each of its values; all ones to sum over the
      attribute.
    """
    inside, outside = [], []
    for n, a in zip(sizes, weights, strict=True):
        total = Fraction(sum(a))
        inside.append(sum((Fraction(x) ** 2 for x in a), Fraction(0)) - total**2 / n)
        outside.append((total / n) ** 2)
    coefficients = {
        space: math.prod(inside[i] if i in space else outside[i] for i in range(len(sizes)))
        for space in spaces_of(sizes, tuple(range(len(sizes))))
    }
    return {space: Fraction(c) for space, c in coefficients.items() if c}


@lru_cache(maxsize=256)  # called repeatedly, for one batch of areas after another
def cell_coefficients(sizes: tuple[int, ...], table: Table) -> Mapping[Table, Fraction]:
    """Return the coefficients for a cell of a table; they are the same for each of its cells."""
    one, none = Fraction(1), Fraction(0)
    weights = [[one, *[none] * (n - 1)] if i in table else [one] * n for i, n in enumerate(sizes)]
    return MappingProxyType(product_coefficients(sizes, weights))


def variance_upper_bound(
    variances: Variances, coefficients: Mapping[Table, Fraction], final: FinalVariances
) -> Floats:
    """Return a variance that is at least the exact variance; infinite where it is not estimable.

    - `coefficients`: the coefficient of each residual space of the query.
    - `final`: a function that returns F of a residual space at these areas, such as
      `final_variances_at(variances, level, start, stop)`.
    """
    total: Floats | None = None
    for space, coefficient in coefficients.items():
        slack = 1 + variances.of[space].slack if space in variances.of else math.inf
        factor = float(coefficient) * slack
        part = factor * final(space) if space in variances.of else np.array([math.inf])
        total = part if total is None else total + part
    return np.zeros(1) if total is None else total * _ROUNDING_FACTOR


def final_variances_at(variances: Variances, level: int, start: int, stop: int) -> FinalVariances:
    """Return a function from residual spaces to F at some areas of a level."""
    return lambda space: variances.of[space].variances(level, start, stop)


def standard_errors(
    variances: Variances, table: Table, level: int, start: int, stop: int
) -> Floats:
    """Return the standard error of a cell of a table at some areas, rounded upwards."""
    coefficients = cell_coefficients(variances.structure.sizes, table)
    return (
        np.sqrt(
            variance_upper_bound(
                variances, coefficients, final_variances_at(variances, level, start, stop)
            )
        )
        * _ROUNDING_FACTOR
    )


def rounding_error(variances: Variances, table: Table, *, of_tree: bool = False) -> list[int]:
    """Return, by level, how far a cell may be from exact least squares, in units of values.

    Each contrast D_T is wrong by at most e_T (`passes.rounding_bounds`). The cell x_S is computed
    from the contrasts with row sums below 2 for each attribute of T, and of 1 / n_i for each other
    attribute. The bound is therefore sum_T 2**|T| e_T / N_(S - T), plus 2**|S| for the rounding in
    the module `cells`. `of_tree`: without errors that measured groupings add.
    """
    sizes, levels = variances.structure.sizes, variances.structure.tree.levels
    bounds = rounding_bounds_of_tree if of_tree else rounding_bounds
    parts = {space: bounds(variances, space) for space in spaces_of(sizes, table)}
    return [
        math.ceil(
            error_of_cell(sizes, table, {space: part[level] for space, part in parts.items()})
        )
        + (0 if not table else 1 << len(table))
        for level in range(levels)
    ]


def error_of_cell(sizes: tuple[int, ...], table: Table, of: Mapping[Table, float]) -> float:
    """Return how far a cell may be from exact least squares, for such errors of the contrasts."""
    parts = (
        2.0 ** len(space) * error / cell_count(sizes, set(table) - set(space))
        for space, error in of.items()
    )
    return _ROUNDING_FACTOR * sum(parts)


def half_widths(
    variances: Variances, table: Table, level: int, start: int, stop: int, quantile: float
) -> Whole:
    """Return margins of estimates in whole units of values, with rounding errors: (stop - start,).

    - `quantile`: the number of standard errors in the margin. For normal or discrete Gaussian noise
      use the normal quantile; sqrt(2 ln(2 / alpha)) is a guarantee for sub-Gaussian noise. The
      caller is responsible for it.

    Raises ValueError if the table is not estimable at one of these areas.
    """
    errors = standard_errors(variances, table, level, start, stop)
    if not np.isfinite(errors).all():
        raise ValueError("a table that is not estimable at a level has no margin there")
    # Scaling by a power of two is exact, so only the ceiling rounds, and upward.
    units = np.ceil(np.ldexp(quantile * errors * _ROUNDING_FACTOR, variances.structure.bits))
    exact = errors == 0
    # An estimate without variance comes from exact whole numbers, of which nothing is rounded.
    added = np.where(exact, 0, rounding_error(variances, table)[level])
    return units.astype(np.int64) + added


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
