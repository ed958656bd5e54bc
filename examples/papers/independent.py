"""The same quantities by other roads: quadrature of the definitions, with SciPy and mpmath alone.

Nothing of the package is used here, so that what agrees was computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

Law = Callable[[float], float]


def stable_density(alpha: float, x: float) -> float:
    """Return the density of the stable law, from its characteristic function."""
    return _fourier(alpha, x, "cos", lambda t: math.exp(-(t**alpha)))


def stable_slope(alpha: float, x: float) -> float:
    """Return the derivative of the density."""
    return -_fourier(alpha, x, "sin", lambda t: t * math.exp(-(t**alpha)))


def stable_tail(alpha: float, x: float) -> float:
    """Return P(X > x), x > 0: one half less the integral of exp(-t^alpha) sin(x t) / t."""
    # The sine of the integral itself tends to a half: what is left has no pole at 0.
    return -_fourier(alpha, x, "sin", lambda t: math.expm1(-(t**alpha)) / t if t else 0.0)


def _fourier(alpha: float, x: float, kind: str, f: Law) -> float:
    if kind == "sin" and f(50.0) != 0:  # falls like 1 / t: over a half line
        value, _ = quad(f, 0, math.inf, weight="sin", wvar=x, limlst=400, epsabs=1e-13)
        return value / math.pi
    end = 40.0 ** (1 / alpha)
    value, _ = quad(f, 0, end, weight=kind, wvar=x, limit=4000, epsabs=1e-14, epsrel=1e-10)
    return value / math.pi


def stable_loss(alpha: float, gamma: float) -> tuple[float, float]:
    """Return the largest loss at sensitivity 1 and where it is: ln p(x) - ln p(x - 1), x <= 0."""

    def less(x: float) -> float:
        near, far = (stable_density(alpha, one / gamma) for one in (x, x + 1))
        return -math.log(near / far)

    # The loss rises to one summit and falls again.
    found = minimize_scalar(
        less, bounds=(0, 8 * gamma + 1), method="bounded", options={"xatol": 1e-7}
    )
    return -float(found.fun), -float(found.x)


def stable_error(alpha: float) -> float:
    """Return E |X| at scale 1: (2 / pi) times the integral of (1 - exp(-t^alpha)) / t^2."""
    with mpmath.workdps(20):
        a = mpmath.mpf(alpha)
        # With t = u^8 the integrand has no pole at 0.
        near = mpmath.quad(lambda u: -mpmath.expm1(-(u ** (8 * a))) * 8 / u**9, [0, 0.5, 0.8, 1])
        far = 1 - mpmath.quad(lambda t: mpmath.exp(-(t**a)) / t**2, [1, 3, mpmath.inf])
        return float(2 / mpmath.pi * (near + far))


def offset_law(m: float, sigma2: float) -> Law:
    """Return the density of offset-symmetric Gaussian tails, normalised by quadrature."""
    end = 60 * math.sqrt(sigma2)

    def bare(y: float) -> float:
        return math.exp(-(y * y + 2 * m * abs(y)) / (2 * sigma2))

    whole = 2 * quad(bare, 0, end, epsabs=0, epsrel=1e-13, limit=400)[0]
    return lambda y: bare(y) / whole


def moment(law: Law, power: float, low: float, high: float) -> float:
    """Return E |X|^power of a law that is smooth on either side of zero."""
    halves = [(low, 0.0), (0.0, high)]
    return sum(
        quad(lambda x: abs(x) ** power * law(x), *ends, epsabs=0, epsrel=1e-12, limit=400)[0]
        for ends in halves
    )


def offset_delta(m: float, sigma2: float, epsilon: float) -> float:
    """Return the hockey-stick divergence at sensitivity 1: its integrand is not 0 below a point."""
    law = offset_law(m, sigma2)
    low, high = -60 * math.sqrt(sigma2), 1.0  # the loss falls all along

    def gain(y: float) -> float:
        return law(y) - math.exp(epsilon) * law(y - 1)

    left, right = low, high
    for _ in range(200):
        middle = (left + right) / 2
        left, right = (middle, right) if _loss(middle, m, sigma2) > epsilon else (left, middle)
    start = left - 12 * math.sqrt(sigma2)
    breaks = [point for point in (0.0,) if start < point < left]
    return quad(gain, start, left, points=breaks or None, epsabs=0, epsrel=1e-10, limit=400)[0]


def _loss(y: float, m: float, sigma2: float) -> float:
    """Return ln p(y) - ln p(y - 1)."""
    here, there = ((abs(one) + m) ** 2 for one in (y, y - 1))
    return (there - here) / (2 * sigma2)


def offset_renyi(m: float, sigma2: float, order: float) -> float:
    """Return the Rényi divergence at sensitivity 1, by quadrature in mpmath."""
    with mpmath.workdps(30):
        a, s2, offset = mpmath.mpf(order), mpmath.mpf(sigma2), mpmath.mpf(m)

        def power(y: mpmath.mpf) -> mpmath.mpf:
            exponent = a * (abs(y) + offset) ** 2 + (1 - a) * (abs(y - 1) + offset) ** 2
            return mpmath.exp(-exponent / (2 * s2))

        centre, width = min(1 - a + offset, mpmath.mpf(0)), 14 * mpmath.sqrt(s2)
        cuts = [centre - width, centre, 0, 1, width] if centre < 0 else [-width, 0, 1, width]
        root = mpmath.sqrt(2 * mpmath.pi * s2)
        norm = root * mpmath.erfc(offset / mpmath.sqrt(2 * s2))
        return float(mpmath.log(mpmath.quad(power, cuts) / norm) / (a - 1))


def normal_delta(mu: float, epsilon: float) -> float:
    """Return delta of normal noise, the closed form of Balle and Wang in 40 digits."""
    with mpmath.workdps(40):
        d, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(d / 2 - e / d) - mpmath.exp(e) * mpmath.ncdf(-d / 2 - e / d))
