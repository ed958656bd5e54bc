"""Fast float64 functions of stable noise: piecewise polynomials, and the series far out.

The nodes of the polynomials are the density and survival function at many points, computed from an
integral whose parts are all positive.

f(x) = Re (1/pi) integral of exp(i x t - t^alpha) dt, from 0 to infinity, is taken from 0 up to i c
and then parallel to the real axis. On the first part, t = i y, the integrand is exp(-x y + kappa
y^alpha) sin(sigma y^alpha), kappa = -cos(pi alpha / 2), sigma = sin(pi alpha / 2): positive while
sigma y^alpha < pi. It is the power tail; the second part, near its saddle point, is the Gaussian
core. Neither is a small difference of large numbers, so floats stay accurate for every alpha from 1
to 2, in the middle and far out. The survival function has the additional factor i / t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.numerics.quadrature import gauss
from dprelease.numerics.stable import series

VERTICAL, HORIZONTAL = 64, 112
"""Gauss points on either part."""

FLATTEN = 4
"""y = c u^4: the branch point y^alpha at zero becomes smooth enough for Gauss points."""

LEAST_HEIGHT = 0.5
END, FAR = 45.0, 62.0
"""Exponents at which the second and the first integrand are negligible.

The first is larger, because near alpha 2 the power tail is small relative to its first factor.
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
    f, g = _cumulative_integrals(alpha, kappa, sigma, x, np.minimum(height, reach))
    across = height <= reach
    more_f, more_g = _along(alpha, x[across], height[across])
    f[across] += more_f
    g[across] += more_g
    return f / math.pi, g / math.pi


def _cumulative_integrals(
    alpha: float, kappa: float, sigma: float, x: Floats, end: Floats
) -> tuple[Floats, Floats]:
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


LARGEST_ALPHA = 2.0 - 2.0**-20
"""Between here and 2 the power tail is too small beside the Gaussian core for the stated errors."""

RELATIVE_ERROR = 2.0**-40
"""Bound on the relative error of pdf and sf for |x| up to 1e12; the tests compare with balls."""

QUANTILE_RELATIVE_ERROR = 2.0**-41
"""Bound on |error| / (1 + x) of the quantile for u >= 2**-20; smaller u give a guess."""

CHUNK = 2**14
PANELS, QUANTILE_PANELS, DEGREE = 512, 256, 10
COARSE_PANELS, COARSE_DEGREE = 32, 16
"""Panels for computing integrals: few, because integrals take most of the time of a new alpha.

Later evaluations use shorter polynomials, on `PANELS` panels.
"""

NEAR_TWO = 1.99
"""Above this alpha, where core and power tail meet more sharply, coarse panels are doubled."""

SERIES_TERMS = 13
LEAST_SERIES = 40.0
DEEPEST = 14.0
"""Largest -ln(2u) that the quantile is tabulated for: u near 4e-7."""

LARGEST = 1e300


def pdf(alpha: float, x: Floats) -> Floats:
    """Return the density at x (n,)."""
    return np.exp(log_pdf(alpha, x))


def log_pdf(alpha: float, x: Floats) -> Floats:
    """Return the logarithm of the density at x (n,).

    Raises
    ------
    ValueError
        If alpha is not in [1, LARGEST_ALPHA] and not 2.
    """
    x = np.abs(x)
    if alpha == 1.0:
        return np.asarray(-np.log1p(x * x) - math.log(math.pi))
    if alpha == 2.0:
        return np.asarray(-x * x / 4 - math.log(2 * math.sqrt(math.pi)))
    table = _tables(alpha)
    return _in_chunks(table.log_pdf, x)


def sf(alpha: float, x: Floats) -> Floats:
    """Return P(X > x) at x (n,), with relative precision in the tail; raise as `log_pdf`."""
    if alpha == 1.0:
        return np.arctan2(1.0, x) / math.pi
    if alpha == 2.0:
        from scipy import special  # slow to load; other alphas don't need it

        return np.asarray(special.erfc(x / 2) / 2)
    table = _tables(alpha)
    upper = np.exp(_in_chunks(table.log_sf, np.abs(x)))
    return np.where(x < 0, 1.0 - upper, upper)


