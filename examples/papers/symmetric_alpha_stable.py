"""Zawacki and Abed, "The symmetric alpha-stable privacy mechanism": Table 1, figures, eq. (73).

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
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from dprelease.mechanisms.laplace import Laplace
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.numerics import stable
from dprelease.privacy.stable import largest_loss
from examples.papers.report import Report

STEP = 2.0**-20
"""The lattice here: errors of the continuous law to a part in 10^12."""

ALPHAS = (1.0, 1.25, 1.5, 1.75, 1.9)


def cauchy_epsilon(g: float) -> float:
    """Return eq. (73): the pure epsilon at alpha 1 and gamma / Delta = g."""
    return 2 * math.asinh(1 / (2 * g))


def scale_for(alpha: float, epsilon: float) -> float:
    """Return gamma / Delta with this pure epsilon, by bisection of a falling function."""
    low, high = 1e-6, 1e9
    while high / low > 1 + 1e-13:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if largest_loss(alpha, 1 / middle) > epsilon else (low, middle)
    return high


def distortion(alpha: float, gamma: float) -> float:
    """Return E |noise|, from the lattice law that is released."""
    return SymmetricAlphaStable(gamma / STEP, alpha).mean_absolute_error * STEP


def density_series(alpha: float, x: float, terms: int, factorials: bool) -> float:
    """Return the series of eq. (25) for large x, with its 1/k! or as it was printed."""
    total = 0.0
    for k in range(1, terms + 1):
        term = math.gamma(alpha * k + 1) * math.sin(math.pi * alpha * k / 2) * x ** (-alpha * k - 1)
        total -= (-1) ** k * term / (math.factorial(k) if factorials else 1)
    return total / math.pi


def table_1(report: Report) -> None:
    report.section("Table 1: expected distortion E |noise|")
    report.compare("Laplace, b = 2: b", 2.0, Laplace(2 / STEP).mean_absolute_error * STEP)
    for alpha in ALPHAS[1:]:
        formula = 2 * 3 / math.pi * math.gamma(1 - 1 / alpha)
        name = f"SaS, alpha = {alpha}, gamma = 3: (2 gamma / pi) Gamma(1 - 1/alpha)"
        report.compare(name, formula, distortion(alpha, 3.0), digits=9)
    report.holds("SaS, alpha = 1: infinite", math.isinf(distortion(1.0, 3.0)))


def closed_form(report: Report) -> None:
    report.section("Eq. (73): epsilon at alpha = 1, in closed form")
    for g in (0.01, 0.1, 1.0, 2.5, 40.0):
        found = largest_loss(1.0, 1 / g)
        report.compare(f"gamma / Delta = {g}", cauchy_epsilon(g), found, digits=6)
    report.section("Corollary 27, corrected: epsilon - 2 ln(Delta / gamma) goes to 0 with gamma")
    for g in (1e-2, 1e-3, 1e-4):
        rest = largest_loss(1.0, 1 / g) - 2 * math.log(1 / g)
        report.holds(f"gamma / Delta = {g}: the rest is {rest:.1e}", 0 <= rest < 4 * g * g + 1e-5)
    report.note("as printed, with a factor sqrt 2, it would stay at ln 2 = 0.693")


def series(report: Report) -> None:
    report.section("Eq. (25), corrected: density at x = 30 by ten terms with 1/k!")
    for alpha in ALPHAS:
        exact = float(stable.pdf(alpha, np.array([30.0]))[0])
        report.compare(f"alpha = {alpha}", density_series(alpha, 30.0, 10, True), exact, digits=9)
    bare, exact = density_series(1.5, 30.0, 10, False), float(stable.pdf(1.5, np.array([30.0]))[0])
    report.holds(
        "as printed, at alpha = 1.5, it is off by more than 1 %", abs(bare / exact - 1) > 0.01
    )


def convolution(report: Report) -> None:
    report.section("Closed under convolution: n shares add up to the law, scale n^(-1/alpha)")
    for alpha, n in ((1.0, 10), (1.5, 7), (1.9, 1000)):
        share = SymmetricAlphaStable(1e6, alpha).federated(n)
        report.compare(f"alpha = {alpha}, n = {n}", 1e6, share.scale * n ** (1 / alpha), digits=12)


def figures(report: Report) -> None:
    report.section("Figures 6 to 9: privacy and error against scale, alpha and each other")
    scales = np.geomspace(0.1, 40, 40).tolist()
    rows = [(g, *(largest_loss(alpha, 1 / g) for alpha in ALPHAS)) for g in scales]
    report.curve("epsilon_of_scale", ("gamma/Delta", *map(str, ALPHAS)), rows)
    falls = all(a > b for x, y in pairwise(rows) for a, b in zip(x[1:], y[1:], strict=True))
    report.holds("epsilon falls as gamma grows, for every alpha", falls)
    report.curve("distortion_of_epsilon", ("epsilon", "laplace", *map(str, ALPHAS[1:])), errors())
    heavier = [distortion(alpha, scale_for(alpha, 0.1)) for alpha in ALPHAS[1:]]
    report.holds("no alpha beats Laplace's 1 / epsilon for one answer", min(heavier) > 10.0)
    alphas = np.linspace(1.3, 1.95, 27).tolist()
    best = [
        (epsilon, min(alphas, key=lambda a, e=epsilon: distortion(a, scale_for(a, e))))
        for epsilon in (0.01, 0.1, 1.0, 3.0)
    ]
    report.curve("best_alpha_of_epsilon", ("epsilon", "alpha"), best)
    for epsilon, alpha in best:
        report.note(
            f"least expected distortion at epsilon {epsilon}: alpha {alpha:.3g} (left open there)"
        )
    report.holds("near 1.7 for small epsilon", abs(best[0][1] - 1.7) < 0.06)


def errors() -> Iterator[tuple[float, ...]]:
    """Yield epsilon and the expected distortions at sensitivity 1: Laplace, then SaS by alpha."""
    for epsilon in np.geomspace(0.05, 5, 15).tolist():
        yield epsilon, 1 / epsilon, *(distortion(a, scale_for(a, epsilon)) for a in ALPHAS[1:])


def main() -> int:
    """Print the tables; return 1 if a number is off."""
    report = Report("The symmetric alpha-stable privacy mechanism (Zawacki and Abed)")
    for part in (table_1, closed_form, series, convolution, figures):
        part(report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
