"""Measured tables of groupings: how they change estimates of the tree, and their variances.

A grouping divides the leaves of the tree in another way than the areas above them. In one residual
space let x be the estimates from the tables of the tree, S their covariance, G the matrix that sums
leaves by groups, and y the measured groups with the variances V. Least squares over all of them is
    x' = x + S G' M^-1 (y - G x),    S' = S - S G' M^-1 G S,    M = G S G' + V.
As S G' mu is what the passes over the tree compute from leaves that measure v mu instead of 0, with
v the variance of a leaf's own measurement, x' is the result of the same passes if v mu, with
mu = M^-1 (y - G x), is added to the measurements of the leaves. So nothing else changes: estimates
still add up, and integer tables are computed from them as before (`estimates.with_groups`).

Every group's column of S G' follows from one pass up and one pass down, for all areas with the
same parent together: the leaves of a parent in the same group have the same covariances,
    v (1 if in the group) + (x_p - s_p) / n,
of which the second part is the same for all n leaves. M and its inverse are computed in whole
numbers of so many bits that their rounding has no effect: M may be ill-conditioned, where a group
of many leaves is measured accurately, and estimates may have 50 bits.

**Error.** With the gains of the tree, these are the gains of a least-squares problem whose
variances differ from the declared ones by factors within 1 +- eta (see `variances`), so `slack`
covers the standard errors as before. Estimates have the errors of a pass for changed measurements.
Let q be an area, a sum of leaves, c = G S q and a = M^-1 c. In addition,
- errors d of y - G x, also those of the first pass, change the estimate by a'd;
- the changed problem has another M: by Cauchy's inequality, a' (change of M) M^-1 (y - G x) is at
  most 2 eta sqrt(c' M^-1 c) |y - G x| / sqrt(V), V the least one. 4 eta also covers the change of v
  and terms of second order.
`error_of` adds these for one area. `error_at` bounds both for all areas of a level by
|a'd| <= sqrt(c' M^-1 c) sqrt(d' M^-1 d) <= sqrt(F) |d| / sqrt(V). (Derived here.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.fixed_point import Floats, Whole

if TYPE_CHECKING:
    from dprelease.consistency.variances import SpaceVariances

_SPARE_BITS = 256
"""Bits of whole numbers beyond those of the largest and the least variance."""

_F_SLACK = 2.0**-44
"""Bound of the relative error of F, a sum of few non-negative floats for each level."""

_WEIGHT_BITS = 256

Exact = NDArray[Any]  # Python's integers, in units of 2**-bits


@dataclass(frozen=True)
class Errors:
    """Largest errors in one residual space, in units of values.

    - `leaf`: of an estimate of a leaf from the tree alone.
    - `group`: of y for a group.
    - `gains`: of the gains (4 eta), times the largest y - G x.
    """

    leaf: float
    group: float
    gains: float


class GroupGains:
    """The effect of measured groups on the estimates in one residual space.

    - `one`: the variances of the tree, whose leaves measure the space.
    - `groups`: for each grouping that measures the space, the group of each leaf.
    - `noise`: for each of these, the variance with which each of its groups is measured.
    """

    def __init__(
        self, one: SpaceVariances, groups: Sequence[Whole], noise: Sequence[Sequence[Fraction]]
    ) -> None:
        self._firsts = np.cumsum([0, *map(len, noise)]).tolist()
        self.rows = [of + first for of, first in zip(groups, self._firsts, strict=False)]
        self._one, self._parents = one, one.tree.parents[-1]
        variances = [v for of_grouping in noise for v in of_grouping]
        leaf = Fraction(int(one.upward[-1][0])) / Fraction(2) ** one.bits[-1]
        self._leaf, self._least_noise = float(leaf), float(min(variances))
        span = max(abs(math.log2(v)) for v in (leaf, *variances) if v)
        # M lies between the least variance and the largest one times the number of leaves, so these
        # bits cover its condition number.
        bits = _SPARE_BITS + 2 * (math.ceil(span) + one.tree.counts[-1].bit_length())
        unit = 1 << bits
        counts = self._counts(len(variances))
        levels, rest = _tree_covariances(one, counts, round(leaf * unit))
        matrix = np.diag([round(v * unit) for v in variances]).astype(object)
        for one_rows in self.rows:
            for other in self.rows:
                np.add.at(matrix, (one_rows, other), round(leaf * unit))
        for own, apart in zip(counts, rest, strict=True):
            (inside,) = np.nonzero(own)
            matrix[inside] += own[inside, None].astype(object) * apart
        # Rounding of products may make the two halves differ by a unit.
        self._elimination, self._pivots = _eliminate((matrix + matrix.T) // 2, bits)
        self._leaf_units, self._bits = round(leaf * unit), bits
        roots = [math.isqrt(pivot << bits) for pivot in self._pivots[:, 0].tolist()]
        self._root = np.array(
            [[n / root for n in row] for row, root in zip(self._elimination, roots, strict=True)]
        )
        """(groups, groups) R, lower triangular, with R' R = M^-1."""
        self._levels = [_quotients(level, unit) for level in levels]
        self._rest = _quotients(rest, unit)
        self._leaves_of_groups = counts.sum(axis=0).astype(np.float64)
        self._largest: list[float] = []

    def _counts(self, number: int) -> Whole:
        """Return (parents, groups) the number of leaves of each parent in each group."""
        counts = np.zeros((self._one.tree.counts[-2], number), np.int64)
        for rows in self.rows:
            np.add.at(counts, (self._parents, rows), 1)
        return counts

    def final_variances(self) -> list[Floats]:
        """Return F' of all areas of each level, rounded upwards."""
        one, found = self._one, []
        for level, covariances in enumerate(self._levels):
            final = one.variances(level, 0, one.tree.counts[level])
            self._largest.append(_largest(final))
            found.append(_less(final, self._reductions(covariances, np.abs(covariances))))
        final = one.variances(one.tree.levels - 1, 0, one.tree.counts[-1])
        self._largest.append(_largest(final))
        kinds, kind_of_leaf = np.unique(
            np.stack([self._parents, *self.rows]), axis=1, return_inverse=True
        )
        covariances = self._rest[kinds[0]]
        sizes = np.abs(covariances)
        for rows in kinds[1:]:
            covariances[np.arange(len(rows)), rows] += self._leaf
            sizes[np.arange(len(rows)), rows] += self._leaf
        reductions = self._reductions(covariances, sizes)[kind_of_leaf.reshape(-1)]
        return [*found, _less(final, reductions)]

    def _reductions(self, covariances: Floats, sizes: Floats) -> Floats:
        """Return lower bounds of c' M^-1 c for each row c of covariances with all groups.

        `sizes` bounds the terms of which each covariance is a sum: its error is relative to them.
        """
        found, bound = np.zeros(covariances.shape), np.zeros(covariances.shape)
        for group, factors in enumerate(self._root.T):  # in this order, which no BLAS guarantees
            found += covariances[:, group, np.newaxis] * factors
            bound += sizes[:, group, np.newaxis] * np.abs(factors)
        operations = 2 * (len(self._root) + self._one.tree.counts[-2]) + 32
        total = np.zeros(len(found))
        for group in range(len(self._root)):
            # Rounded down, because what a reduction takes away must not exceed the truth.
            least = np.abs(found[:, group]) - operations * 2.0**-52 * bound[:, group]
            total += np.maximum(least, 0.0) ** 2
        return total * (1 - operations * 2.0**-52)

    def reduced(self, variance: float, nodes: list[Whole], shares: list[Floats]) -> float:
        """Return the variance of a sum of areas, whose variance in the tree is `variance`.

        - `nodes`, `shares`: for each level, the areas and their weights.
        """
        covariances, sizes = self._covariances_of(nodes, shares)
        reduction = self._reductions(covariances[np.newaxis], sizes[np.newaxis])
        return float(_less(np.array([variance]), reduction)[0])

    def _covariances_of(self, nodes: list[Whole], shares: list[Floats]) -> tuple[Floats, Floats]:
        """Return the covariances of a sum of areas with groups, and the sizes of their terms."""
        covariances, sizes = np.zeros(len(self._root)), np.zeros(len(self._root))
        leaves = nodes[-1]
        by_parent = np.bincount(self._parents[leaves], shares[-1], minlength=len(self._rest))
        parents = np.flatnonzero(by_parent)
        above = [*zip(self._levels, nodes, shares, strict=False)]
        for level, some, weights in [*above, (self._rest, parents, by_parent[parents])]:
            for node, weight in zip(some.tolist(), weights.tolist(), strict=True):
                covariances += weight * level[node]
                sizes += abs(weight) * np.abs(level[node])
        for rows in self.rows:
            own = np.bincount(rows[leaves], shares[-1], minlength=len(covariances))
            covariances += self._leaf * own
            sizes += self._leaf * np.bincount(rows[leaves], np.abs(shares[-1]), len(covariances))
        return covariances, sizes

    def changes(self, differences: Whole) -> list[Whole]:
        """Return what is added to the measurements of each group's leaves, for each grouping.

        - `differences`: (groups, contrasts) y - G x, the groups of all groupings one after another.
        """
        sums = (self._elimination @ differences.astype(object) << self._bits) // self._pivots
        exact = self._leaf_units * (self._elimination.T @ sums) >> 3 * self._bits - 1
        units = ((exact + 1) >> 1).astype(np.int64)  # halves are rounded up
        return [units[start:end] for start, end in pairwise(self._firsts)]

    @property
    def change_error(self) -> float:
        """The largest error of the change of a leaf's measurement, in units of values."""
        return 0.5 * len(self.rows)

    def error_at(self, level: int, of: Errors) -> float:
        """Return the largest effect of errors on areas of a level."""
        errors = self._leaves_of_groups * of.leaf + of.group + of.gains
        size = math.sqrt(self._largest[level] / self._least_noise)
        return 1.001 * size * math.sqrt(math.fsum((errors * errors).tolist()))

    def error_of(self, leaves: Whole, shares: Floats, of: Errors) -> float:
        """Return the largest effect of errors on a sum of leaves with these shares."""
        levels = len(self._levels)
        none, no_shares = [np.empty(0, np.int64)] * levels, [np.empty(0)] * levels
        covariances, sizes = self._covariances_of([*none, leaves], [*no_shares, shares])
        root, bound = self._root, np.abs(self._root)
        weights = np.abs(_product(root.T, _product(root, covariances)))
        operations = 4 * (len(root) + self._one.tree.counts[-2]) + 64
        weights += _product(bound.T, _product(bound, sizes)) * (operations * 2.0**-52)
        errors = weights * (self._leaves_of_groups * of.leaf + of.group)
        explained = math.fsum((weights * sizes).tolist())
        size = math.sqrt(len(weights) * explained / self._least_noise)
        return 1.001 * (math.fsum(errors.tolist()) + size * of.gains)


