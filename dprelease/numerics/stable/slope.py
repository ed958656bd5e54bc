"""Bounds of the slope of the logarithm of the stable density.

A symmetric stable variable is a normal variable with a random variance A (Feller 1971, XVII.3.h).
So -f'(x) / f(x) = x r(x), where r(x) is the mean of 1 / A given x. If x is larger, larger A are
more likely, by a monotone likelihood ratio, so r falls as x grows. On an interval [a, b], the slope
x r(x) is therefore at most b r(a), with r(0) = Gamma(3 / alpha) / Gamma(1 / alpha). For c < a, the
difference ln f(c) - ln f(a) is the integral of x r(x) from c to a, which is at least
r(a) (a^2 - c^2) / 2, so it bounds r(a).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dprelease.numerics.stable.stable_tables import RELATIVE_ERROR, log_pdf, quantile

LEAST_TAIL = 2.0**-22
"""Least tail probability of the points at which the slope is bounded."""

SLOPE_POINTS = 512


@lru_cache(maxsize=256)
def central_log_slope_bound(alpha: float) -> float:
    """Return a bound of -f'(x) / f(x) for all x whose tail probability is 2**-22 or more.

    The bound is rigorous if `RELATIVE_ERROR` bounds the errors of the density.

    Raises ValueError: the error of `log_pdf`.
    """
    if alpha == 1.0:
        return 1.0  # the slope is 2 x / (1 + x^2)
    end = float(quantile(alpha, np.array([LEAST_TAIL]))[0])
    # The end is one percent beyond the float quantile, whose error is far smaller.
    x = np.expm1(np.linspace(0.0, math.log1p(1.01 * end), SLOPE_POINTS))
    # Twice the largest error of a difference of two logarithms.
    falls = -np.diff(log_pdf(alpha, x)) + 4 * RELATIVE_ERROR
    inverse_variance_bounds = np.concatenate(
        ([math.gamma(3 / alpha) / math.gamma(1 / alpha)], 2 * falls / np.diff(x * x))
    )
    return float(np.max(x[1:] * inverse_variance_bounds[:-1])) * (1 + 2.0**-20)
