"""Ratios of two selected quantiles with intervals: post-processing only.

If each of two quantiles lies in its own interval, their ratio lies between the quotients of the
ends. So it is missed at most as often as both together (Bonferroni). The value is at least 1,
because the divisor is the smaller quantile.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.postprocess.margins import Estimates


def quantile_ratio_estimates(
    over: Sequence[Floats], under: Sequence[Floats], most: float
) -> Estimates:
    """Return the ratios of quantiles of numbers that are not negative.

    A ratio is unsure if the interval of its divisor reaches 0.

    - `over`, `under`: the larger and the smaller quantile of each cell (n,), and the ends of their
      intervals.
    - `most`: the largest ratio that the bounds allow, which may be infinite.
    """
    upper_ends, lower_ends = np.sort(np.stack(over), axis=0), np.sort(np.stack(under), axis=0)
    unsure = ~(lower_ends[0] > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(under[0] > 0.0, np.maximum(over[0] / under[0], 1.0), np.nan)
        low = np.where(lower_ends[2] > 0.0, upper_ends[0] / lower_ends[2], 1.0)
        high = np.where(unsure, most, upper_ends[2] / lower_ends[0])
    low, high = np.fmin(np.maximum(low, 1.0), values), np.fmax(np.maximum(high, 1.0), values)
    return Estimates(values, low, high, unsure, np.zeros_like(unsure))
