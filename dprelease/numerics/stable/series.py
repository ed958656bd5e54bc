"""The asymptotic series of the tails.

With a_k = (-1)^(k+1) Gamma(alpha k) / k! sin(pi alpha k / 2) / pi:

sf(x)  = sum over 1 <= k < n of a_k x^(-alpha k) + rest,
pdf(x) = sum over 1 <= k < n of alpha k a_k x^(-alpha k - 1) + rest.

On the ray t = r exp(i theta), theta = pi / (2 alpha), Re t^alpha = 0, so |exp(-t^alpha) - its first
n terms| <= r^(alpha n) / n!, and integrating that against exp(-x r sin theta) gives
|rest| <= Gamma(alpha n) / (pi n!) (x sin theta)^(-alpha n), and for the density
|rest| <= Gamma(alpha n + 1) / (pi n!) (x sin theta)^(-alpha n - 1).

Zolotarev 1986, "One-dimensional stable distributions", section 2.5. Zawacki and Abed's eq. (25)
lacks the 1 / k!.
"""

from __future__ import annotations

import math

from flint import arb, ctx


def coefficient(alpha: arb, k: int) -> arb:
    """Return a ball around a_k."""
    sign = 1 if k % 2 else -1
    angle = alpha * k / 2
    return sign * (alpha * k).gamma() / arb(k).fac() * angle.sin_pi() / arb.pi()


def terms_needed(alpha: float, x: float, bits: int) -> int | None:
    """Return about how many terms have a relative rest below 2**-bits; None if no number has."""
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


def tails(alpha: arb, x: arb, n: int) -> tuple[arb, arb]:
    """Return balls around pdf and sf at x > 0: n - 1 terms and the bound of the rest."""
    power = x**-alpha
    total_f, total_g, factor = arb(0), arb(0), arb(1)
    for k in range(1, n):
        factor *= power
        term = coefficient(alpha, k) * factor
        total_g += term
        total_f += alpha * k * term
    ray = x * (arb.pi() / (2 * alpha)).sin()
    size = (alpha * n).gamma() / (arb.pi() * arb(n).fac()) * ray ** (-alpha * n)
    rest_g = arb(0, size.abs_upper())
    rest_f = arb(0, (size * alpha * n / ray).abs_upper())
    return total_f / x + rest_f, total_g + rest_g


def float_coefficients(alpha: float, n: int) -> list[float]:
    """Return a_1 .. a_(n - 1) as floats."""
    with ctx.workprec(96):
        exact = arb(alpha)
        return [float(coefficient(exact, k)) for k in range(1, n)]
