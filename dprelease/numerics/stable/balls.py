"""Rigorous balls around the stable density and survival function."""

from __future__ import annotations

import math

from flint import acb, arb, ctx

from dprelease.numerics.stable import series

SPARE_BITS = 24
MOST_BITS = 1 << 13


def pdf_ball(alpha: float, x: arb) -> arb:
    """Return a ball around the density at x >= 0, alpha in [1, 2], to the context's precision."""
    return _evaluate(alpha, x)[0]


def sf_ball(alpha: float, x: arb) -> arb:
    """Return a ball around P(X > x), x >= 0, alpha in [1, 2], to the context's precision."""
    return _evaluate(alpha, x)[1]


def _evaluate(alpha: float, x: arb) -> tuple[arb, arb]:
    if alpha == 1.0:
        return 1 / (arb.pi() * (1 + x * x)), _arctangent(x)
    if alpha == 2.0:
        return (-x * x / 4).exp() / (2 * arb.pi().sqrt()), (x / 2).erfc() / 2
    wanted = ctx.prec
    near = float(x)
    terms = series.terms_needed(alpha, near, wanted + SPARE_BITS)
    extra = SPARE_BITS + int(2 * alpha * math.log2(1 + near))
    while True:
        with ctx.workprec(wanted + extra):
            exact = arb(alpha)
            found = series.tails(exact, x, terms) if terms else _integrals(exact, x)
        accurate = all(value.rel_accuracy_bits() >= wanted for value in found)
        # A ball `x` that is itself wide gives wide answers at any precision.
        hopeless = x.rel_accuracy_bits() < wanted + SPARE_BITS and x != 0
        if accurate or hopeless or extra > MOST_BITS:
            return found
        extra, terms = 2 * extra, None


def _arctangent(x: arb) -> arb:
    return (1 / x).atan() / arb.pi() if x > 1 else arb(1) / 2 - x.atan() / arb.pi()


def _integrals(alpha: arb, x: arb) -> tuple[arb, arb]:
    """Return pdf and sf by rigorous quadrature along t = exp(v + i theta), theta = pi / (4 alpha).

    There both Re(-i x t) and Re(t^alpha) are positive. The sf integrand i exp(i x t - t^alpha) dv
    starts at the quarter turn that is left of the pole of i / t: 1/2 - theta / pi.

    Beyond the ends: exp(z) - 1, z = i x t - t^alpha, is at most |z| in size for Re z <= 0, which
    bounds the real part of the sf integrand below -L; for r >= R, |integrand| <= exp(-rate r) with
    the rate of the comment below.
    """
    bits = ctx.prec
    theta = arb.pi() / (4 * alpha)
    turn = acb(0, theta).exp()
    spin, power_turn = acb(0, 1) * turn * x, (acb(0, theta) * alpha).exp()

    def core(v: acb) -> acb:
        return (spin * v.exp() - power_turn * (v * alpha).exp()).exp()

    low = -(bits * math.log(2) + 8) - math.log(1 + float(x))
    high = _end(float(alpha), float(x), bits)
    tiny = arb(2) ** -bits
    f = acb.integral(lambda v, _: turn * v.exp() * core(v), low, high, abs_tol=tiny)
    g = acb.integral(lambda v, _: acb(0, 1) * core(v), low, high, abs_tol=tiny)
    start, end = arb(low).exp(), arb(high).exp()
    # For r >= end: x r sin(theta) + r^alpha cos(pi / 4) >= rate r, as alpha >= 1.
    rate = x * theta.sin() + end ** (alpha - 1) * (arb.pi() / 4).cos()
    beyond = (-rate * end).exp() / rate
    rest_f = (start + beyond).abs_upper()
    rest_g = (start * x + start**alpha + beyond / end).abs_upper()
    turned = arb.pi() / 2 - theta
    return (f.real + arb(0, rest_f)) / arb.pi(), (g.real + turned + arb(0, rest_g)) / arb.pi()


def _end(alpha: float, x: float, bits: int) -> float:
    """Return ln r beyond which the integrand is below 2**-bits."""
    goal = bits * math.log(2) + 8
    slope, curve = x * math.sin(math.pi / (4 * alpha)), math.sqrt(0.5)
    low, high = -800.0, math.log(2 * goal)
    for _ in range(60):
        middle = (low + high) / 2
        r = math.exp(middle)
        low, high = (low, middle) if slope * r + curve * r**alpha > goal else (middle, high)
    return high
