"""Compute intervals around true values from estimates (layer 1) for integer tables (layer 2).

Let x_1 be an estimate and w its margin, which includes rounding errors (`half_widths` of
`standard_errors`). The true value lies in [x_1 - w, x_1 + w] with the declared confidence. It is an
integer, and counts are at least 0, so cutting to
    lower = ceil(max(0, x_1 - w)),    upper = floor(x_1 + w)
preserves the coverage. If the interval is empty (upper < lower), the true value is certainly
outside the margin; the interval is then the whole number from 0 up that is nearest to x_1, and
`adjusted` is true. `moe` is the larger distance from the published integer x_2 to an end of the
interval, so that x_2 +- moe contains the true value whenever the interval does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.fixed_point import Whole


@dataclass(frozen=True)
class Intervals:
    """Integer intervals of the cells of a table, published next to its integers.

    Parameters
    ----------
    lower, upper
        The ends of the intervals.
    moe
        The larger distance from the published integer to an end of its interval.
    adjusted
        Whether the published integer is outside the interval, or no integer is within the margin.
    """

    lower: Whole
    upper: Whole
    moe: Whole
    adjusted: NDArray[np.bool_]


def intervals(
    estimates: Whole, half_widths: Whole, whole: Whole, bits: int, non_negative: bool = True
) -> Intervals:
    """Return the intervals of the cells of some areas.

    Parameters
    ----------
    estimates
        (areas, n_i ...) estimates in units of 2**-bits.
    half_widths
        (areas,) margins of the estimates in the same units, rounded up.
    whole
        (areas, n_i ...) integers of layer 2.
    non_negative
        Whether true values are known to be at least 0.
    """
    margin = half_widths.reshape(-1, *[1] * (estimates.ndim - 1))
    lower = -((margin - estimates) >> bits)  # the least integer at or above the end
    upper = (estimates + margin) >> bits
    if non_negative:
        lower, upper = np.maximum(lower, 0), np.maximum(upper, -1)
    empty = upper < lower
    nearest = (estimates + (1 << bits >> 1)) >> bits
    nearest = np.maximum(nearest, 0) if non_negative else nearest
    lower, upper = np.where(empty, nearest, lower), np.where(empty, nearest, upper)
    moe = np.maximum(np.maximum(upper - whole, whole - lower), 0)
    return Intervals(lower, upper, moe, empty | (whole < lower) | (whole > upper))
