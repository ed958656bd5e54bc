"""The input of a share search, and the variances of estimates for any shares.

Each table that may be measured at a level gets a share of the budget. Its cells then have the
variance kappa / share, where kappa is their variance if the whole budget were spent on the table.
This holds for Gaussian noise under zero-concentrated privacy, with variance Delta^2 / (2 rho), and
for every accountant in which only the sum of Delta^2 / variance counts. Every residual space T
within the table S is measured with the precision share / (kappa N_(S - T)) (see `algebra`), so that
precisions are linear in the shares and variances of estimates are convex in them (a
matrix-fractional function: Boyd and Vandenberghe, "Convex Optimization", 2004, section 3.1.7), and
twice the shares are half the variances.

**Variances**: F of every residual space, by class of equivalent areas, in floats. The recursion is
that of `variances`, written with lambda = 1 / v:
    U_p = sum V_c,    V = 1 / (lambda + 1 / U),    g = V_c / U_p,    F_c = g (U_p - V_c + g F_p),
and the limits of these formulas if neither a child nor anything below it is measured. Which V are
infinite, and which are 0, follows from the measured and the exact tables, not from their variances.
`variances` computes the published errors and bounds their rounding; this module is only for finding
shares, and no guarantee depends on it.

A variance depends only on the position of an area in the tree. Leaves of the last level under one
parent are therefore one class: 7.7 million blocks are 236 thousand numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table, cell_count, residual_spaces, spaces_of
from dprelease.consistency.fixed_point import Floats, Whole
from dprelease.consistency.standard_errors import cell_coefficients
from dprelease.consistency.tree import Tree

Placed = tuple[int, Table]  # a level, and a table that every area of the level has


class NotEstimableError(ValueError):
    """Required tables can't be estimated at some area of their level.

    - `tables`: the tables and their levels.
    - `missing`: for each table, the residual spaces that no measurement determines. To determine
      them, measure a table with all of their attributes at that level.
    """

    def __init__(self, missing: Mapping[Placed, Sequence[Table]]) -> None:
        super().__init__("a table is not estimable at every area of its level")
        self.missing = dict(missing)
        self.tables = list(missing)


@dataclass(frozen=True)
class Design:
    """Everything that shares depend on, known before data is read.

    - `sizes`: the number of values of each attribute.
    - `areas`: the tree, or a shape where only numbers of areas are known (`Shape.even`).
    - `prices`: for each level, the tables that may be measured there, each with kappa: the variance
      of one of its cells if the whole budget were spent on this table at this level. Positive.
    - `exact`: for each level, the tables whose true values are published; none by default.

    Raises ValueError if there is not one set of prices for each level, or a price is not positive
    and finite.
    """

    sizes: tuple[int, ...]
    areas: Tree | Shape
    prices: Sequence[Mapping[Table, float]]
    exact: Sequence[Collection[Table]] = ()

    def __post_init__(self) -> None:
        levels = self.shape.levels
        if len(self.prices) != levels or len(self.exact) not in (0, levels):
            raise ValueError("every level has its own set of tables")
        kappas = [kappa for level in self.prices for kappa in level.values()]
        if not kappas or not all(0 < kappa < np.inf for kappa in kappas):
            raise ValueError("a table may be measured at some level; all prices are positive")

    @cached_property
    def shape(self) -> Shape:
        """Return the classes of equivalent areas."""
        return self.areas if isinstance(self.areas, Shape) else Shape.of_tree(self.areas)

    @cached_property
    def items(self) -> list[Placed]:
        """Return the measurable tables in the order of the elements of share vectors."""
        return [(level, table) for level, tables in enumerate(self.prices) for table in tables]

    @cached_property
    def spaces(self) -> list[Table]:
        """Return the residual spaces of all tables."""
        tables = [table for _level, table in self.items]
        return residual_spaces(self.sizes, [*tables, *(t for level in self.exact for t in level)])

    @cached_property
    def precision(self) -> Floats:
        """Return the precisions that a share of 1 gives: (levels, spaces, items)."""
        found = np.zeros((self.shape.levels, len(self.spaces), len(self.items)))
        for at, (level, table) in enumerate(self.items):
            for j, space in enumerate(self.spaces):
                if set(space) <= set(table):
                    summed = cell_count(self.sizes, set(table) - set(space))
                    found[level, j, at] = 1 / (float(self.prices[level][table]) * summed)
        return found

    def sources(self, shares: Floats) -> Sources:
        """Return the source of each space if the tables with a positive share are measured."""
        exact = np.zeros((self.shape.levels, len(self.spaces)), bool)
        for level, tables in enumerate(self.exact):
            for table in tables:
                exact[level] |= [set(space) <= set(table) for space in self.spaces]
        measured = (self.precision[:, :, shares > 0] > 0).any(axis=2)
        # Noise adds nothing to what is known exactly, and its precision beside infinity would be
        # undefined.
        return Sources(measured & ~exact, exact)

    def coefficients(self, table: Table) -> Floats:
        """Return the weight of each space's F in the variance of a table's cell: (spaces,)."""
        if table not in self._coefficients:
            found = cell_coefficients(self.sizes, table)
            each = [float(found.get(space, 0)) for space in self.spaces]
            self._coefficients[table] = np.array(each)
        return self._coefficients[table]

    @cached_property
    def _coefficients(self) -> dict[Table, Floats]:
        return {}

    def unknown(self, shares: Floats) -> Unknown:
        """Return at which areas each space is unknown, if only positive shares are measured."""
        return unknown(self.shape, self.sources(shares))

    def require_estimable(self, wanted: Collection[Placed], lost: Unknown) -> None:
        """Raise NotEstimableError if tables can't be estimated at some area of their level."""
        missing: dict[Placed, list[Table]] = {}
        places = {space: at for at, space in enumerate(self.spaces)}
        for level, table in wanted:
            final = np.any(lost.final[level], axis=0)
            unknowns = [
                space
                for space in spaces_of(self.sizes, table)
                if space not in places or final[places[space]]
            ]
            if unknowns:
                missing[level, table] = unknowns
        if missing:
            raise NotEstimableError(missing)

    def numbers(self, wanted: Collection[Placed]) -> dict[Placed, float]:
        """Return the number of cells of each table over all areas of its level."""
        return {
            (level, table): float(self.shape.weights[level].sum()) * cell_count(self.sizes, table)
            for level, table in wanted
        }


