"""OSGT, rounded: the density of the paper by ball quadrature over the cell and over the line."""

from flint import acb, arb, ctx

from dprelease.mechanisms.base import Mechanism


def _area(law: Mechanism, low: arb, high: arb) -> arb:
    """Return the integral of exp(-y^2 / (2 s^2) - m y / s^2) over [low, high], 0 <= low."""
    sigma = arb(law.scale)
    m = arb(law.ratio) * sigma

    def density(y: acb, _analytic: bool) -> acb:
        return (-(y * y) / (2 * sigma**2) - m * y / sigma**2).exp()

    return acb.integral(density, low, high, abs_tol=arb(2) ** -ctx.prec).real


def mass(law: Mechanism, k: int) -> arb:
    far = arb(law.scale) * 25  # beyond: less than exp(-312) of a half
    whole = 2 * _area(law, arb(0), far)
    if k == 0:
        return 2 * _area(law, arb(0), arb(1) / 2) / whole
    low, high = (arb(2 * abs(k) + side) / 2 for side in (-1, 1))
    return _area(law, low, high) / whole
