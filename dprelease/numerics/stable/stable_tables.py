"""Fast functions of the stable distribution, from piecewise polynomials and the tail series.

The polynomials interpolate the density and the survival function between many points, at which
they are computed from an integral whose parts are all positive.

The density f(x) is the real part of 1/pi times the integral of exp(i x t - t^alpha) dt from 0 to
infinity. The path of integration goes from 0 up to i c, and then parallel to the real axis. On the
vertical part, t = i y, the integrand is exp(-x y + kappa y^alpha) sin(sigma y^alpha), with
kappa = -cos(pi alpha / 2) and sigma = sin(pi alpha / 2). It is positive while sigma y^alpha < pi,
and its integral is the power tail. The horizontal part, near its saddle point, is the Gaussian
core. Neither part is a small difference of large numbers, so floats are accurate for every alpha
from 1 to 2, near 0 and far from 0. The integrand of the survival function has the additional factor
i / t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.numerics.quadrature import gauss_points
from dprelease.numerics.stable.stable_balls import float_coefficients

VERTICAL_POINTS, HORIZONTAL_POINTS = 64, 112
"""Numbers of Gauss points on the vertical and on the horizontal part of the path."""

VERTICAL_POWER = 4
"""Power of u in y = c u^4, which makes the branch point y^alpha at 0 smooth for Gauss points."""

LEAST_HEIGHT = 0.5
HORIZONTAL_EXPONENT, VERTICAL_EXPONENT = 45.0, 62.0
"""Exponents at which the horizontal and the vertical integrand are negligible.

The exponent of the vertical part is larger, because near alpha 2 the power tail is small relative
to the first factor of its integrand.
"""


def density_and_tail(alpha: float, x: Floats) -> tuple[Floats, Floats]:
    """Return the density and the survival function at x (n,), for x >= 0 and 1 < alpha < 2.

    Relative errors are near 1e-13.
    """
    kappa = math.cos(math.pi * (2 - alpha) / 2)  # the float 2 - alpha is exact
    sigma = math.sin(math.pi * (2 - alpha) / 2)
    saddle = np.full_like(x, np.inf)
    with np.errstate(over="ignore", divide="ignore"):
        if kappa > 0:
            saddle = (x / (alpha * kappa)) ** (1 / (alpha - 1))
        # So that sigma y^alpha is at most 3, below pi, where the vertical integrand is positive.
        height = np.maximum(np.minimum(saddle, (3 / sigma) ** (1 / alpha)), LEAST_HEIGHT)
        reach = VERTICAL_EXPONENT / (x * (1 - 0.999 / alpha))
    f, g = _vertical_integrals(alpha, kappa, sigma, x, np.minimum(height, reach))
    across = height <= reach
    more_f, more_g = _horizontal_integrals(alpha, x[across], height[across])
    f[across] += more_f
    g[across] += more_g
    return f / math.pi, g / math.pi


def _vertical_integrals(
    alpha: float, kappa: float, sigma: float, x: Floats, end: Floats
) -> tuple[Floats, Floats]:
    """Return the integrals of both functions along the vertical path from 0 to i `end`."""
    nodes, weights = gauss_points(VERTICAL_POINTS)
    u = (nodes + 1) / 2
    y = end[:, None] * u**VERTICAL_POWER
    power = y**alpha
    mass = np.exp(kappa * power - x[:, None] * y) * np.sin(sigma * power)
    mass *= end[:, None] * (VERTICAL_POWER * u ** (VERTICAL_POWER - 1) * weights / 2)
    f: Floats = mass.sum(axis=1)
    mass /= y
    g: Floats = mass.sum(axis=1)
    return f, g


def _horizontal_integrals(alpha: float, x: Floats, height: Floats) -> tuple[Floats, Floats]:
    """Return the integrals of both functions along the horizontal path from i `height` on."""
    nodes, weights = gauss_points(HORIZONTAL_POINTS)
    length = HORIZONTAL_EXPONENT ** (1 / alpha)
    s, h = length * (nodes + 1) / 2, height[:, None]
    square = s * s + h * h
    # The power of t = s + i h is computed from its logarithm: a complex power takes four times as
    # long.
    exponent = (alpha / 2) * np.log(square) + (1j * alpha) * np.arctan(h / s)
    np.exp(exponent, out=exponent)
    np.subtract(x[:, None] * (1j * s - h), exponent, out=exponent)
    values = np.exp(exponent, out=exponent)
    values *= length * weights / 2
    f: Floats = values.real.sum(axis=1)
    g: Floats = ((values.real * h - values.imag * s) / square).sum(axis=1)  # Re(i values / t)
    return f, g


LARGEST_ALPHA = 2.0 - 2.0**-20
"""Largest alpha for which the functions have the stated errors.

