"""The asymptotic series of the density and of the survival function of stable noise.

With a_k = (-1)^(k+1) Gamma(alpha k) / k! sin(pi alpha k / 2) / pi:

sf(x)  = sum over 1 <= k < n of a_k x^(-alpha k) + rest,
pdf(x) = sum over 1 <= k < n of alpha k a_k x^(-alpha k - 1) + rest.

On the ray t = r exp(i theta) with theta = pi / (2 alpha), the real part of t^alpha is 0. So
exp(-t^alpha) differs from its first n terms by at most r^(alpha n) / n!. Integrating this bound
times exp(-x r sin theta) yields, for the survival function,
|rest| <= Gamma(alpha n) / (pi n!) (x sin theta)^(-alpha n), and for the density
|rest| <= Gamma(alpha n + 1) / (pi n!) (x sin theta)^(-alpha n - 1).

The source is Zolotarev 1986, "One-dimensional stable distributions", section 2.5. Eq. (25) of
Zawacki and Abed lacks the factor 1 / k!.
"""

from __future__ import annotations

import math

from flint import arb, ctx


def coefficient(alpha: arb, k: int) -> arb:
    """Return a ball around the coefficient a_k."""
    sign = 1 if k % 2 else -1
    angle = alpha * k / 2
    return sign * (alpha * k).gamma() / arb(k).fac() * angle.sin_pi() / arb.pi()


def terms_needed(alpha: float, x: float, bits: int) -> int | None:
    """Return about the least number of terms whose rest is below 2**-bits times the first term.

    The result is None if no number of terms has such a rest.
    """
    reach = math.log(x * math.sin(math.pi / (2 * alpha))) if x > 0 else -1.0
    if reach <= 0:
        return None
    first = math.lgamma(alpha) + math.log(math.sin(math.pi * (2 - alpha) / 2)) - alpha * math.log(x)
    goal = first - bits * math.log(2)
    best = math.inf
    for n in range(2, 4 * bits):
        rest = math.lgamma(alpha * n) - math.lgamma(n + 1) - alpha * n * reach
        if rest < goal:
            return n
        if rest > best:  # the series diverges from here on
            return None
        best = rest
    return None


def density_and_tail_balls(alpha: arb, x: arb, n: int) -> tuple[arb, arb]:
    """Return balls around the density and the survival function at x > 0.

    They are the sums of n - 1 terms with the bounds of the rests as radii.
    """
    power = x**-alpha
    total_f, total_g, factor = arb(0), arb(0), arb(1)
    for k in range(1, n):
        factor *= power
        term = coefficient(alpha, k) * factor
        total_g += term
        total_f += alpha * k * term
    ray = x * (arb.pi() / (2 * alpha)).sin()
    bound = (alpha * n).gamma() / (arb.pi() * arb(n).fac()) * ray ** (-alpha * n)
    rest_g = arb(0, bound.abs_upper())
    rest_f = arb(0, (bound * alpha * n / ray).abs_upper())
    return total_f / x + rest_f, total_g + rest_g


def float_coefficients(alpha: float, n: int) -> list[float]:
    """Return the coefficients a_1 ... a_(n - 1) as floats."""
    with ctx.workprec(96):
        exact = arb(alpha)
        return [float(coefficient(exact, k)) for k in range(1, n)]
