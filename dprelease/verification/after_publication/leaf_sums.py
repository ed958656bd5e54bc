"""Estimates of leaves added up over drawn areas, each sum with its exact standard error.

Of columns that are published the estimates stand in files. Of what others are computed from alone,
as the sum of a mean, layer 1 is made again from the published measurements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.areas import Area, area_variances
from dprelease.consistency.estimates import FirstPass, pieces
from dprelease.consistency.standard_errors import (
    cell_coefficients,
    rounding_error,
    variance_above,
)
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.rounding import round_up
from dprelease.postprocess.consistent.additivity import spans
from dprelease.postprocess.consistent.family_columns import Agreed, agreed_columns
from dprelease.postprocess.consistent.family_shape import Placed, Shape
from dprelease.postprocess.consistent.invariants import contradictions
from dprelease.postprocess.consistent.piece_rows import in_unit
from dprelease.postprocess.consistent.published import PublishedColumn
from dprelease.postprocess.consistent.reading import Measured, begun_on_lattice
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.consistent.values import wanted_tables
from dprelease.postprocess.families import Family
from dprelease.tables import formats
from dprelease.tables.family_tables import published_table
from dprelease.verification.after_publication.drawn_areas import DrawnArea


@dataclass(frozen=True)
class AreaSum:
    """One measurement of an area in one table, in its unit.

    `values` and `errors`: of all cells. `rounding`: by how much fixed point may have moved a cell.
    """

    values: Floats
    errors: Floats
    rounding: float


@dataclass(frozen=True)
class Column:
    """One measurement at the leaves."""

    agreed: Agreed
    measured: Measured
    variances: Variances
    wanted: list[list[Table]]
    first: FirstPass | None
    published: PublishedColumn

    @classmethod
    def all(cls, folder: Path, family: Family, step: Consistent, shape: Shape) -> Iterator[Column]:
        """Yield every measurement of a family, those too that only others are computed from."""
        wanted = wanted_tables(shape, step.spec)
        noised = [published_table(table, folder) for table in family.tables]
        files = {output.name: partial(_batches, folder, output.name) for output in family.outputs}
        for agreed in agreed_columns(shape):
            measured = Measured(agreed, noised)
            sound = not any(contradictions(measured, non_negative=step.spec.non_negative))
            variances, first = begun_on_lattice(measured, wanted, sound=sound)
            published = PublishedColumn(agreed, variances.structure.bits, files)
            yield cls(agreed, measured, variances, wanted, first, published)

    def sums_of_areas(
        self, tables: Sequence[Placed], drawn: Sequence[DrawnArea]
    ) -> dict[str, list[AreaSum]]:
        """Return the sums of every area in some tables of leaves, by the tables' names."""
        cells = {one.name: self._nothing(one, drawn) for one in tables}
        for placed, start, held in self._leaves(tables):
            _add(cells[placed.name], drawn, start, held)
        found = [_Errors.of(self, area) for area in drawn]
        return {one.name: self._with_errors(one, found, cells[one.name]) for one in tables}

    def _nothing(self, placed: Placed, drawn: Sequence[DrawnArea]) -> list[Integers]:
        sizes = [self.agreed.shape.sizes[i] for i in placed.attributes]
        return [np.zeros(sizes, np.int64) for _ in drawn]

    def _leaves(self, tables: Sequence[Placed]) -> Iterator[tuple[Placed, int, Integers]]:
        """Yield (leaves, n_i ...) estimates of tables in units, with the first leaf."""
        if self.agreed.is_shown:
            for placed in tables:
                for start, stop in spans(self.agreed.shape, placed):
                    yield placed, start, self.published.estimates(placed, start, stop)
            return
        last = len(self.agreed.shape.levels) - 1
        for piece in pieces(self.variances, self.measured.read, self.wanted, first=self.first):
            at = last - piece.level
            if at < len(piece.ranges):  # else it is the top of the tree
                for placed in tables:
                    yield placed, piece.ranges[at][0], piece.tables[at][placed.attributes]

    def _with_errors(
        self, placed: Placed, found: Sequence[_Errors], sums: Sequence[Integers]
    ) -> list[AreaSum]:
        step, bits = self.agreed.step, self.variances.structure.bits
        coefficients = cell_coefficients(self.agreed.shape.sizes, placed.attributes)
        bounds = rounding_error(self.variances, placed.attributes)
        told = []
        for errors, cells in zip(found, sums, strict=True):
            final = {space: np.array([f]) for space, f in errors.variances.items()}
            variance = variance_above(self.variances, coefficients, final.__getitem__)
            error = math.sqrt(float(variance[0])) * (1 + 2.0**-40)
            error = math.nan if self.measured.is_cut else error
            moved = errors.rounding(bounds) / 2.0**bits * float(step)
            each = np.full(cells.shape, error * float(step))
            told.append(AreaSum(in_unit(cells, bits, step), each, moved))
        return told


def _add(sums: Sequence[Integers], drawn: Sequence[DrawnArea], start: int, held: Integers) -> None:
    """Add some leaves' cells to the areas that they lie in, or their shares of these."""
    for total, area in zip(sums, drawn, strict=True):
        low, high = np.searchsorted(area.leaves, [start, start + len(held)])
        if low == high:
            continue
        cells = held[area.leaves[low:high] - start]
        shares = area.shares[low:high].reshape(-1, *(1,) * (cells.ndim - 1))
        whole = cells if (shares == 1).all() else np.rint(cells * shares).astype(np.int64)
        total += whole.sum(axis=0)


@dataclass(frozen=True)
class _Errors:
    """What is known of an area's errors: F of residual spaces, and whole areas that make it up."""

    variances: dict[Table, float]
    made_of: list[int]
    """Of each level, how many areas lie in it whole, without a larger one that does."""
    shared: int
    """Leaves of which a part lies in it."""

    @classmethod
    def of(cls, column: Column, area: DrawnArea) -> _Errors:
        tree = column.agreed.shape.tree
        none = [np.empty(0, np.int64)] * (tree.levels - 1)
        shares: list[Floats] = [np.empty(0)] * (tree.levels - 1)
        found = Area([*none, area.leaves], [*shares, area.shares])
        made = [0] * tree.levels
        inside = np.zeros(tree.counts[-1], bool)
        inside[area.leaves[area.shares == 1]] = True
        for level in range(tree.levels - 1, 0, -1):
            parents, counts = tree.parents[level - 1], tree.fan(level - 1)
            whole = np.bincount(parents[inside], minlength=len(counts)) == counts
            made[level] = int((inside & ~whole[parents]).sum())
            inside = whole
        made[0] = int(inside.sum())
        variances = area_variances(column.variances, found)
        return cls(variances, made, int((area.shares < 1).sum()))

    def rounding(self, bounds: Sequence[int]) -> float:
        """Return by how much fixed point may have moved a cell, in units, rounded up."""
        whole = sum(number * bounds[level] for level, number in enumerate(self.made_of))
        return round_up(Fraction(whole + self.shared * (bounds[-1] + 1)))


def _batches(folder: Path, name: str) -> Iterator[Any]:
    yield from formats.PUBLISHED.batches(folder / formats.file_of(name), None)