Between this alpha and 2, the power tail is too small relative to the Gaussian core."""

RELATIVE_ERROR = 2.0**-40
"""Bound on the relative error of `pdf` and `sf` for |x| up to 1e12; tests compare with balls."""

QUANTILE_RELATIVE_ERROR = 2.0**-41
"""Bound on |error| / (1 + x) of the quantile x for u >= 2**-20.

For smaller u the quantile is only a guess."""

CHUNK = 2**14
PANELS, QUANTILE_PANELS, DEGREE = 512, 256, 10
COARSE_PANELS, COARSE_DEGREE = 32, 16
"""Number and degree of the panels at whose points integrals are computed.

Their number is small, because integrals take most of the time that a new alpha needs. Later
evaluations use polynomials of a lower degree on `PANELS` panels.
"""

NEAR_TWO = 1.99
"""Alpha above which twice as many coarse panels are used.

There the Gaussian core and the power tail meet more sharply."""

SERIES_TERMS = 13
LEAST_SERIES_START = 40.0
LARGEST_TABULATED_DEPTH = 14.0
"""Largest depth -ln(2u) for which the quantile is tabulated, where u is near 4e-7."""

LARGEST_QUANTILE = 1e300


def pdf(alpha: float, x: Floats) -> Floats:
    """Return the density at x (n,); raise the errors of `log_pdf`."""
    return np.exp(log_pdf(alpha, x))


def log_pdf(alpha: float, x: Floats) -> Floats:
    """Return the logarithm of the density at x (n,).

    Raises ValueError if alpha is not in [1, LARGEST_ALPHA] and not 2.
    """
    x = np.abs(x)
    if alpha == 1.0:
        return np.asarray(-np.log1p(x * x) - math.log(math.pi))
    if alpha == 2.0:
        return np.asarray(-x * x / 4 - math.log(2 * math.sqrt(math.pi)))
    table = _tables_of_alpha(alpha)
    return _in_chunks(table.log_pdf, x)


def sf(alpha: float, x: Floats) -> Floats:
    """Return P(X > x) at x (n,), with small relative errors in the tail.

    Raises ValueError: the error of `log_pdf`.
    """
    if alpha == 1.0:
        return np.arctan2(1.0, x) / math.pi
    if alpha == 2.0:
        from scipy import special  # slow to load, and only alpha 2 needs SciPy

        return np.asarray(special.erfc(x / 2) / 2)
    table = _tables_of_alpha(alpha)
    upper = np.exp(_in_chunks(table.log_sf, np.abs(x)))
    return np.where(x < 0, 1.0 - upper, upper)


def quantile(alpha: float, u: Floats) -> Floats:
    """Return the x >= 0 with P(X > x) = u for u (n,) in (0, 1/2].

    Raises ValueError: the error of `log_pdf`.
    """
    if alpha == 1.0:
        return np.asarray(np.cos(math.pi * u) / np.sin(math.pi * u))
    if alpha == 2.0:
        from scipy import special

        return np.asarray(-math.sqrt(2.0) * special.ndtri(u))
    return _in_chunks(_tables_of_alpha(alpha).quantile, u)


def tail_series(alpha: float) -> tuple[float, ...]:
    """Return the coefficients a_1, a_2, ... of P(X > x) = sum over k of a_k x^(-alpha k).

    The series is for x >= 40 and 1 < alpha < 2.
    """
    return _tables_of_alpha(alpha).series


def _in_chunks(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Return the values of a function, which is computed in chunks to save memory."""
    if len(x) <= CHUNK:
        return function(x)
    values = np.empty_like(x)
    for start in range(0, len(x), CHUNK):
        values[start : start + CHUNK] = function(x[start : start + CHUNK])
    return values