def quantile(alpha: float, u: Floats) -> Floats:
    """Return x >= 0 with P(X > x) = u for u (n,) in (0, 1/2]; raise as `log_pdf`."""
    if alpha == 1.0:
        return np.asarray(np.cos(math.pi * u) / np.sin(math.pi * u))
    if alpha == 2.0:
        from scipy import special

        return np.asarray(-math.sqrt(2.0) * special.ndtri(u))
    return _in_chunks(_tables(alpha).quantile, u)


def tail_series(alpha: float) -> tuple[float, ...]:
    """Return a_1, a_2, ... of sf(x) = sum of a_k x^(-alpha k), x from 40 on; 1 < alpha < 2."""
    return _tables(alpha).series


def _in_chunks(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    if len(x) <= CHUNK:
        return function(x)
    values = np.empty_like(x)
    for start in range(0, len(x), CHUNK):
        values[start : start + CHUNK] = function(x[start : start + CHUNK])
    return values


@dataclass(frozen=True)
class Panels:
    """A function on [0, end] as one polynomial on each of many equal panels."""

    per_unit: float
    coefficients: tuple[Floats, ...]
    """From the highest degree down, each (panels,)."""

    def __call__(self, s: Floats) -> Floats:
        """Return the function at s (n,), 0 <= s <= end."""
        place = s * self.per_unit
        panel = place.astype(np.int32)
        np.minimum(panel, len(self.coefficients[0]) - 1, out=panel)
        place -= panel
        place *= 2.0
        place -= 1.0
        value = self.coefficients[0][panel]
        for coefficient in self.coefficients[1:]:
            value *= place
            value += coefficient[panel]
        return value


def _points(degree: int) -> Floats:
    """Return the Chebyshev points, descending, (degree + 1,)."""
    return np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))


def _nodes(end: float, panels: int, degree: int = DEGREE) -> Floats:
    """Return the Chebyshev points of every panel, (panels, degree + 1)."""
    width = end / panels
    return width * (np.arange(panels)[:, None] + (_points(degree) + 1) / 2)


def _to_chebyshev(degree: int) -> Floats:
    """Return the matrix from values at the Chebyshev points to a Chebyshev series."""
    order = np.arange(degree + 1)
    angles = np.pi * (order + 0.5) / (degree + 1)
    matrix: Floats = np.cos(np.outer(angles, order)) * (2 / (degree + 1))
    matrix[:, 0] /= 2
    return matrix


@lru_cache(maxsize=1)
def _to_powers() -> Floats:
    """Return the matrix from a Chebyshev series of `DEGREE` to coefficients of powers."""
    matrix = np.zeros((DEGREE + 1, DEGREE + 1))
    for i in range(DEGREE + 1):
        matrix[i, : i + 1] = np.polynomial.chebyshev.cheb2poly([0.0] * i + [1.0])
    return matrix


@lru_cache(maxsize=2)
def _to_fine(coarse: int) -> Floats:
    """Return the matrix from values at the points of one coarse panel to those of its fine ones."""
    parts = PANELS // coarse
    places = (2 * np.arange(parts)[:, None] + _points(DEGREE) + 1).ravel() / parts - 1
    series_there = np.polynomial.chebyshev.chebvander(places, COARSE_DEGREE)
    matrix: Floats = _to_chebyshev(COARSE_DEGREE) @ series_there.T
    return matrix


def _fit(values: Floats, end: float) -> Panels:
    """Return the polynomials through values (panels, DEGREE + 1) at `_nodes`."""
    # Series first: the product of both matrices is large, and would lose accuracy.
    powers = values @ _to_chebyshev(DEGREE) @ _to_powers()
    columns = tuple(np.ascontiguousarray(powers[:, i]) for i in range(DEGREE, -1, -1))
    return Panels(len(values) / end, columns)


