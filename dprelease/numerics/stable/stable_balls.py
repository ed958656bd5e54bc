"""Rigorous balls around the stable density and survival function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from flint import acb, arb, ctx

from dprelease.system.deferred_signals import reraise_handler_errors

# The asymptotic series of the density and of the survival function of stable noise.
#
# With a_k = (-1)^(k+1) Gamma(alpha k) / k! sin(pi alpha k / 2) / pi:
#
# sf(x)  = sum over 1 <= k < n of a_k x^(-alpha k) + rest,
# pdf(x) = sum over 1 <= k < n of alpha k a_k x^(-alpha k - 1) + rest.
#
# On the ray t = r exp(i theta) with theta = pi / (2 alpha), the real part of t^alpha is 0. So
# exp(-t^alpha) differs from its first n terms by at most r^(alpha n) / n!. Integrating this bound
# times exp(-x r sin theta) yields, for the survival function,
# |rest| <= Gamma(alpha n) / (pi n!) (x sin theta)^(-alpha n), and for the density
# |rest| <= Gamma(alpha n + 1) / (pi n!) (x sin theta)^(-alpha n - 1).
#
# The source is Zolotarev 1986, "One-dimensional stable distributions", section 2.5. Eq. (25) of
# Zawacki and Abed lacks the factor 1 / k!.


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


SPARE_BITS = 24
MOST_BITS = 1 << 13


def pdf_ball(alpha: float, x: arb) -> arb:
    """Return a ball around the density at x >= 0 for alpha in [1, 2].

    The ball has the precision of the flint context.
    """
    if alpha == 1.0:
        return 1 / (arb.pi() * (1 + x * x))
    if alpha == 2.0:
        return (-x * x / 4).exp() / (2 * arb.pi().sqrt())
    return _evaluate_precisely(alpha, x, 0, _density)


def sf_ball(alpha: float, x: arb) -> arb:
    """Return a ball around P(X > x) for x >= 0 and alpha in [1, 2].

    The ball has the precision of the flint context.
    """
    if alpha == 1.0:
        return _arccotangent_over_pi(x)
    if alpha == 2.0:
        return (x / 2).erfc() / 2
    return _evaluate_precisely(alpha, x, 1, _tail)


def _evaluate_precisely(
    alpha: float, x: arb, index: int, integral: Callable[[arb, arb], arb]
) -> arb:
    """Return the result of the series or of the integral, with more bits against cancellation.

    `index` is the position of the function in the result of `density_and_tail_balls`.
    """
    target_precision = ctx.prec
    near = float(x)
    terms = terms_needed(alpha, near, target_precision + SPARE_BITS)
    extra = SPARE_BITS + int(2 * alpha * math.log2(1 + near))
    while True:
        with ctx.workprec(target_precision + extra):
            exact = arb(alpha)
            enclosed = (
                density_and_tail_balls(exact, x, terms)[index] if terms else integral(exact, x)
            )
        # If the ball `x` is wide, the result is wide at any precision.
        hopeless = x != 0 and x.rel_accuracy_bits() < target_precision + SPARE_BITS
        if enclosed.rel_accuracy_bits() >= target_precision or hopeless or extra > MOST_BITS:
            return enclosed
        # The rest of the asymptotic series does not shrink with more bits, so the integral is next.
        extra, terms = 2 * extra, None


def _arccotangent_over_pi(x: arb) -> arb:
    """Return the arccotangent of x >= 0, divided by pi."""
    return (1 / x).atan() / arb.pi() if x > 1 else arb(1) / 2 - x.atan() / arb.pi()


@dataclass(frozen=True)
class _Path:
    """The path of integration t = exp(v + i theta), theta = pi / (4 alpha), `low` <= v <= `high`.

    On this path, the real parts of -i x t and of t^alpha are positive. Let end = exp(high). For
    r = |t| >= end, the integrand of the density, as a function of r, is at most exp(-rate r),
    because r^alpha >= end^(alpha - 1) r.
    """

    alpha: arb
    x: arb
    theta: arb
    low: float
    high: float

    @classmethod
    def of(cls, alpha: arb, x: arb) -> Self:
        """Return a path that omits less than 2**-bits of the integral, at the context's bits."""
        bits = ctx.prec
        low = -(bits * math.log(2) + 8) - math.log(1 + float(x))
        high = _log_end_of_path(float(alpha), float(x), bits)
        return cls(alpha, x, arb.pi() / (4 * alpha), low, high)

    def integral(self, factor: Callable[[acb], acb]) -> acb:
        """Return a ball around the integral of factor(v) exp(i x t - t^alpha) dv over the path."""
        spin = acb(0, 1) * acb(0, self.theta).exp() * self.x
        turn = (acb(0, self.theta) * self.alpha).exp()

        def integrand(v: acb, _analytic: bool) -> acb:
            """Return the integrand on the path, at the logarithm v of the distance."""
            return factor(v) * (spin * v.exp() - turn * (v * self.alpha).exp()).exp()

        with reraise_handler_errors():  # flint raises SystemError instead
            return acb.integral(integrand, self.low, self.high, abs_tol=arb(2) ** -ctx.prec)

    @property
    def bound_beyond_end(self) -> arb:
        """Return a bound of the integral of exp(-rate r) dr from the end of the path on."""
        end = arb(self.high).exp()
        rate = self.x * self.theta.sin() + end ** (self.alpha - 1) * (arb.pi() / 4).cos()
        return (-rate * end).exp() / rate


def _density(alpha: arb, x: arb) -> arb:
    """Return the density: the real part of the integral of exp(i x t - t^alpha) dt, over pi."""
    path = _Path.of(alpha, x)
    turn = acb(0, path.theta).exp()
    along_path = path.integral(lambda v: turn * v.exp()).real
    rest = arb(path.low).exp() + path.bound_beyond_end
    return (along_path + arb(0, rest.abs_upper())) / arb.pi()


def _tail(alpha: arb, x: arb) -> arb:
    """Return P(X > x): the real part of the integral of (i / t) exp(i x t - t^alpha) dt, over pi.

    The pole at zero contributes pi / 2 - theta. Below `low` the integrand, apart from an imaginary
    constant, is at most |i x t - t^alpha| in size, because |exp(z) - 1| <= |z| there.
    """
    path = _Path.of(alpha, x)
    along_path = path.integral(lambda _: acb(0, 1)).real + arb.pi() / 2 - path.theta
    start, end = arb(path.low).exp(), arb(path.high).exp()
    rest = start * x + start**alpha + path.bound_beyond_end / end
    return (along_path + arb(0, rest.abs_upper())) / arb.pi()


def _log_end_of_path(alpha: float, x: float, bits: int) -> float:
    """Return the ln r above which the integrand is below 2**-bits."""
    goal = bits * math.log(2) + 8
    slope, curve = x * math.sin(math.pi / (4 * alpha)), math.sqrt(0.5)
    low, high = -800.0, math.log(2 * goal)
    for _ in range(60):
        middle = (low + high) / 2
        r = math.exp(middle)
        low, high = (low, middle) if slope * r + curve * r**alpha > goal else (middle, high)
    return high
