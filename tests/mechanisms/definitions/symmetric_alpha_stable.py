"""Stable noise, rounded: the Fourier integral of a cell, on the real axis by ball quadrature.

P(K = k) = (2 / pi) times the integral over t > 0 of cos(k t) sin(t / 2) / t exp(-(scale t)^alpha).
"""

from flint import acb, arb, ctx

from dprelease.mechanisms.base import Mechanism


def mass(law: Mechanism, k: int) -> arb:
    scale, alpha = arb(law.scale), arb(law.alpha)
    # In v = ln t the integrand is entire, and decays like t below and exp(-t^alpha) above.
    bits = ctx.prec
    end = (arb(bits) * 0.7 + 10) ** (1 / alpha) / scale

    def integrand(v: acb, _analytic: bool) -> acb:
        t = v.exp()
        damping = (-((v + acb(scale).log()) * alpha).exp()).exp()
        return (t * k).cos() * (t / 2).sin() * damping

    low = -arb(bits) * 0.7 - 40
    found = acb.integral(integrand, low, end.log(), abs_tol=arb(2) ** -bits).real
    return 2 * found / arb.pi() + arb(0, arb(2) ** (10 - bits))
