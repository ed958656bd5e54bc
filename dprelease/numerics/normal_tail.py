"""Tails and quantiles of the normal distribution in floats; for a few, SciPy is not loaded.

SciPy's special functions take a tenth of a second to load, a third of what a whole plan takes.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb, ctx

from dprelease.numerics.lattice import Floats

FEW = 2**14
"""Array length up to which a loop is faster than loading SciPy."""

MARGINS = 16
"""Array length up to which `statistics` is used; plans need one quantile at a time."""

ASYMPTOTIC = 2**10
"""Arguments from which on the asymptotic series of the tail is summed, in balls."""

FAR = 16.0
"""Arguments up to which erfc doesn't underflow: it is 2e-113 there."""


def erfc(x: Floats) -> Floats:
    """Return erfc at x (n,), by the C library or by SciPy; relative error below 2**-42."""
    if len(x) <= FEW:
        return np.fromiter(map(math.erfc, x.tolist()), np.float64, len(x))
    from scipy import special

    return np.asarray(special.erfc(x))


def normal_quantile(u: Floats) -> Floats:
    """Return z with P(Z <= z) = u (n,), 0 < u < 1; some units in the last place off."""
    if len(u) <= MARGINS:
        from statistics import NormalDist

        return np.array([NormalDist().inv_cdf(x) for x in u.tolist()])
    from scipy import special

    return np.asarray(special.ndtri(u))


def ln_erfc_over(x: Floats, start: float) -> Floats:
    """Return ln(erfc(x) / erfc(start)) at x >= start >= 0 (n,), x maybe infinite.

    The absolute error is below 2**-43 for x below `FAR`, and below 2**-50 x^2 otherwise.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # ln 0 at infinity
        if len(x) <= FEW and np.max(x, where=np.isfinite(x), initial=start) < FAR:
            return np.log(erfc(x) / math.erfc(start))
        from scipy import special

        tail = np.log(special.erfcx(x) / special.erfcx(start))
    return np.asarray(tail - (x - start) * (x + start))


def mills_ratio(x: arb) -> arb:
    """Return a ball around Q(x) / phi(x): the integral over u > 0 of exp(-u^2 / 2 - x u)."""
    if x > ASYMPTOTIC:
        return _mills_series(x)
    return (x * x / 2).exp() * (arb.pi() / 2).sqrt() * (x / arb(2).sqrt()).erfc()


def _mills_series(x: arb) -> arb:
    """Return the sum of (-1)^k (2k - 1)!! / x^(2k + 1); the first omitted term bounds the rest.

    Balls of erfc lose all their digits where the exponent is in the millions.
    """
    term = 1 / x
    total, small, k = arb(0), term * arb(2) ** -ctx.prec, 0
    while term.abs_lower() > small and (2 * k + 1) < x * x:
        total += term
        k += 1
        term *= -(2 * k - 1) / (x * x)
    return total + arb(0, term.abs_upper())
