"""Differences and ratios of two noisy values, with intervals.

The interval of a change has one of three sources:

- Counts and sums with independent noise that no later step changed: the quantile of the difference
  of both noises, from the mechanisms in the manifests. Ratios are those of Fieller (1954), as in
  `postprocess.margins`.
- Consistent tables: the standard errors of both estimates, which are independent in two releases;
  in one release their sum, which holds for every correlation.
- Other columns, such as means, medians and rounded counts: the differences between the ends of both
  intervals. If each misses its value with probability p, both hold with 1 - 2 p (Bonferroni).

**Consistent tables.** The cells of a family are correlated, and their covariance follows from the
declaration: it is a sum over residual spaces T of F_T, the variance of an area, times a factor of
the cells' keys (see `consistency.standard_errors`). So the error of a sum over some areas and some
values of keys is exact, and so is that of a difference of two cells.

**Differences.** Let a and b be the areas of two cells, and v and w their values of keys. With q = a
v - b w = ((a - b) (v + w) + (a + b) (v - w)) / 2, the variance is
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
from dprelease.consistency.standard_errors import (
    Area,
    area_variances,
    product_coefficients,
    variance_upper_bound,
)
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.margins import compatible_ratios, difference_width, pivot_of
from dprelease.postprocess.noise_table import noise_width
from dprelease.query.grouping.group_keys import Key
from dprelease.query.quality import CONFIDENCE

MOST_TERMS = 32
"""Number of equal terms from which on the shape of a sum of noise no longer changes much."""


@dataclass(frozen=True)
class Estimates:
    """Published values (n,) of one column, and what is known about their noise.

    `noise` is the noise of a value in steps of size `step`, if nothing else changed the value;
    `added` has the number of cells of which each value is the sum, if some are sums.
    `errors` are standard errors, and `quantile` is their number in a margin.
    """

    values: Floats
    lower: Floats
    upper: Floats
    confidence: Fraction
    """The confidence of the intervals from `lower` to `upper`."""
    noise: Mechanism | None = None
    step: float = 1.0
    added: Floats | None = None
    errors: Floats | None = None
    quantile: float = 0.0


@dataclass(frozen=True)
class Change:
    """The changes (n,) from one column to another: differences and ratios with intervals."""

    difference: tuple[Floats, Floats, Floats]
    ratio: tuple[Floats, Floats, Floats]
    confidence: Fraction


def change_between(
    old: Estimates, new: Estimates, *, is_same: bool, joint: Floats | None = None
) -> Change:
    """Return the change from one column to another.

    `is_same` says that both are of one release. The noise of different cells is independent there,
    too, but estimates of consistent tables are correlated; `joint` are the standard errors of their
    differences, if known.
    """
    difference = new.values - old.values
    if old.noise is not None and new.noise is not None:
        return _change_of_noise(old, new, old.noise, new.noise)
    if old.errors is not None and new.errors is not None:
        quantile = max(old.quantile, new.quantile)
        error = old.errors + new.errors if is_same else np.hypot(old.errors, new.errors)
        if joint is not None:
            error = np.where(np.isnan(error) | (error == 0), error, joint)
        width = quantile * error
        ends = difference - width, difference + width
        if joint is not None or not is_same:
            ratio = _fieller(old.values, new.values, old.errors, new.errors, error, quantile)
            return Change((difference, *ends), ratio, CONFIDENCE)
        return Change((difference, *ends), _ratio_of_ends(old, new), 2 * CONFIDENCE - 1)
    ends = new.lower - old.upper, new.upper - old.lower
    missed = (1 - old.confidence) + (1 - new.confidence)
    return Change((difference, *ends), _ratio_of_ends(old, new), 1 - missed)


def _change_of_noise(
    old: Estimates, new: Estimates, old_noise: Mechanism, new_noise: Mechanism
) -> Change:
    """Return the change between two values with independent noise."""
    at, difference = float(CONFIDENCE), new.values - old.values
    added = [np.ones(len(difference)) if s.added is None else s.added for s in (old, new)]
    if any((number > 1).any() for number in added):
        steps = np.array([[old.step], [new.step]])
        widths = sum_width([old_noise, new_noise], np.array(added), at, steps)
        ends = difference - widths, difference + widths
        return Change((difference, *ends), _ratio_of_ends(old, new), CONFIDENCE)
    scale = old.step / new.step
    width = difference_width(new_noise, old_noise, scale, at) * new.step
    under, over = old.values / old.step, new.values / new.step
    known = under > old_noise.half_width(at)
    lower, upper = compatible_ratios(
        over, under, pivot_of(new_noise, old_noise, at), (-np.inf, np.inf)
    )
    ratio = (
        np.where(known, x / scale, np.nan) for x in (over / np.where(known, under, 1), lower, upper)
    )
    value, low, high = ratio
    ends = difference - width, difference + width
    return Change((difference, *ends), (value, low, high), CONFIDENCE)


def sum_width(
    noises: Sequence[Mechanism], numbers: Floats, confidence: float, steps: Floats | None = None
) -> Floats:
    """Return quantiles (n,) of absolute sums of independent noise.

    Parameters
    ----------
    numbers
        (noises, n) numbers of terms with each noise.
    steps
        (noises, 1) sizes of the steps of each noise; by default 1.
    """
    cases, of = np.unique(numbers, axis=1, return_inverse=True)
    widths = np.empty(cases.shape[1])
    for i, case in enumerate(cases.T):
        terms = [
            one for one, n in zip(noises, case, strict=True) for _ in range(min(int(n), MOST_TERMS))
        ]
        bound = noise_width(tuple(terms), confidence)
        sizes = np.array([max(1.0, float(one.half_width(confidence))) for one in noises])
        scaled = sizes if steps is None else sizes * steps[:, 0]
        widths[i] = bound.factor * np.sqrt((case * scaled**2).sum())
    return widths[of.reshape(-1)]


def _fieller(
    old: Floats, new: Floats, old_error: Floats, new_error: Floats, error: Floats, quantile: float
) -> tuple[Floats, Floats, Floats]:
    """Return the ratios of estimates, with their intervals (Fieller 1954).

    `error` is the standard error of the differences, from which the covariances follow.
    """
    known = old > quantile * old_error
    under = np.where(known, old, np.nan)
    covariance = (old_error**2 + new_error**2 - error**2) / 2
    slope = np.divide(covariance, old_error**2, out=np.zeros(len(old)), where=old_error > 0)
    ratio, part = new / under, (quantile * old_error / under) ** 2
    rest = np.maximum(new_error**2 - slope * covariance, 0.0)  # given the divisor
    root = np.sqrt(rest * (1 - part) + ((ratio - slope) * old_error) ** 2)
    middle, half = (ratio - part * slope) / (1 - part), quantile * root / (under * (1 - part))
    return ratio, middle - half, middle + half


def _ratio_of_ends(old: Estimates, new: Estimates) -> tuple[Floats, Floats, Floats]:
    """Return the ratios of values, with the extreme ratios of the values in both intervals."""
    known = old.lower > 0
    lower, upper = (np.where(known, end, np.nan) for end in (old.lower, old.upper))
    with np.errstate(invalid="ignore"):  # an infinite end over another one is an unknown end
        least = np.minimum(new.lower / lower, new.lower / upper)
        most = np.maximum(new.upper / lower, new.upper / upper)
    return new.values / np.where(known, old.values, np.nan), least, most


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
