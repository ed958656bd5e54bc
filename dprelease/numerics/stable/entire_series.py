"""The power series of the stable density and distribution function, fast for many points.

For 1 < alpha <= 2 and all x, with c_k = Gamma((2k + 1) / alpha) / (pi alpha (2k)!),

pdf(x)          = sum over k >= 0 of (-1)^k c_k x^(2k),
1/2 - sf(x)     = sum over k >= 0 of (-1)^k c_k x^(2k + 1) / (2k + 1).

Terms first grow and cancel, so precision grows with x; far from 0, the asymptotic series of
`stable_balls.py` is faster. With z = (2k + 1) / alpha and d = 2 / alpha, Gamma is log-convex, so
Gamma(z + d) <= Gamma(z) z (z + 1)^(d - 1). So a term is at most q_k times the term before it, with
q_k = (z + 1)^(d - 1) x^2 / (alpha (2k + 2)), which falls with k. Behind a term with q_k <= 1/2, the
rest is at most twice the first omitted term.

The source of the series is Zolotarev 1986, "One-dimensional stable distributions", section 2.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb, arb_poly, ctx

from dprelease.numerics.balls import ball
from dprelease.numerics.stable.stable_balls import pdf_ball, sf_ball

SPARE_BITS = 48
PRECISIONS = (192, 384, 768, 1536)
"""Bits of the coefficients; a larger x needs more."""

LEAST_ALPHA = 1.2
"""The smallest alpha for which the series is used, because it has few terms."""


@dataclass(frozen=True)
class _Series:
    """Coefficients at one precision, with the first omitted term at `largest`.

    `density` and `central` are polynomials in -x^2; the latter is (1/2 - sf(x)) / x.
    """

    density: arb_poly
    central: arb_poly
    omitted: arb
    terms: int


def density_and_tail(alpha: float, x: Fraction, bits: int) -> tuple[arb, arb]:
    """Return balls around the density and around P(X > x), at x >= 0, with about `bits` bits.

    `alpha` is from 1 to below 2.
    """
    reach = _largest_term(alpha, float(x)) + bits + SPARE_BITS
    for precision in PRECISIONS:
        if reach <= precision:
            return _evaluate(alpha, x, precision)
    with ctx.workprec(2 * bits):
        at = ball(x)
    with ctx.workprec(bits):
        return pdf_ball(alpha, at), sf_ball(alpha, at)


def _evaluate(alpha: float, x: Fraction, precision: int) -> tuple[arb, arb]:
    """Return both functions from the series with coefficients of this precision."""
    largest = _largest_argument(alpha, precision)
    series = _series(alpha, precision)
    with ctx.workprec(precision):
        at = ball(x)
        square = at * at
        omitted = series.omitted * (at / largest) ** (2 * series.terms)
        # The radius of `central` is the same: its terms are smaller by 1 / (2k + 1).
        rest = arb(0, (2 * omitted).abs_upper())
        density = series.density(-square) + rest
        central = at * (series.central(-square) + rest)
        return density, arb(1) / 2 - central


def _log_term(alpha: float, x: float, k: int) -> float:
    """Return log2 of a term of the density, approximately."""
    log = math.lgamma((2 * k + 1) / alpha) - math.lgamma(2 * k + 1) + 2 * k * math.log(x)
    return log / math.log(2)


@lru_cache(maxsize=2**14)
def _largest_term(alpha: float, x: float) -> float:
    """Return approximately log2 of the largest term; infinity for far more terms than needed."""
    if alpha < LEAST_ALPHA:
        return math.inf
    if x <= 1:
        return 0.0
    # The quotient of two terms is 1 near the k with (2k / alpha)^(2 / alpha) x^2 = (2k)^2.
    log_k = (2 * math.log(x) - 2 / alpha * math.log(alpha)) / (2 - 2 / alpha)
    if log_k > math.log(2 * PRECISIONS[-1]):
        return math.inf
    return max(0.0, _log_term(alpha, x, max(1, round(math.exp(log_k) / 2))) + 2)


@lru_cache(maxsize=64)
def _largest_argument(alpha: float, precision: int) -> arb:
    """Return about the largest x for which coefficients of this precision are used."""
    low, high = 1.0, 2.0**20
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _largest_term(alpha, middle) <= precision else (low, middle)
    return arb(high)


@lru_cache(maxsize=32)
def _series(alpha: float, precision: int) -> _Series:
    """Return the coefficients up to a term that is negligible at all arguments."""
    largest = _largest_argument(alpha, precision)
    near = float(largest)
    terms = 2
    while _log_term(alpha, near, terms) > -precision or _growth(alpha, near, terms) > 0.4:
        terms += 1 + terms // 16
    with ctx.workprec(precision):
        exact = arb(alpha)
        coefficients = [
            ((2 * k + 1) / exact).gamma() / (arb.pi() * exact * arb(2 * k).fac())
            for k in range(terms + 1)
        ]
        central = [one / (2 * k + 1) for k, one in enumerate(coefficients)]
        omitted = coefficients[terms] * largest ** (2 * terms)
    return _Series(arb_poly(coefficients[:terms]), arb_poly(central[:terms]), omitted, terms)


def _growth(alpha: float, x: float, k: int) -> float:
    """Return q_k, which bounds a term as a multiple of the term before it."""
    z = (2 * k + 1) / alpha
    return float((z + 1) ** (2 / alpha - 1) * x * x / (alpha * (2 * k + 2)))
