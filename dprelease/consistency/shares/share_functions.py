"""Variances of published cells as functions of the shares, with derivatives, on any shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.consistency.fixed_point import Floats
from dprelease.consistency.shares.design import Design, Placed
from dprelease.consistency.shares.jets import BENDS, SLOPES, VALUES, Jet
from dprelease.consistency.shares.shape_variances import (
    Unknown,
    final_variances,
    mean_variances,
    unknown,
    values_of,
)
from dprelease.consistency.shares.shapes import Shape

MEAN = -1  # in the place of a class: the mean over all areas of the level
_AT_ONCE = 1 << 22  # numbers of one array


@dataclass(frozen=True)
class Row:
    """One function of the shares: the variance of a table's cell at one class, or its mean.

    Parameters
    ----------
    placed
        Level and table.
    node
        The class of that level, or MEAN.
    """

    placed: Placed
    node: int


@dataclass(frozen=True)
class Bends:
    """F of the rows, first and second derivatives: (rows, spaces), then levels for each."""

    value: Floats
    slope: Floats | None
    bend: Floats | None


@dataclass(frozen=True)
class RowValues:
    """Rows at some shares.

    Parameters
    ----------
    values
        (rows,).
    slopes
        (rows, items), the derivatives by shares; empty if not requested.
    bends
        (rows, spaces, levels, levels) by precisions; empty if not requested.
    """

    values: Floats
    slopes: Floats
    bends: Floats


class ShareFunctions:
    """Rows on a shape.

    Parameters
    ----------
    design
        What may be measured.
    shape
        That of the design, or an averaged one.
    rows
        The functions; all of them must be finite where all shares are positive.
    """

    def __init__(self, design: Design, shape: Shape, rows: Sequence[Row]) -> None:
        self.design, self.shape, self.rows = design, shape, list(rows)
        self._factors = {row.placed[1]: design.coefficients(row.placed[1]) for row in rows}
        self._sources = design.sources(np.ones(len(design.items)))
        self._lost: Unknown | None = None  # of all spaces at once

    def at(self, shares: Floats, order: int = VALUES) -> RowValues:
        """Return the rows at some shares, none of them 0, and so many derivatives."""
        if not self.rows:
            return RowValues(np.empty(0), np.empty((0, len(shares))), np.empty(0))
        sited = self._variances_at_rows(shares, order)
        factors = np.array([self._factors[row.placed[1]] for row in self.rows])
        seen = factors > 0
        values = (factors * np.where(seen, sited.value, 0.0)).sum(axis=1)
        slopes = bends = np.empty(0)
        if sited.slope is not None:
            each = factors[..., None] * np.where(seen[..., None], sited.slope, 0.0)
            precision = self.design.precision.swapaxes(0, 1)  # (spaces, levels, items)
            slopes = each.reshape(len(self.rows), -1) @ precision.reshape(-1, len(shares))
        if sited.bend is not None:
            bends = np.where(seen[..., None, None], sited.bend, 0.0)
            bends = factors[..., None, None] * bends
        return RowValues(values, slopes, bends)

    def bent(self, found: RowValues, multipliers: Floats) -> Floats:
        """Return the second derivatives by shares of a sum of rows: (items, items)."""
        by_space = np.tensordot(multipliers, found.bends, axes=1)  # (spaces, levels, levels)
        precision = self.design.precision.swapaxes(0, 1)
        bent: Floats = np.tensordot(precision, by_space @ precision, axes=((0, 1), (0, 1)))
        return bent

    def greatest(self, shares: Floats, wanted: Sequence[Placed]) -> dict[Placed, tuple[int, float]]:
        """Return the class in which each table has the greatest variance, and this variance."""
        precisions = self.design.precision @ shares
        final = values_of(self.shape, self.design.sources(shares), precisions)
        found = {}
        for level, table in wanted:
            each = self._cells(final[level], table)
            worst = int(each.argmax())
            found[level, table] = worst, float(each[worst])
        return found

    def nearest(self, shares: Floats, variances: Mapping[Placed, float]) -> dict[Placed, int]:
        """Return the classes whose cells have about these variances."""
        precisions = self.design.precision @ shares
        final = values_of(self.shape, self._sources, precisions)
        found = {}
        for (level, table), variance in variances.items():
            each = np.maximum(self._cells(final[level], table), 1e-300)
            found[level, table] = int(np.abs(np.log(each / variance)).argmin())
        return found

    def means(self, shares: Floats, wanted: Sequence[Placed]) -> dict[Placed, float]:
        """Return the mean variance of a cell over all areas; shares may be 0."""
        precisions = self.design.precision @ shares
        final = values_of(self.shape, self.design.sources(shares), precisions)
        return {
            (level, table): float(
                np.average(self._cells(final[level], table), weights=self.shape.weights[level])
            )
            for level, table in wanted
        }

    def _cells(self, final: Floats, table: tuple[int, ...]) -> Floats:
        factors = self.design.coefficients(table)
        seen = factors > 0
        found: Floats = (final[:, seen] * factors[seen]).sum(axis=1)
        return found

    def _variances_at_rows(self, shares: Floats, order: int) -> Bends:
        """Return F of the rows; one space at a time if one array would be large."""
        precisions = self.design.precision @ shares
        levels, spaces = precisions.shape
        if max(self.shape.counts) * spaces * levels**order <= _AT_ONCE:
            if self._lost is None:
                self._lost = unknown(self.shape, self._sources)
            final = final_variances(self.shape, self._sources, self._lost, precisions, order)
            found = self._select_rows(final)
            return Bends(found.value, found.slope, found.bend)
        parts = []
        for start in range(spaces):
            one = self._sources.of(slice(start, start + 1))
            lost, part = unknown(self.shape, one), precisions[:, start : start + 1]
            parts.append(self._select_rows(final_variances(self.shape, one, lost, part, order)))
        return Bends(
            np.concatenate([part.value for part in parts], axis=1),
            _concatenate_columns([part.slope for part in parts]) if order >= SLOPES else None,
            _concatenate_columns([part.bend for part in parts]) if order >= BENDS else None,
        )

    def _select_rows(self, final: list[Jet]) -> Jet:
        """Return F of the rows' classes: a jet of (rows, spaces)."""
        means: dict[int, Jet] = {}
        found = []
        for row in self.rows:
            level = row.placed[0]
            if row.node == MEAN:
                if level not in means:
                    means[level] = mean_variances(self.shape, level, final[level])
                found.append(means[level])
            else:
                found.append(final[level].take(np.array([row.node])))
        return Jet(
            np.concatenate([jet.value for jet in found]),
            _concatenate_rows([jet.slope for jet in found]),
            _concatenate_rows([jet.bend for jet in found]),
        )


def _concatenate_columns(parts: Sequence[Floats | None]) -> Floats:
    return np.concatenate([part for part in parts if part is not None], axis=1)


def _concatenate_rows(parts: Sequence[Floats | None]) -> Floats | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None
