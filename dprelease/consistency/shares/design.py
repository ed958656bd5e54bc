"""The input of a share search: measurable tables at each level, their cost, and the targets.

Each table that may be measured at a level gets a share of the budget. Its cells then have the
variance kappa / share, where kappa is their variance if the whole budget were spent on the table.
This holds for Gaussian noise under zero-concentrated privacy, with variance Delta^2 / (2 rho), and
for every accountant in which only the sum of Delta^2 / variance counts. Every residual space T
within the table S is measured with the precision share / (kappa N_(S - T)) (see `algebra`), so that
precisions are linear in the shares and variances of estimates are convex in them (a
matrix-fractional function: Boyd and Vandenberghe, "Convex Optimization", 2004, section 3.1.7), and
twice the shares are half the variances."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dprelease.consistency.algebra import Table, cell_count, residual_spaces, spaces_of
from dprelease.consistency.fixed_point import Floats
from dprelease.consistency.shares.shape_variances import Shape, Sources, Unknown, unknown
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