@dataclass(frozen=True)
class Panels:
    """A function on an interval [0, end], with one polynomial on each of many equal panels."""

    panels_per_unit: float
    coefficients: tuple[Floats, ...]
    """Coefficients of all panels, each (panels,), from the highest degree down to degree 0."""

    def __call__(self, s: Floats) -> Floats:
        """Return the function at s (n,), for 0 <= s <= end."""
        argument = s * self.panels_per_unit
        panel = argument.astype(np.int32)
        # The last point of the interval would lie in a panel beyond the end.
        np.minimum(panel, len(self.coefficients[0]) - 1, out=panel)
        # Within its panel, the argument of a polynomial lies in [-1, 1].
        argument -= panel
        argument *= 2.0
        argument -= 1.0
        value = self.coefficients[0][panel]
        for coefficient in self.coefficients[1:]:
            value *= argument
            value += coefficient[panel]
        return value


def _chebyshev_points(degree: int) -> Floats:
    """Return the Chebyshev points (degree + 1,) on [-1, 1], in descending order."""
    return np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))


def _panel_nodes(end: float, panels: int, degree: int = DEGREE) -> Floats:
    """Return the Chebyshev points (panels, degree + 1) of equal panels on [0, end]."""
    width = end / panels
    return width * (np.arange(panels)[:, None] + (_chebyshev_points(degree) + 1) / 2)


def _values_to_series_matrix(degree: int) -> Floats:
    """Return the matrix that converts values at Chebyshev points to a Chebyshev series."""
    order = np.arange(degree + 1)
    angles = np.pi * (order + 0.5) / (degree + 1)
    matrix: Floats = np.cos(np.outer(angles, order)) * (2 / (degree + 1))
    matrix[:, 0] /= 2
    return matrix


@lru_cache(maxsize=1)
def _series_to_powers_matrix() -> Floats:
    """Return the matrix that converts a Chebyshev series of `DEGREE` to coefficients of powers."""
    matrix = np.zeros((DEGREE + 1, DEGREE + 1))
    for i in range(DEGREE + 1):
        matrix[i, : i + 1] = np.polynomial.chebyshev.cheb2poly([0.0] * i + [1.0])
    return matrix


@lru_cache(maxsize=2)
def _coarse_to_fine_matrix(coarse: int) -> Floats:
    """Return the matrix from values at points of a coarse panel to values at its fine points.

    `coarse` is the number of coarse panels. The fine points are the points of all fine panels
    within one coarse panel.
    """
    parts = PANELS // coarse
    points = (2 * np.arange(parts)[:, None] + _chebyshev_points(DEGREE) + 1).ravel() / parts - 1
    series_at_points = np.polynomial.chebyshev.chebvander(points, COARSE_DEGREE)
    matrix: Floats = _values_to_series_matrix(COARSE_DEGREE) @ series_at_points.T
    return matrix


def _fit_panels(values: Floats, end: float) -> Panels:
    """Return the polynomials through values (panels, DEGREE + 1) at the points `_panel_nodes`."""
    # The values are multiplied by one matrix after the other: the product of both matrices has
    # large elements, and would lose accuracy.
    powers = values @ _values_to_series_matrix(DEGREE) @ _series_to_powers_matrix()
    columns = tuple(np.ascontiguousarray(powers[:, i]) for i in range(DEGREE, -1, -1))
    return Panels(len(values) / end, columns)


