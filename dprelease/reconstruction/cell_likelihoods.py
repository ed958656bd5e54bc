"""Describe what a published table reveals about its true cells: certain bounds, and likelihoods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from flint import ctx

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats
from dprelease.query.post import PostProcessing

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


# Compute the likelihoods of the true values of noisy cells, from the noise in the manifest.

CONFIDENCES = (0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
"""The confidences at whose half-widths the linear segments of the log likelihood end."""


def likelihoods_from_noise(
    published: Floats, mechanism: Randomizer | None, post: PostProcessing
) -> ObservedCells:
    """Return the likelihoods of the true values of noisy counts.

    Only negative values are impossible. Suppressed cells give no information. For rounded counts,
    all values within half a rounding step are equally likely.
    """
    if mechanism is None:
        return exact_cells(published)
    if not isinstance(mechanism, Mechanism):
        raise TypeError("counts must have additive noise")
    rounding_segments = () if post.round_to is None else ((float(post.round_to) / 2, 0.0),)
    n = len(published)
    # The noise is the published minus the true value, so it is negative for larger true values.
    return ObservedCells(
        published,
        np.zeros(n),
        np.full(n, math.inf),
        np.where(np.isnan(published), 0.0, published),
        (*rounding_segments, *log_probability_segments(mechanism, 1)),
        (*rounding_segments, *log_probability_segments(mechanism, -1)),
    )


def log_probability_segments(mechanism: Mechanism, sign: int) -> Segments:
    """Return the decrease of the log probability of noise on one side of 0, as linear segments.

    `sign` is the side, 1 or -1. The segments end at a few quantiles of the noise, and the last
    segment has no end. Their slopes never decrease, as the program needs. For heavy-tailed noise,
    whose log probability decreases more and more slowly, the slope next to 0 continues, as in least
    absolute deviations.
    """
    ends = sorted({0, *(max(1, mechanism.half_width(c)) for c in CONFIDENCES)})
    falls = [_negative_log_probability(mechanism, sign * end) for end in ends]
    widths = [float(b - a) for a, b in pairwise(ends)]
    slopes = [
        max((after - before) / width, 0.0)
        for before, after, width in zip(falls, falls[1:], widths, strict=False)
    ]
    return (*convex_segments(widths, slopes), (math.inf, max(slopes)))


def _negative_log_probability(mechanism: Mechanism, k: int) -> float:
    """Return the negative logarithm of the probability that the noise is k."""
    # Tails far out are close to each other, and the logarithm needs their difference.
    with ctx.workprec(256):
        probability = mechanism.tail(k, True) - mechanism.tail(k + 1, True)
        return -float(probability.log().mid())