Mask = NDArray[np.bool_]
Numbers = NDArray[np.inexact]
"""Floats, or complex numbers whose imaginary parts carry derivatives (`optimum`)."""


class Shape:
    """Classes of equivalent areas by level.

    - `roots`: for each class of level 0, the number of its areas.
    - `parents`: for every level from 1 on, the parent class of each of its classes; rising.
    - `copies`: for every level from 1 on, how many areas of a class each area of its parent has; a
      fraction for an average.
    """

    def __init__(self, roots: Floats, parents: Sequence[Whole], copies: Sequence[Floats]) -> None:
        self.parents = list(parents)
        self.copies = [roots, *copies]
        self.counts = [len(level) for level in self.copies]
        self.weights = [roots]
        for parent, copied in zip(parents, copies, strict=True):
            self.weights.append(self.weights[-1][parent] * copied)

    @classmethod
    def of_tree(cls, tree: Tree) -> Shape:
        """Return the shape of a tree: a class for each area, and for the leaves of each."""
        if tree.levels == 1:
            return cls(np.array([float(tree.counts[0])]), [], [])
        fan = tree.fan(tree.levels - 2)
        inner = np.flatnonzero(fan)
        copies = [np.ones(count) for count in tree.counts[1:-1]]
        roots = np.ones(tree.counts[0])
        return cls(roots, [*tree.parents[:-1], inner], [*copies, fan[inner].astype(np.float64)])

    def with_average_fans(self) -> Shape:
        """Return the shape of a tree in which all areas of a level have equally many children.

        At least one each: where some have none, their number is not that of the tree.
        """
        numbers = [float(weights.sum()) for weights in self.weights]
        copies = [np.array([max(1.0, below / above)]) for above, below in pairwise(numbers)]
        return Shape(np.array(numbers[:1]), [np.zeros(1, np.int64)] * len(copies), copies)

    @property
    def levels(self) -> int:
        """Return the number of levels."""
        return len(self.counts)

    @property
    def size(self) -> int:
        """Return the number of classes on all levels."""
        return sum(self.counts)

    def fractions(self, level: int) -> Floats:
        """Return for each class its fraction of the areas of a level."""
        found: Floats = self.weights[level] / self.weights[level].sum()
        return found

    @cached_property
    def _starts(self) -> list[Whole]:
        """Return for each level but the last the index of the first child class of each class."""
        return [
            np.searchsorted(level, np.arange(above + 1), side="left")
            for above, level in zip(self.counts, self.parents, strict=False)
        ]

    @cached_property
    def inner(self) -> list[Whole]:
        """Return for each level the classes that have children."""
        found = [np.flatnonzero(np.diff(starts)) for starts in self._starts]
        return [*found, np.empty(0, np.int64)]

    def total(self, level: int, of: Numbers) -> Numbers:
        """Return the sums of a level's numbers over each parent's children, copies counted."""
        inner = self.inner[level - 1]
        found = np.zeros((self.counts[level - 1], of.shape[1]), of.dtype)
        copied = of * self.copies[level][:, None]
        found[inner] = np.add.reduceat(copied, self._starts[level - 1][inner], axis=0)
        return found


