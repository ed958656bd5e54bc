"""Bound the slope of the logarithm of the stable density.

A symmetric stable variable is a normal one of random variance A (Feller 1971, XVII.3.h), so
-f'(x) / f(x) = x r(x), where r(x) is the mean of 1 / A given x. A larger x makes larger A likelier,
by a monotone likelihood ratio: r falls as x grows. So on [a, b] the slope x r(x) is at most b r(a),
with r(0) = Gamma(3 / alpha) / Gamma(1 / alpha), and ln f(c) - ln f(a), the integral of x r(x) from
c to a, is at least r(a) (a^2 - c^2) / 2.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dprelease.numerics.stable.law_tables import RELATIVE_ERROR, log_pdf, quantile

FARTHEST = 2.0**-22
"""Tail up to which the slope is bounded."""

PLACES = 512


@lru_cache(maxsize=256)
def steepest(alpha: float) -> float:
    """Return a bound of -f'(x) / f(x) for all x whose tail is 2**-22 or more; raise as `log_pdf`.

    Rigorous, if the stated error of the density is.
    """
    if alpha == 1.0:
        return 1.0  # 2 x / (1 + x^2)
    end = float(quantile(alpha, np.array([FARTHEST]))[0])
    x = np.expm1(np.linspace(0.0, math.log1p(1.01 * end), PLACES))
    falls = -np.diff(log_pdf(alpha, x)) + 4 * RELATIVE_ERROR
    known = np.concatenate(
        ([math.gamma(3 / alpha) / math.gamma(1 / alpha)], 2 * falls / np.diff(x * x))
    )
    return float(np.max(x[1:] * known[:-1])) * (1 + 2.0**-20)
