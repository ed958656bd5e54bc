"""Tail probabilities and quantiles of the normal distribution, in floats.

The functions do not load SciPy for short arrays, because loading its special functions takes a
tenth of a second, which is a third of the time of a whole plan.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb, ctx

from dprelease.numerics.lattice import Floats

MOST_WITHOUT_SCIPY = 2**14
"""Largest length of an array for which a loop is faster than loading SciPy."""

MOST_WITH_STATISTICS = 16
"""Largest length of an array for which `statistics` computes quantiles; plans need only a few."""

ASYMPTOTIC = 2**10
"""Argument from which on balls around the tail are computed from its asymptotic series."""

ERFC_LIMIT = 16.0
"""Argument up to which erfc does not underflow; its value there is 2e-113."""


def erfc(x: Floats) -> Floats:
    """Return erfc(x) for x (n,), with relative errors below 2**-42."""
    if len(x) <= MOST_WITHOUT_SCIPY:
        return np.fromiter(map(math.erfc, x.tolist()), np.float64, len(x))
    from scipy import special

    return np.asarray(special.erfc(x))


def normal_quantile(u: Floats) -> Floats:
    """Return the standard normal quantiles z with P(Z <= z) = u, for u (n,) between 0 and 1.

    The errors are some units in the last place.
    """
    if len(u) <= MOST_WITH_STATISTICS:
        from statistics import NormalDist

        return np.array([NormalDist().inv_cdf(x) for x in u.tolist()])
    from scipy import special

    return np.asarray(special.ndtri(u))


def ln_erfc_over(x: Floats, start: float) -> Floats:
    """Return ln(erfc(x) / erfc(start)) for x (n,) >= start >= 0; x may be infinite.

    The absolute error is below 2**-43 for x below `ERFC_LIMIT`, and below 2**-50 x^2 otherwise.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # an infinite x has the result ln 0
        if (
            len(x) <= MOST_WITHOUT_SCIPY
            and np.max(x, where=np.isfinite(x), initial=start) < ERFC_LIMIT
        ):
            return np.log(erfc(x) / math.erfc(start))
        from scipy import special

        tail = np.log(special.erfcx(x) / special.erfcx(start))
    # erfcx(x) is erfc(x) exp(x^2). The factored difference of squares loses no digits at nearby
    # points.
    return np.asarray(tail - (x - start) * (x + start))


def mills_ratio(x: arb) -> arb:
    """Return a ball around the Mills ratio Q(x) / phi(x).

    It is the integral over u > 0 of exp(-u^2 / 2 - x u).
    """
    if x > ASYMPTOTIC:
        return _mills_series(x)
    return (x * x / 2).exp() * (arb.pi() / 2).sqrt() * (x / arb(2).sqrt()).erfc()


def _mills_series(x: arb) -> arb:
    """Return the Mills ratio as the sum over k >= 0 of (-1)^k (2k - 1)!! / x^(2k + 1).

    The first omitted term bounds the rest. For such a large x, the function erfc of balls is
    useless, because it loses all digits for exponents in the millions.
    """
    term = 1 / x
    total, small, k = arb(0), term * arb(2) ** -ctx.prec, 0
    # Terms fall up to 2k + 1 = x^2. They alternate, so the first omitted term bounds the rest.
    while term.abs_lower() > small and (2 * k + 1) < x * x:
        total += term
        k += 1
        term *= -(2 * k - 1) / (x * x)
    return total + arb(0, term.abs_upper())
