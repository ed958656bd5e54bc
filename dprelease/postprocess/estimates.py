"""Estimates with intervals, and how the arithmetic of a computed form is declared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.postprocess.margins import Estimates, compatible_ratios, pivot_of
from dprelease.query.measurement import OutputColumn

Mechanisms = Mapping[str, Randomizer]
Vectors = Mapping[str, Integers]
Ends = tuple[float, float]


def values_at_ends(values: Floats, ends: tuple[float, float]) -> Flags:
    """Return which values (n,) are at an end; none if both ends are equal."""
    at_end: Flags = (values <= ends[0]) | (values >= ends[1])
    return at_end & (ends[0] < ends[1])


def bounded_ratios(
    over: Floats, under: Floats, parts: list[Mechanism], confidence: float,
    ends: tuple[float, float], *, positive: bool = True,
) -> Estimates:  # fmt: skip
    """Return ratios of noisy values with their intervals, in steps, and none marked as at a bound.

    `positive`: whether the true divisor can't be negative, so that a noisy one that is 0 or less
    says nothing about the ratio.
    """
    known = under > 0.0 if positive else under != 0.0
    raw = ratio_or_nan(over, np.where(known, under, 0.0))
    values = np.clip(raw, *ends)
    pivot = pivot_of(parts[0], parts[1], confidence)
    # A value beyond a bound counts as at the bound, so that it is always in its interval.
    lower, upper = compatible_ratios(
        np.where(known & positive, values * under, over), under, pivot, ends
    )
    if positive:
        lower, upper = np.where(known, lower, ends[0]), np.where(known, upper, ends[1])
    distance = under if positive else np.abs(under)
    unsure = ~(distance > parts[1].half_width(confidence))
    return Estimates(values, lower, upper, unsure, np.zeros_like(unsure))


def ratio_or_nan(over: Floats, under: Floats) -> Floats:
    """Return over / under, which is NaN where the divisor is 0."""
    return over / np.where(under == 0.0, math.nan, under)


@dataclass(frozen=True, slots=True)
class SumArithmetic:
    """The arithmetic of sums that are computed from other vectors.

    `values` returns the sums of all cells, and `margin` the margin of error, which is the same for
    all cells. Both are in steps of the lattice.
    """

    values: Callable[[OutputColumn, Vectors], Integers]
    margin: Callable[[OutputColumn, Mechanisms, float], int]


@dataclass(frozen=True, slots=True)
class FractionArithmetic:
    """The arithmetic of fractions: their values, and their intervals for each cell.

    `ends` returns the bounds of all values in the column's unit, which are infinite without one.
    `by_rows`: whether the margin in a cell of evenly spread values follows from its rows alone.
    """

    values: Callable[[OutputColumn, Vectors], Floats]
    estimates: Callable[[OutputColumn, Vectors, list[Mechanism], float], Estimates]
    ends: Callable[[OutputColumn], Ends]
    by_rows: bool = True


BATCH_CELLS = 4096
"""Number of cells per batch, to bound memory."""

Values = Callable[[OutputColumn, Vectors], Floats]
Intervals = Callable[[OutputColumn, Vectors, list[Mechanism], float], Estimates]


def _batches(column: OutputColumn, vectors: Vectors) -> list[Vectors]:
    """Return the parts of a column in batches of cells."""
    names = [part.name for part in column.parts]
    starts = range(0, max(1, len(vectors[names[0]])), BATCH_CELLS)
    return [{name: vectors[name][at : at + BATCH_CELLS] for name in names} for at in starts]


def values_in_batches(compute: Values) -> Values:
    """Return the same function of cells, which needs little memory for many cells."""

    def values(column: OutputColumn, vectors: Vectors) -> Floats:
        """Return the values (n,) of all cells."""
        return np.concatenate([compute(column, one) for one in _batches(column, vectors)])

    return values


def estimates_in_batches(compute: Intervals) -> Intervals:
    """Return the same function of cells, which needs little memory for many cells."""

    def estimates(
        column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
    ) -> Estimates:
        """Return the estimates of all cells."""
        found = [compute(column, one, parts, confidence) for one in _batches(column, vectors)]
        values, lower, upper = (
            np.concatenate([getattr(one, name) for one in found])
            for name in ("values", "lower", "upper")
        )
        unsure, moved = (
            np.concatenate([getattr(one, name) for one in found]) for name in ("unsure", "moved")
        )
        return Estimates(values, lower, upper, unsure, moved)

    return estimates