def _tree_covariances(one: SpaceVariances, counts: Whole, leaf: int) -> tuple[list[Exact], Exact]:
    """Return the covariances of areas with groups, by level without the last, and those of leaves.

    Those of leaves are the same for all leaves of a parent, without the variance `leaf` of a leaf
    itself with its own groups.

    - `counts`: (parents, groups) the number of leaves of each parent in each group.
    """
    tree, sums = one.tree, [counts.astype(object) * leaf]
    upward: list[Exact] = []
    for level in reversed(range(tree.levels - 1)):
        weights = one.measurement_weights_of(level, 0, tree.counts[level]).tolist()
        rest = [[round((1 - Fraction(weight)) * 2**_WEIGHT_BITS)] for weight in weights]
        upward.insert(0, sums[0] * np.array(rest, object) >> _WEIGHT_BITS)
        if level:
            above = np.zeros((tree.counts[level - 1], counts.shape[1]), object)
            np.add.at(above, tree.parents[level - 1], upward[0])
            sums.insert(0, above)
    final = [upward[0]]
    for level in range(1, tree.levels - 1):
        weights, _running, total = one.shares(level, 0, tree.counts[level])
        passed = (final[-1] - sums[level - 1])[tree.parents[level - 1]]
        shares = weights.astype(object)[:, np.newaxis]
        final.append(upward[level] + passed * shares // np.maximum(total, 1)[:, np.newaxis])
    fan = np.maximum(tree.fan(tree.levels - 2), 1)[:, np.newaxis]
    return final, (final[-1] - sums[-1]) // fan * (leaf > 0)


def _eliminate(matrix: Exact, bits: int) -> tuple[Exact, Exact]:
    """Return E and the pivots (n, 1), so that the inverse of a matrix is E' (E / pivots).

    Gauss's elimination, in units of 2**-bits. Positive definite matrices need no other order.
    """
    rest = matrix.copy()
    found = np.zeros(matrix.shape, np.int64).astype(object)
    found[np.diag_indices(len(found))] = 1 << bits
    for at in range(len(rest)):
        factors = (rest[at + 1 :, at, np.newaxis] << bits) // rest[at, at]
        rest[at + 1 :, at + 1 :] -= factors * rest[at, at + 1 :] >> bits
        found[at + 1 :, : at + 1] -= factors * found[at, : at + 1] >> bits
    return found, rest.diagonal()[:, np.newaxis].copy()


def _quotients(numbers: Exact, unit: int) -> Floats:
    """Return whole numbers over a unit as floats, correctly rounded."""
    return np.array([n / unit for n in numbers.flat], np.float64).reshape(numbers.shape)


def _largest(variances: Floats) -> float:
    """Return the largest variance of the areas that can be estimated; 0 if there are none."""
    return float(variances[np.isfinite(variances)].max(initial=0.0))


def _product(matrix: Floats, vector: Floats) -> Floats:
    """Return a matrix times a vector, column after column: no bit depends on a BLAS."""
    found = np.zeros(len(matrix))
    for column, factor in zip(matrix.T, vector.tolist(), strict=True):
        found += column * factor
    return found


def _less(variances: Floats, reductions: Floats) -> Floats:
    """Return variances after reductions, rounded upwards; 0 where they were 0."""
    # An infinite variance stays infinite, and a difference below 0 is a rounding error.
    left = np.maximum(variances * (1 + _F_SLACK) - reductions, 0.0)
    return np.where(variances > 0, left, 0.0)
