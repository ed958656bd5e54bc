"""Density and survival function at many points, by an integral whose parts are all positive.

f(x) = Re (1/pi) integral of exp(i x t - t^alpha) dt, from 0 to infinity, is taken from 0 up to i c
and then parallel to the real axis. On the first part, t = i y, the integrand is
exp(-x y + kappa y^alpha) sin(sigma y^alpha), kappa = -cos(pi alpha / 2), sigma = sin(pi alpha / 2):
positive while sigma y^alpha < pi. It is the power tail; the second part, near its saddle point, is
the Gaussian core. Neither is a small difference of large numbers, so that floats keep their digits
for every alpha from 1 to 2, in the middle and far out. The survival function has the factor i / t
besides.
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.numerics.quadrature import gauss

VERTICAL, HORIZONTAL = 64, 112
"""Gauss points on either part."""

FLATTEN = 4
"""y = c u^4: the branch point y^alpha at zero becomes smooth enough for Gauss points."""

LEAST_HEIGHT = 0.5
END, FAR = 45.0, 62.0
"""Exponents at which the second and the first integrand no longer count.

The first has to reach further: near alpha 2 the power tail is small beside its own first factor.
"""


def density_and_tail(alpha: float, x: Floats) -> tuple[Floats, Floats]:
    """Return pdf and sf at x (n,), x >= 0, 1 < alpha < 2; relative errors near 1e-13."""
    kappa = math.cos(math.pi * (2 - alpha) / 2)  # 2 - alpha is exact: no digit is lost near 2
    sigma = math.sin(math.pi * (2 - alpha) / 2)
    saddle = np.full_like(x, np.inf)
    with np.errstate(over="ignore", divide="ignore"):
        if kappa > 0:
            saddle = (x / (alpha * kappa)) ** (1 / (alpha - 1))
        height = np.maximum(np.minimum(saddle, (3 / sigma) ** (1 / alpha)), LEAST_HEIGHT)
        reach = FAR / (x * (1 - 0.999 / alpha))
    f, g = _up(alpha, kappa, sigma, x, np.minimum(height, reach))
    across = height <= reach
    more_f, more_g = _along(alpha, x[across], height[across])
    f[across] += more_f
    g[across] += more_g
    return f / math.pi, g / math.pi


def _up(alpha: float, kappa: float, sigma: float, x: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Return the integrals from 0 to i end."""
    nodes, weights = gauss(VERTICAL)
    u = (nodes + 1) / 2
    y = end[:, None] * u**FLATTEN
    power = y**alpha
    mass = np.exp(kappa * power - x[:, None] * y) * np.sin(sigma * power)
    mass *= end[:, None] * (FLATTEN * u ** (FLATTEN - 1) * weights / 2)
    f: Floats = mass.sum(axis=1)
    mass /= y
    g: Floats = mass.sum(axis=1)
    return f, g


def _along(alpha: float, x: Floats, height: Floats) -> tuple[Floats, Floats]:
    """Return the integrals from i height to infinity."""
    nodes, weights = gauss(HORIZONTAL)
    length = END ** (1 / alpha)
    s, h = length * (nodes + 1) / 2, height[:, None]
    square = s * s + h * h
    # t = s + i h by its logarithm: a complex power takes four times as long.
    exponent = (alpha / 2) * np.log(square) + (1j * alpha) * np.arctan(h / s)
    np.exp(exponent, out=exponent)
    np.subtract(x[:, None] * (1j * s - h), exponent, out=exponent)
    values = np.exp(exponent, out=exponent)
    values *= length * weights / 2
    f: Floats = values.real.sum(axis=1)
    g: Floats = ((values.real * h - values.imag * s) / square).sum(axis=1)  # Re i values / t
    return f, g
