"""Describe what a published table reveals about its true cells: certain bounds, and likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Floats

Segments = tuple[tuple[float, float], ...]
"""The widths and slopes of the linear segments of a convex function, from its minimum outwards."""


@dataclass(frozen=True, slots=True)
class ObservedCells:
    """The information about the cells of one table.

    `middle` is the likeliest true value of each cell, or NaN without information. `lower` and
    `upper` are certain bounds, which are infinite if there is no bound. `guess` is the expected
    value of each cell, from which marginals are computed. `below` and `above` have the decrease of
    the log likelihood on both sides of `middle`; they are empty if only bounds are known.
    """

    middle: Floats
    lower: Floats
    upper: Floats
    guess: Floats
    below: Segments = ()
    above: Segments = ()

    @property
    def is_hard(self) -> bool:
        """Return whether the bounds exclude any value with certainty."""
        return bool(np.isfinite(self.upper).any() or (self.lower > 0).any())


def exact_cells(true: Floats) -> ObservedCells:
    """Return the information about cells whose exact values are published."""
    return ObservedCells(true, true, true, true)


def cells_within(middle: Floats, lower: Floats, upper: Floats, guess: Floats) -> ObservedCells:
    """Return the information about cells of which only bounds are known."""
    return ObservedCells(middle, np.maximum(lower, 0.0), upper, guess)


def convex_segments(widths: Sequence[float], slopes: Sequence[float]) -> Segments:
    """Return segments of a convex function, in which no slope is below an earlier slope.

    Slopes that are below an earlier slope are raised to the earlier slope.
    """
    steepest = np.maximum.accumulate(np.asarray(slopes, dtype=np.float64))
    return tuple(zip(map(float, widths), steepest.tolist(), strict=True))
