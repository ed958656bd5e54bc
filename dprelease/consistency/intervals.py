"""Intervals around the truth, from layer 1; never a margin around layer 2 alone.

With x_1 a cell of layer 1 and w its margin (rounding errors within, `standard_errors.half_widths`),
the truth lies in [x_1 - w, x_1 + w] with the declared confidence. It is an integer, and counts are
at least 0, so cutting to
    lower = ceil(max(0, x_1 - w)),    upper = floor(x_1 + w)
preserves the coverage. If the interval is empty (upper < lower), the truth is certainly outside the
margin; the interval is then the nearest whole number at least 0, and `adjusted` is true. `moe` is
the larger distance of the published x_2 to the ends, so that x_2 +- moe covers wherever the
interval does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.fixed_point import Whole


@dataclass(frozen=True)
class Intervals:
    """Integer intervals of the cells of a table, with the columns to publish next to layer 2."""

    lower: Whole
    upper: Whole
    moe: Whole
    adjusted: NDArray[np.bool_]


def intervals(
    estimates: Whole, half_widths: Whole, whole: Whole, bits: int, non_negative: bool = True
) -> Intervals:
    """Return the intervals of some areas' cells.

    Parameters
    ----------
    estimates
        (areas, n_i ...) layer 1 in units of 2**-bits.
    half_widths
        (areas,) margins in the same units, rounded up.
    whole
        (areas, n_i ...) layer 2.
    non_negative
        Whether the truth is known to be at least 0.
    """
    margin = half_widths.reshape(-1, *[1] * (estimates.ndim - 1))
    lower = -((margin - estimates) >> bits)  # the least whole number at or above
    upper = (estimates + margin) >> bits
    if non_negative:
        lower, upper = np.maximum(lower, 0), np.maximum(upper, -1)
    empty = upper < lower
    nearest = (estimates + (1 << bits >> 1)) >> bits
    nearest = np.maximum(nearest, 0) if non_negative else nearest
    lower, upper = np.where(empty, nearest, lower), np.where(empty, nearest, upper)
    moe = np.maximum(np.maximum(upper - whole, whole - lower), 0)
    return Intervals(lower, upper, moe, empty | (whole < lower) | (whole > upper))
