"""What a published table says of its true cells: bounds that hold, and how likely each value is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Floats

Segments = tuple[tuple[float, float], ...]
"""Widths and slopes of a convex function on one side of its least point, from there outwards."""


@dataclass(frozen=True, slots=True)
class ObservedCells:
    """The cells of one table as they are told.

    `middle`: the likeliest true value, NaN where nothing is told. `lower`, `upper`: bounds that
    hold without any doubt; infinite without one. `below`, `above`: by how much the logarithm of the
    likelihood falls with every step away from `middle`; nothing where only bounds are known.
    `guess`: what is expected of each cell, for marginals.
    """

    middle: Floats
    lower: Floats
    upper: Floats
    guess: Floats
    below: Segments = ()
    above: Segments = ()

    @property
    def is_hard(self) -> bool:
        """Return whether its bounds rule something out, whatever is likely."""
        return bool(np.isfinite(self.upper).any() or (self.lower > 0).any())


def exactly(true: Floats) -> ObservedCells:
    """Return cells that are told as they are."""
    return ObservedCells(true, true, true, true)


def within(middle: Floats, lower: Floats, upper: Floats, guess: Floats) -> ObservedCells:
    """Return cells that are told by bounds alone."""
    return ObservedCells(middle, np.maximum(lower, 0.0), upper, guess)


def convex(widths: Sequence[float], slopes: Sequence[float]) -> Segments:
    """Return segments whose slopes don't fall: each is at least as steep as those before it."""
    steepest = np.maximum.accumulate(np.asarray(slopes, dtype=np.float64))
    return tuple(zip(map(float, widths), steepest.tolist(), strict=True))