@dataclass(frozen=True)
class _Tables:
    """All tables of one alpha."""

    alpha: float
    start: float
    """Argument from which on the series is used."""
    log_density: Panels
    log_tail: Panels
    series: tuple[float, ...]

    @cached_property
    def inverse(self) -> Panels:
        """Return log1p(x) as a function of -ln(2u): needed only for drawing noise."""
        return _inverse(self)

    def log_pdf(self, x: Floats) -> Floats:
        far = x > self.start
        logarithm = self.log_density(np.log1p(np.minimum(x, self.start)))
        if far.any():
            factors = self.alpha * np.arange(1, SERIES_TERMS)
            logarithm[far] = self._far(x[far], np.array(self.series) * factors) - np.log(x[far])
        return logarithm

    def log_sf(self, x: Floats) -> Floats:
        far = x > self.start
        logarithm = self.log_tail(np.log1p(np.minimum(x, self.start)))
        if far.any():
            logarithm[far] = self._far(x[far], np.array(self.series))
        return logarithm

    def _far(self, x: Floats, coefficients: Floats) -> Floats:
        log_power = -self.alpha * np.log(x)
        power = np.exp(log_power)
        value = np.full_like(x, coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = value * power + coefficient
        return np.log(value) + log_power

    def quantile(self, u: Floats) -> Floats:
        depth = -np.log(2.0 * u)
        deep = depth > DEEPEST
        x = np.expm1(self.inverse(np.clip(depth, 0.0, DEEPEST)))
        if deep.any():
            x[deep] = self._deep(u[deep])
        return x

    def _deep(self, u: Floats) -> Floats:
        """Return the quantile far out, by Newton steps on logarithms from the leading term."""
        goal = np.log(u)
        log_x = np.minimum((math.log(self.series[0]) - goal) / self.alpha, math.log(LARGEST))
        floor = float(self.inverse(np.array([DEEPEST]))[0])
        log_x = np.maximum(log_x, math.log(math.expm1(floor)))
        for _ in range(8):
            x = np.exp(log_x)
            tail = self.log_sf(x)
            slope = -np.exp(self.log_pdf(x) + log_x - tail)
            log_x = np.minimum(log_x - (tail - goal) / slope, math.log(LARGEST))
        return np.exp(log_x)


@lru_cache(maxsize=64)
def _tables(alpha: float) -> _Tables:
    if not 1.0 < alpha <= LARGEST_ALPHA:
        raise ValueError("alpha lies in [1, 2 - 2**-20], or is 2")
    ray = math.sin(math.pi / (2 * alpha))
    settled = alpha / ray * (45 / (alpha - 1)) ** ((alpha - 1) / alpha)
    start = max(LEAST_SERIES, 3 * settled)
    end = math.log1p(start)
    coarse = COARSE_PANELS if alpha <= NEAR_TWO else 2 * COARSE_PANELS
    s = _nodes(end, coarse, COARSE_DEGREE)
    log_density, log_tail = (
        _fit((np.log(values).reshape(s.shape) @ _to_fine(coarse)).reshape(PANELS, DEGREE + 1), end)
        for values in density_and_tail(alpha, np.expm1(s).ravel())
    )
    coefficients = tuple(series.float_coefficients(alpha, SERIES_TERMS))
    return _Tables(alpha, start, log_density, log_tail, coefficients)


def _inverse(table: _Tables) -> Panels:
    """Return log1p(x) by -ln(2u): Newton steps at the nodes, from interpolated values."""
    depth = _nodes(DEEPEST, QUANTILE_PANELS)
    goal = -depth.ravel() - math.log(2.0)
    s = np.linspace(0.0, math.log1p(table.start), 8 * PANELS)
    log_tail = table.log_tail(s)
    x = np.expm1(np.interp(-goal, -log_tail, s))
    beyond = -goal > -log_tail.min()
    if beyond.any():
        x[beyond] = np.exp((math.log(table.series[0]) - goal[beyond]) / table.alpha)
    for _ in range(6):
        tail = table.log_sf(x)
        x = np.maximum(x + (tail - goal) * np.exp(tail - table.log_pdf(x)), 0.0)
    return _fit(np.log1p(x).reshape(depth.shape), DEEPEST)
