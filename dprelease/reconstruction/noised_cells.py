"""Compute the likelihood of every true value of noisy cells, from the noise in the manifest."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from flint import ctx

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats
from dprelease.query.post import PostProcessing
from dprelease.reconstruction.cell_likelihoods import ObservedCells, Segments, convex, exactly

CONFIDENCES = (0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
"""The confidences whose half widths are the ends of linear segments of the log likelihood."""


def likelihoods_from_noise(
    published: Floats, mechanism: Randomizer | None, post: PostProcessing
) -> ObservedCells:
    """Return the likelihoods of true values for noisy counts; only negative values are excluded.

    Suppressed cells give no information, and rounding adds half a step on each side.
    """
    if mechanism is None:
        return exactly(published)
    if not isinstance(mechanism, Mechanism):
        raise TypeError("counts must have additive noise")
    flat = () if post.round_to is None else ((float(post.round_to) / 2, 0.0),)
    n = len(published)
    # Noise is the published value minus the true value: larger true values mean negative noise.
    return ObservedCells(
        published,
        np.zeros(n),
        np.full(n, math.inf),
        np.where(np.isnan(published), 0.0, published),
        (*flat, *falling(mechanism, 1)),
        (*flat, *falling(mechanism, -1)),
    )


def falling(mechanism: Mechanism, sign: int) -> Segments:
    """Return the decrease of the log probability of noise on one side of 0, as segments.

    The segments are linear between a few quantiles, and convex. For heavy-tailed noise, whose log
    probability decreases more and more slowly, the slope next to 0 continues, as in least absolute
    deviations. The last segment has no end.
    """
    ends = sorted({0, *(max(1, mechanism.half_width(c)) for c in CONFIDENCES)})
    falls = [_information(mechanism, sign * end) for end in ends]
    widths = [float(b - a) for a, b in pairwise(ends)]
    slopes = [
        max((after - before) / width, 0.0)
        for before, after, width in zip(falls, falls[1:], widths, strict=False)
    ]
    return (*convex(widths, slopes), (math.inf, max(slopes)))


def _information(mechanism: Mechanism, k: int) -> float:
    """Return the negative log probability at k."""
    with ctx.workprec(256):
        mass = mechanism.tail(k, True) - mechanism.tail(k + 1, True)
        return -float(mass.log().mid())
