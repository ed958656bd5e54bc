"""Exact standard errors of sums and differences of cells of one consistent table.

The cells of a family are correlated, and their covariance follows from the declaration: it is a sum
over residual spaces T of F_T, the variance of an area, times a factor of the cells' keys (see
`consistency.standard_errors`). So the error of a sum over some areas and some values of keys is
exact, and so is that of a difference of two cells.

**Differences.** Let a and b be the areas of two cells, and v and w their values of keys. With
q = a v - b w = ((a - b) (v + w) + (a + b) (v - w)) / 2, the variance is
    sum_T (F_T(a - b) c_T(v + w) + F_T(a + b) c_T(v - w)) / 4,
because the rest is proportional to |P_T v|^2 - |P_T w|^2, which is 0 for two cells of one table.
All terms are non-negative, so that each is rounded up. c_T(v + w) is 2 (A_T + B_T), and c_T(v - w)
is 2 (A_T - B_T), with A_T the factor of a single cell, and B_T the product over the keys of T of
1 - 1/n where the values are equal, and of -1/n where they differ, over n^2 for the other keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dprelease.consistency.algebra import Table, spaces_of
from dprelease.consistency.areas import Area, area_variances
from dprelease.consistency.standard_errors import product_coefficients, variance_upper_bound
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.query.grouping.group_keys import Key

_ROUNDING_FACTOR = 1 + 2.0**-40

Weights = tuple[tuple[int, float], ...]
"""Positions of areas of a table, in rising order, each with its weight."""


@dataclass
class JointErrors:
    """The errors of sums and differences of cells of one column in one table of a family."""

    column: FamilyColumn
    placed: PlacedTable

    def __post_init__(self) -> None:
        self._known: dict[Weights, Mapping[Table, float]] = {}

    @property
    def _shape(self) -> Shape:
        return self.column.shape

    @cached_property
    def area_key(self) -> Key | None:
        """The key of the areas of the table; None for tables of the whole."""
        return self.placed.table.query.keys.keys[0] if self.placed.level else None

    @cached_property
    def attributes(self) -> tuple[Key, ...]:
        """The other keys of the table, in the order of the family."""
        return tuple(self._shape.attributes[i] for i in self.placed.attributes)

    def of_sum(self, areas: Sequence[int], values: Sequence[int]) -> float:
        """Return the error of a sum over cells, in the unit of the column.

        Parameters
        ----------
        areas
            The positions of the areas; that of the whole is 0.
        values
            For each of `attributes`, over how many of its values the sum extends.
        """
        one, none = Fraction(1), Fraction(0)
        number = dict(zip(self.placed.attributes, values, strict=True))
        sizes = self._shape.sizes
        every = [number.get(i, n) for i, n in enumerate(sizes)]
        weights = [[one] * k + [none] * (n - k) for k, n in zip(every, sizes, strict=True)]
        coefficients = product_coefficients(sizes, weights)
        return self._error([(coefficients, tuple((area, 1.0) for area in sorted(areas)))])

    def of_difference(self, one: int, other: int, same: Sequence[bool]) -> float:
        """Return the error of the difference of two cells, in the unit of the column.

        Parameters
        ----------
        one, other
            The positions of the areas of both cells; that of the whole is 0.
        same
            For each of `attributes`, whether both cells have the same value.
        """
        equal = dict(zip(self.placed.attributes, same, strict=True))
        sums, differences = {}, {}
        for space in spaces_of(self._shape.sizes, self.placed.attributes):
            single, mixed = Fraction(1), Fraction(1)
            for i in self.placed.attributes:
                n = self._shape.sizes[i]
                single *= Fraction(n - 1, n) if i in space else Fraction(1, n * n)
                differing = Fraction(-1, n) if not equal[i] else Fraction(n - 1, n)
                mixed *= differing if i in space else Fraction(1, n * n)
            sums[space], differences[space] = (single + mixed) / 2, (single - mixed) / 2
        low, high = sorted((one, other))
        if one == other:  # F(2 a) is 4 F(a)
            return self._error([({s: 4 * c for s, c in differences.items()}, ((one, 1.0),))])
        apart: Weights = ((low, 1.0), (high, -1.0))
        return self._error([(sums, apart), (differences, ((low, 1.0), (high, 1.0)))])

    def _error(self, terms: Sequence[tuple[Mapping[Table, Fraction], Weights]]) -> float:
        """Return the root of a sum of variances, in the unit of the column, rounded up."""
        total = 0.0
        for coefficients, weights in terms:
            needed = {space: c for space, c in coefficients.items() if c}
            final = {space: np.array([f]) for space, f in self._variances(weights).items()}
            bound = variance_upper_bound(self.column.variances, needed, final.__getitem__)
            total += float(bound[0])
        return math.sqrt(total) * _ROUNDING_FACTOR * float(self.column.step)

    def _variances(self, weights: Weights) -> Mapping[Table, float]:
        """Return F of a weighted sum of areas of the table."""
        if weights not in self._known:
            self._known[weights] = area_variances(self.column.variances, self._area(weights))
        return self._known[weights]

    def _area(self, weights: Weights) -> Area:
        """Return a weighted sum of areas; areas of a grouping are made of leaves."""
        tree, level = self._shape.tree, self.placed.level
        nodes = np.array([area for area, _ in weights], np.int64)
        shares: Floats = np.array([weight for _, weight in weights])
        if level >= tree.levels:
            groups = self._shape.groupings[level - tree.levels].ancestors.numbers
            by_group = np.zeros(int(groups.max()) + 1)
            by_group[nodes] = shares
            level, nodes = tree.levels - 1, np.flatnonzero(by_group[groups])
            shares = by_group[groups][nodes]
        leaves = [np.empty(0, np.int64) for _ in range(tree.levels)]
        parts: list[Floats] = [np.empty(0) for _ in range(tree.levels)]
        leaves[level], parts[level] = nodes, shares
        return Area(leaves, parts)
