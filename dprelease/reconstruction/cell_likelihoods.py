"""Describe what a published table reveals of its true cells: certain bounds, and likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Floats

Segments = tuple[tuple[float, float], ...]
"""Widths and slopes of a convex function on one side of its minimum, outwards from there."""


@dataclass(frozen=True, slots=True)
class ObservedCells:
    """The information about the cells of one table.

    `middle`: the likeliest true value, NaN without information. `lower`, `upper`: bounds that
    are certain; infinite without one. `below`, `above`: by how much the log likelihood falls with
    every step away from `middle`; empty if only bounds are known. `guess`: the expected value of
    each cell, for marginals.
    """

    middle: Floats
    lower: Floats
    upper: Floats
    guess: Floats
    below: Segments = ()
    above: Segments = ()

    @property
    def is_hard(self) -> bool:
        """Return whether its bounds exclude something with certainty."""
        return bool(np.isfinite(self.upper).any() or (self.lower > 0).any())


def exactly(true: Floats) -> ObservedCells:
    """Return cells with exact values."""
    return ObservedCells(true, true, true, true)


def cells_within(middle: Floats, lower: Floats, upper: Floats, guess: Floats) -> ObservedCells:
    """Return cells with bounds only."""
    return ObservedCells(middle, np.maximum(lower, 0.0), upper, guess)


def convex(widths: Sequence[float], slopes: Sequence[float]) -> Segments:
    """Return segments with non-decreasing slopes: each is at least as steep as those before."""
    steepest = np.maximum.accumulate(np.asarray(slopes, dtype=np.float64))
    return tuple(zip(map(float, widths), steepest.tolist(), strict=True))