@dataclass(frozen=True)
class _StableTables:
    """All tables for one alpha."""

    alpha: float
    start: float
    """Argument x from which on the series is used instead of the tables."""
    log_density: Panels
    log_tail: Panels
    series: tuple[float, ...]

    @cached_property
    def log_quantile(self) -> Panels:
        """Return log1p(x) of the quantile x as a function of -ln(2u), which only draws need."""
        return _quantile_panels(self)

    def log_pdf(self, x: Floats) -> Floats:
        """Return the logarithm of the density at x (n,) >= 0."""
        far = x > self.start
        logarithm = self.log_density(np.log1p(np.minimum(x, self.start)))
        if far.any():
            factors = self.alpha * np.arange(1, SERIES_TERMS)
            logarithm[far] = self._log_series(x[far], np.array(self.series) * factors) - np.log(
                x[far]
            )
        return logarithm

    def log_sf(self, x: Floats) -> Floats:
        """Return the logarithm of P(X > x) at x (n,) >= 0."""
        far = x > self.start
        logarithm = self.log_tail(np.log1p(np.minimum(x, self.start)))
        if far.any():
            logarithm[far] = self._log_series(x[far], np.array(self.series))
        return logarithm

    def _log_series(self, x: Floats, coefficients: Floats) -> Floats:
        """Return the logarithm of a series in powers of x^-alpha, whose first power is 1."""
        log_power = -self.alpha * np.log(x)
        power = np.exp(log_power)
        value = np.full_like(x, coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = value * power + coefficient
        return np.log(value) + log_power

    def quantile(self, u: Floats) -> Floats:
        """Return the x >= 0 with P(X > x) = u for u (n,) in (0, 1/2]."""
        depth = -np.log(2.0 * u)
        deep = depth > LARGEST_TABULATED_DEPTH
        x = np.expm1(self.log_quantile(np.clip(depth, 0.0, LARGEST_TABULATED_DEPTH)))
        if deep.any():
            x[deep] = self._far_quantile(u[deep])
        return x

    def _far_quantile(self, u: Floats) -> Floats:
        """Return quantiles beyond the table, by Newton steps on logarithms.

        The steps start at the leading term of the series.
        """
        goal = np.log(u)
        log_x = np.minimum(
            (math.log(self.series[0]) - goal) / self.alpha, math.log(LARGEST_QUANTILE)
        )
        floor = float(self.log_quantile(np.array([LARGEST_TABULATED_DEPTH]))[0])
        # Quantiles beyond the table lie beyond its last one. Near alpha 2, the leading term alone
        # would start in the Gaussian core, because its coefficient is tiny.
        log_x = np.maximum(log_x, math.log(math.expm1(floor)))
        for _ in range(8):
            x = np.exp(log_x)
            tail = self.log_sf(x)
            slope = -np.exp(self.log_pdf(x) + log_x - tail)
            log_x = np.minimum(log_x - (tail - goal) / slope, math.log(LARGEST_QUANTILE))
        return np.exp(log_x)


@lru_cache(maxsize=64)
def _tables_of_alpha(alpha: float) -> _StableTables:
    """Return the tables for an alpha, which are computed once."""
    if not 1.0 < alpha <= LARGEST_ALPHA:
        raise ValueError("alpha lies in [1, 2 - 2**-20], or is 2")
    ray = math.sin(math.pi / (2 * alpha))
    settled = alpha / ray * (45 / (alpha - 1)) ** ((alpha - 1) / alpha)
    start = max(LEAST_SERIES_START, 3 * settled)
    end = math.log1p(start)
    coarse = COARSE_PANELS if alpha <= NEAR_TWO else 2 * COARSE_PANELS
    s = _panel_nodes(end, coarse, COARSE_DEGREE)
    log_density, log_tail = (
        _fit_panels(
            (np.log(values).reshape(s.shape) @ _coarse_to_fine_matrix(coarse)).reshape(
                PANELS, DEGREE + 1
            ),
            end,
        )
        for values in density_and_tail(alpha, np.expm1(s).ravel())
    )
    coefficients = tuple(float_coefficients(alpha, SERIES_TERMS))
    return _StableTables(alpha, start, log_density, log_tail, coefficients)


def _quantile_panels(table: _StableTables) -> Panels:
    """Return log1p(x) of the quantile x as a function of -ln(2u).

    At the nodes, Newton steps start at interpolated values.
    """
    depth = _panel_nodes(LARGEST_TABULATED_DEPTH, QUANTILE_PANELS)
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
    return _fit_panels(np.log1p(x).reshape(depth.shape), LARGEST_TABULATED_DEPTH)
