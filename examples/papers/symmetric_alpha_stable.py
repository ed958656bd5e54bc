"""Zawacki and Abed, "The symmetric alpha-stable privacy mechanism": Table 1, figures 2 to 10.

Where the paper is wrong, and why:

- eq. (25), the series of the density for large x: its terms lack 1/k!. The k-th derivative of
  exp(-t^alpha) brings Gamma(alpha k + 1) / k!; without it the series does not approach the density.
- Corollary 27, the limit of epsilon at alpha 1 as gamma / Delta goes to 0: 2 ln(Delta / gamma),
  without a factor sqrt 2 inside. The largest ratio of eq. (73) is (1 + 2 g^2 + sqrt(1 + 4 g^2)) /
  (2 g^2), g = gamma / Delta, which goes to 1 / g^2.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from dprelease.mechanisms.laplace import Laplace
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.privacy.losses.stable import largest_loss
from examples.papers import independent, stable_figures
from examples.papers.report import Report, run
from examples.papers.stable_figures import ALPHAS, STEP, cauchy_epsilon, density, distortion

TITLE = "The symmetric alpha-stable privacy mechanism (Zawacki and Abed)"

TABLE_1 = {1.999: "1.1289", 1.99: "1.1340", 1.95: "1.1576", 1.9: "1.1903", 1.8: "1.2687"}
"""Expected distortion E |noise| at gamma = 1, as printed, by alpha."""


def density_series(alpha: float, x: float, terms: int, factorials: bool) -> float:
    """Return the series of eq. (25) for large x, with its 1/k! or as it was printed."""
    total = 0.0
    for k in range(1, terms + 1):
        term = math.gamma(alpha * k + 1) * math.sin(math.pi * alpha * k / 2) * x ** (-alpha * k - 1)
        total -= (-1) ** k * term / (math.factorial(k) if factorials else 1)
    return total / math.pi


def table_1(report: Report) -> None:
    report.section("Table 1: expected distortion E |noise|, gamma = 1")
    for alpha, there in TABLE_1.items():
        report.printed(f"alpha = {alpha}", there, distortion(alpha, 1.0))
    report.section("The same by quadrature of the characteristic function, and for other laws")
    for alpha in (*TABLE_1, *ALPHAS[1:]):
        found = independent.stable_error(alpha)
        report.same(f"alpha = {alpha}", found, distortion(alpha, 1.0))
    report.same("Laplace, b = 2", 2.0, Laplace(2 / STEP).mean_absolute_error * STEP)
    report.holds("alpha = 1: infinite", math.isinf(distortion(1.0, 3.0)))


def closed_form(report: Report) -> None:
    report.section("Eq. (73): epsilon at alpha = 1, beside the largest loss found by search")
    for g in (0.01, 0.1, 1.0, 2.5, 40.0):
        report.same(
            f"gamma / Delta = {g}: closed form", cauchy_epsilon(g), largest_loss(1.0, 1 / g)
        )
        searched, _ = independent.stable_loss(1.0, g)
        report.same(f"gamma / Delta = {g}: by search", searched, largest_loss(1.0, 1 / g), 6)
    report.section("Corollary 27, corrected: epsilon - 2 ln(Delta / gamma) goes to 0 with gamma")
    for g in (1e-2, 1e-3, 1e-4):
        rest = largest_loss(1.0, 1 / g) - 2 * math.log(1 / g)
        report.holds(
            f"gamma / Delta = {g}: the rest is {rest:.1e}, about 2 g^2", 0 <= rest < 3 * g * g
        )
        as_printed = largest_loss(1.0, 1 / g) - 2 * math.log(math.sqrt(2) / g)
        report.holds("as printed it stays at -ln 2", abs(as_printed + math.log(2)) < 3 * g * g)
    report.wrong_formula("eq. (81)", "garbled", "eq. (73), which eq. (82) repeats")
    report.wrong_formula("eq. (92)", "as Corollary 27", "as Corollary 27, corrected")
    report.wrong_formula(
        "Corollary 27, at alpha 1", "2 ln(sqrt 2 Delta / gamma)", "2 ln(Delta / gamma)"
    )


def series(report: Report) -> None:
    report.section("Eq. (25), corrected: density at x = 30 by ten terms with 1/k!")
    for alpha in ALPHAS:
        found = density_series(alpha, 30.0, 10, True)
        report.same(f"alpha = {alpha}", found, float(density(alpha, np.array([30.0]))[0]))
        report.same("  by quadrature", independent.stable_density(alpha, 30.0), found)
    bare, exact = density_series(1.5, 30.0, 10, False), independent.stable_density(1.5, 30.0)
    report.holds(
        "as printed, at alpha = 1.5, it is off by more than 1 %", abs(bare / exact - 1) > 0.01
    )
    report.wrong_formula(
        "eq. (25), terms of the series for large x", "without 1 / k!", "with 1 / k!"
    )


def convolved(alpha: float, scale: float, x: float) -> float:
    """Return the density at x of the sum of two draws of a scale: panels of a tangent."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    width = math.pi / 200
    angles = (width * (np.arange(-100, 100)[:, None] + (nodes + 1) / 2)).ravel()
    y = x / 2 + (1 + abs(x)) * np.tan(angles)
    both = density(alpha, y / scale) * density(alpha, (x - y) / scale) / scale**2
    bent = both * (1 + abs(x)) / np.cos(angles) ** 2
    return float(np.sum(bent * np.tile(weights, 200)) * width / 2)


def convolution(report: Report) -> None:
    report.section("Closed under convolution: two shares of 2 n add up to one of n (quadrature)")
    for alpha, n in ((1.0, 1), (1.5, 1), (1.5, 50), (1.9, 500)):
        whole = SymmetricAlphaStable(1e6, alpha)
        half, one = whole.federated(2 * n), whole if n == 1 else whole.federated(n)
        for x in (0.0, 0.7, 4.0):
            expected = float(density(alpha, np.array([x]))[0]) / one.scale
            found = convolved(alpha, half.scale / one.scale, x) / one.scale
            report.same(f"alpha = {alpha}, n = {n}, {x} scales out", found, expected, 8)


def best_alpha(report: Report) -> None:
    report.section("The alpha of least expected distortion, left open there")
    alphas = (1.5, 1.6, 1.65, 1.7, 1.75, 1.8, 1.9)
    for epsilon in (0.01, 1.0):
        errors = [distortion(a, stable_figures.scale_for(a, epsilon)) for a in alphas]
        at = int(np.argmin(errors))
        words = f"epsilon {epsilon}: alpha {alphas[at]:.3g}, inside the range that was tried"
        report.holds(words, 0 < at < len(alphas) - 1)
        report.holds(f"  its error {min(errors):.4g} is above Laplace's", min(errors) > 1 / epsilon)


def tell(report: Report) -> None:
    """Compute all of it."""
    for part in (table_1, closed_form, series, convolution, best_alpha):
        part(report)
    stable_figures.tell(report)


if __name__ == "__main__":
    sys.exit(run(TITLE, tell))
