"""Compute intervals around true values from estimates (layer 1) for integer tables (layer 2).

Let x_1 be an estimate and w its margin, which includes rounding errors (`half_widths` of
`standard_errors`). The true value lies in [x_1 - w, x_1 + w] with the declared confidence. It is an
integer, and counts are at least 0, so
    lower = ceil(max(0, x_1 - w)),    upper = floor(max(0, x_1) + w)
preserve the coverage. For an x_1 below 0, floor(x_1 + w) would preserve it, too, but readers would
take "0 to 0" for certainty that nobody is there. If no integer is within the margin, `adjusted` is
true, and an interval that would be empty is the whole number from 0 up that is nearest to x_1.
`moe` is the larger distance from the published integer x_2 to an end of the interval, so that
x_2 +- moe contains the true value whenever the interval does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.fixed_point import Whole


@dataclass(frozen=True)
class Intervals:
    """Integer intervals of the cells of a table, published next to its integers.

    - `lower`, `upper`: the ends of the intervals.
    - `moe`: the larger distance from the published integer to an end of its interval.
    - `adjusted`: whether the published integer is outside the interval, or no integer is within the
      margin.
    """

    lower: Whole
    upper: Whole
    moe: Whole
    adjusted: NDArray[np.bool_]


def intervals(
    estimates: Whole, half_widths: Whole, whole: Whole, bits: int, non_negative: bool = True
) -> Intervals:
    """Return the intervals of the cells of some areas.

    - `estimates`: (areas, n_i ...) estimates in units of 2**-bits.
    - `half_widths`: (areas,) margins of the estimates in the same units, rounded up.
    - `whole`: (areas, n_i ...) integers of layer 2.
    - `non_negative`: whether true values are known to be at least 0.
    """
    margin = half_widths.reshape(-1, *[1] * (estimates.ndim - 1))
    lower = -((margin - estimates) >> bits)  # the least integer at or above the end
    upper = highest = (estimates + margin) >> bits
    nearest = (estimates + (1 << bits >> 1)) >> bits
    if non_negative:
        lower, nearest = np.maximum(lower, 0), np.maximum(nearest, 0)
        # From 0 and not from a negative estimate, because of "0 to 0" above.
        upper = (np.maximum(estimates, 0) + margin) >> bits
    outside = highest < lower
    lower = np.where(upper < lower, nearest, lower)
    upper = np.maximum(upper, lower)
    moe = np.maximum(np.maximum(upper - whole, whole - lower), 0)
    return Intervals(lower, upper, moe, outside | (whole < lower) | (whole > upper))