@dataclass(frozen=True)
class Sources:
    """The sources of each residual space by level: (levels, spaces).

    - `measured`: whether a table with noise measures the space.
    - `exact`: whether an exact table determines the space.
    """

    measured: Mask
    exact: Mask

    def of(self, spaces: slice) -> Sources:
        """Return the sources of some of the spaces."""
        return Sources(self.measured[:, spaces], self.exact[:, spaces])

    def repeated(self, times: int) -> Sources:
        """Return the sources with all spaces repeated `times` times, one copy after another."""
        return Sources(np.tile(self.measured, times), np.tile(self.exact, times))


@dataclass(frozen=True)
class Unknown:
    """By level, which areas have no information on a space: arrays of shape (classes, spaces).

    - `below`: v is infinite: neither the tables of the area nor those below it determine the space.
    - `children`: the number of children with an infinite V.
    - `final`: f is infinite: no table determines the space.
    """

    below: list[Mask]
    children: list[Numbers]
    final: list[Mask]


def unknown(shape: Shape, sources: Sources) -> Unknown:
    """Return which areas have no information, from the declaration, for any shares."""
    determined = sources.measured | sources.exact
    spaces = determined.shape[1]
    below: list[Mask] = []
    children: list[Numbers] = []
    for level in reversed(range(shape.levels)):
        lost = np.ones((shape.counts[level], spaces), bool)
        free: Numbers = np.zeros((shape.counts[level], spaces))
        if level < shape.levels - 1:
            free = shape.total(level + 1, below[-1].astype(np.float64))
            lost[shape.inner[level]] = free[shape.inner[level]] > 0
        children.append(free)
        below.append(lost & ~determined[level])
    below, children = below[::-1], children[::-1]
    final = [below[0]]
    for level in range(1, shape.levels):
        parents = shape.parents[level - 1]
        # An averaged tree may have a fraction of a child, so numbers are compared with a tolerance.
        alone = np.abs(children[level - 1][parents] - 1) < 1e-9
        final.append(below[level] & (final[-1][parents] | ~alone))
    return Unknown(below, children, final)


def final_variances(
    shape: Shape, sources: Sources, lost: Unknown, precisions: Numbers
) -> list[Numbers]:
    """Return F of every class by level: (classes, spaces); arbitrary where `lost.final` is true.

    - `lost`: the result of `unknown` for the same shape and sources.
    - `precisions`: lambda by level and space: (levels, spaces).
    """
    best, sums = _upward_variances(shape, sources, lost, precisions)
    final = [best[0]]
    for level in range(1, shape.levels):
        final.append(
            _final_of_children(shape, lost, level, best[level], sums[level - 1], final[-1])
        )
    return final


def _upward_variances(
    shape: Shape, sources: Sources, lost: Unknown, precisions: Numbers
) -> tuple[list[Numbers], list[Numbers]]:
    """Return V of every class, and U of those above the last level; 0 in the place of infinity."""
    best: list[Numbers] = []
    sums: list[Numbers] = []
    for level in reversed(range(shape.levels)):
        own = precisions[level]
        mine: Numbers = 1 / np.where(sources.measured[level], own, 1.0)
        if level < shape.levels - 1:
            total = shape.total(level + 1, best[-1])
            sums.append(total)
            zero = total.real <= 0  # exact below, or without children
            both = 1 / (own + 1 / np.where(zero, 1.0, total))
            informed = lost.children[level] == 0
            informed &= _column_mask(shape.inner[level], shape.counts[level])
            mine = np.where(informed, np.where(zero, 0.0, both), mine)
        best.append(np.where(sources.exact[level] | lost.below[level], 0.0, mine))
    return best[::-1], sums[::-1]


def _final_of_children(
    shape: Shape, lost: Unknown, level: int, best: Numbers, sums: Numbers, above: Numbers
) -> Numbers:
    """Return F of a level's classes from V, from U of the level above, and from its F."""
    parents = shape.parents[level - 1]
    total, passed = sums[parents], above[parents]
    gain = best / np.where(total.real <= 0, 1.0, total)
    usual = gain * ((total - best) + gain * passed)
    free = lost.children[level - 1][parents] > 0
    found: Numbers = np.where(free, np.where(lost.below[level], total + passed, best), usual)
    return found


def _column_mask(places: Whole, nodes: int) -> Mask:
    found = np.zeros((nodes, 1), bool)
    found[places] = True
    return found
