"""Figures 2 to 10 of Zawacki and Abed, each with checks of what it shows.

The paper's own pictures have no numbers beside their curves that could be compared; so each entry
says what is drawn here, and its points are computed a second time by quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dprelease.mechanisms.gaussian import GaussianLoss
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.numerics import stable
from dprelease.privacy.losses.stable import largest_loss
from examples.papers import independent
from examples.papers.charts import Figure, Panel, Series
from examples.papers.report import Report

STEP = 2.0**-20
"""The lattice here: errors of the continuous law to a part in 10^12."""

ALPHAS = (1.0, 1.25, 1.5, 1.75, 1.9)
NO_NUMBERS = "No number of the printed figure is known here: computed."
DELTA = 1e-6
"""Of the Gaussian noise that stable noise is compared with; chosen here."""

Floats = NDArray[np.float64]


def density(alpha: float, x: Floats) -> Floats:
    """Return the package's density at scale 1."""
    return np.asarray(stable.pdf(alpha, np.abs(x)))


def cauchy_epsilon(g: float) -> float:
    """Return eq. (73): the pure epsilon at alpha 1 and gamma / Delta = g."""
    return 2 * math.asinh(1 / (2 * g))


@lru_cache(maxsize=1024)
def scale_for(alpha: float, epsilon: float) -> float:
    """Return gamma / Delta with this pure epsilon, of a falling function that is near a power."""

    def excess(log_gamma: float) -> float:
        return math.log(largest_loss(alpha, math.exp(-log_gamma)) / epsilon)

    start = -math.log(epsilon)
    return math.exp(brentq(excess, start - 3, start + 3, xtol=1e-9))


@lru_cache(maxsize=64)
def unit_distortion(alpha: float) -> float:
    """Return E |noise| at gamma = 1, from the lattice law that is released."""
    return SymmetricAlphaStable(1 / STEP, alpha).mean_absolute_error * STEP


def distortion(alpha: float, gamma: float) -> float:
    """Return E |noise|: the law is scaled by gamma."""
    return gamma * unit_distortion(alpha)


def by_alpha(xs: Sequence[float], values: dict[float, Sequence[float]]) -> tuple[Series, ...]:
    """Return a curve for each alpha."""
    return tuple(Series(f"α = {alpha:g}", xs, ys) for alpha, ys in values.items())


def figure_2(report: Report) -> None:
    report.section(
        "Figure 2: densities at gamma = 1, beside quadrature of the characteristic function"
    )
    xs = np.linspace(-6, 6, 121)
    curves = {alpha: density(alpha, xs).tolist() for alpha in ALPHAS}
    for alpha in ALPHAS:
        for x in (0.0, 0.6, 3.0):
            ours = float(density(alpha, np.array([x]))[0])
            report.same(f"alpha = {alpha}, x = {x}", independent.stable_density(alpha, x), ours)
    falls = all(np.all(np.diff(np.array(ys)[60:]) < 0) for ys in curves.values())
    report.holds("every law has one mode, and falls on either side", falls)
    panel = Panel("noise x", "density", by_alpha(xs.tolist(), curves))
    drawn = "densities of the stable laws at scale 1 against the noise"
    report.figure(Figure("sas_2_densities", "Figure 2", NO_NUMBERS, drawn, (panel,)))


def figure_3(report: Report) -> None:
    report.section("Figure 3: tails, a power of x where those of Laplace and Gaussian noise vanish")
    xs = np.geomspace(0.5, 1e4, 80)
    curves = {alpha: stable.sf(alpha, xs).tolist() for alpha in ALPHAS}
    for alpha in ALPHAS:
        ours = float(stable.sf(alpha, np.array([25.0]))[0])
        report.same(f"alpha = {alpha}, P(X > 25)", independent.stable_tail(alpha, 25.0), ours)
        ends = np.log(stable.sf(alpha, np.array([1e4, 2e4])))
        slope = float((ends[1] - ends[0]) / math.log(2))
        report.holds(
            f"alpha = {alpha}: the slope far out is {slope:.4f}", abs(slope + alpha) < 2e-3
        )
    laplace = [math.exp(-x) / 2 for x in xs.tolist()]
    below = [x for x, a, b in zip(xs.tolist(), curves[1.9], laplace, strict=True) if a < b]
    words = f"alpha = 1.9 is below Laplace's tail at some x, and above from {max(below):.2g} on"
    report.holds(words, 1 < max(below) < 20)
    shown = [(x, y) for x, y in zip(xs.tolist(), laplace, strict=True) if y > 1e-12]
    other = Series("Laplace", [x for x, _ in shown], [y for _, y in shown], "dashed")
    panel = Panel("x", "P(noise > x)", (*by_alpha(xs.tolist(), curves), other), "xy", "", (1e-9, 1))
    drawn = "tails of the same laws, both axes logarithmic: straight lines of slope -alpha"
    report.figure(Figure("sas_3_tails", "Figure 3", NO_NUMBERS, drawn, (panel,)))


def loss(alpha: float, x: Floats, gamma: float) -> Floats:
    """Return ln p(x) - ln p(x - 1) at scale gamma."""
    here, there = (np.asarray(stable.log_pdf(alpha, np.abs(one) / gamma)) for one in (x, x - 1))
    return here - there


def figure_4(report: Report) -> None:
    report.section(
        "Figure 4: the privacy loss of an output, Delta = gamma = 1: bounded for alpha < 2"
    )
    xs = np.linspace(-12, 13, 126)
    curves = {alpha: loss(alpha, xs, 1.0).tolist() for alpha in ALPHAS}
    for alpha, ys in curves.items():
        report.holds(
            f"alpha = {alpha}: odd about 1/2", np.allclose(ys, -np.array(ys)[::-1], atol=1e-9)
        )
        far = float(loss(alpha, np.array([-1e5]), 1.0)[0])
        report.holds(f"alpha = {alpha}: {far:.1e} at x = -100,000", 0 < far < 1e-4)
        highest = independent.stable_loss(alpha, 1.0)[0]
        report.holds("and nowhere above its summit by search", max(ys) <= highest * (1 + 1e-9))
    gaussian = Series("α = 2, Gaussian", [-12, 13], [(1 + 24) / 4, (1 - 26) / 4], "dashed")
    series = (*by_alpha(xs.tolist(), curves), gaussian)
    panel = Panel("output x", "ln p(x) − ln p(x − Δ)", series, "", "", (-3.2, 3.2))
    drawn = "privacy loss by output: that of Gaussian noise has no bound"
    report.figure(Figure("sas_4_loss", "Figure 4", NO_NUMBERS, drawn, (panel,)))


def figure_5(report: Report) -> None:
    report.section("Figure 5: the output of largest loss (Theorem 24 takes a fixed one)")
    scales = np.geomspace(0.1, 20, 12).tolist()
    places = {alpha: [-independent.stable_loss(alpha, g)[1] for g in scales] for alpha in ALPHAS}
    for g, place in zip(scales[::4], places[1.0][::4], strict=True):
        closed = (math.sqrt(1 + 4 * g * g) - 1) / 2
        report.same(f"alpha = 1, gamma = {g:.3g}: -x = (sqrt(1 + 4 g^2) - 1) / 2", closed, place, 4)
    moves = all(a < b for ys in places.values() for a, b in pairwise(ys))
    report.holds("it moves outwards as gamma grows: no fixed x serves", moves)
    panel = Panel("γ / Δ", "−x / Δ of the largest loss", by_alpha(scales, places), "xy")
    drawn = "where the loss is largest, by scale: found by search on quadrature alone"
    report.figure(Figure("sas_5_summit", "Figure 5", NO_NUMBERS, drawn, (panel,)))


def figure_6(report: Report) -> None:
    report.section("Figure 6: epsilon by scale")
    scales = np.geomspace(0.1, 40, 40).tolist()
    curves = {alpha: [largest_loss(alpha, 1 / g) for g in scales] for alpha in ALPHAS}
    for alpha in ALPHAS:
        for g in (0.1, 1.0, 15.0):
            searched, _ = independent.stable_loss(alpha, g)
            ours = largest_loss(alpha, 1 / g)
            report.same(f"alpha = {alpha}, gamma = {g}: by search", searched, ours, 6)
            report.holds("  never below it", ours >= searched * (1 - 1e-12))
    falls = all(a > b for ys in curves.values() for a, b in pairwise(ys))
    report.holds("epsilon falls as gamma grows, for every alpha", falls)
    panel = Panel("γ / Δ", "ε", by_alpha(scales, curves), "xy")
    drawn = "pure epsilon by scale over sensitivity (Theorem 21: by their ratio alone)"
    report.figure(Figure("sas_6_epsilon_of_scale", "Figure 6", NO_NUMBERS, drawn, (panel,)))


def figure_7(report: Report) -> None:
    report.section("Figure 7: epsilon by alpha")
    alphas, scales = (
        (*np.linspace(1, 1.9, 16).tolist(), 1.93, 1.96, 1.99),
        (0.2, 0.5, 1.0, 2.0, 5.0),
    )
    curves = {g: [largest_loss(a, 1 / g) for a in alphas] for g in scales}
    for g in scales:
        for alpha in (alphas[3], alphas[-1]):
            searched, _ = independent.stable_loss(alpha, g)
            report.same(
                f"alpha = {alpha:.3g}, gamma = {g}", searched, largest_loss(alpha, 1 / g), 6
            )
    small, large = curves[0.2], curves[5.0]
    report.holds("little noise: stable laws near the Gaussian cost most", small[-1] == max(small))
    least = alphas[int(np.argmin(large))]
    report.holds(f"much noise: the least epsilon is inside, at alpha {least:.3g}", 1 < least < 1.99)
    series = tuple(Series(f"γ = {g:g} Δ", alphas, ys) for g, ys in curves.items())
    drawn = "pure epsilon by alpha, at five scales"
    panel = Panel("α", "ε", series, "y")
    report.figure(Figure("sas_7_epsilon_of_alpha", "Figure 7", NO_NUMBERS, drawn, (panel,)))


def figure_8(report: Report) -> None:
    report.section("Figure 8: distortion by epsilon, one answer")
    epsilons = np.geomspace(0.05, 5, 15).tolist()
    curves = {a: [distortion(a, scale_for(a, e)) for e in epsilons] for a in ALPHAS[1:]}
    for alpha in ALPHAS[1:]:
        gamma = scale_for(alpha, epsilons[0])
        found = independent.stable_error(alpha) * gamma
        report.same(f"alpha = {alpha}: gamma {gamma:.5g} by quadrature", found, curves[alpha][0])
        searched, _ = independent.stable_loss(alpha, gamma)
        report.same("  and its epsilon by search", searched, epsilons[0], 6)
    laplace = [1 / epsilon for epsilon in epsilons]
    worse = all(a > b for ys in curves.values() for a, b in zip(ys, laplace, strict=True))
    report.holds("no alpha beats Laplace's 1 / epsilon for one answer", worse)
    series = (*by_alpha(epsilons, curves), Series("Laplace", epsilons, laplace, "dashed"))
    panel = Panel("ε", "E |noise| / Δ", series, "xy")
    drawn = "expected distortion at equal pure epsilon; infinite at alpha 1"
    report.figure(Figure("sas_8_distortion", "Figure 8", NO_NUMBERS, drawn, (panel,)))


def steepest(alpha: float) -> float:
    """Return the largest slope of ln p, by quadrature: what epsilon gamma / Delta goes to."""
    xs = np.linspace(0.3, 6, 58).tolist()
    slopes = [
        -independent.stable_slope(alpha, x) / independent.stable_density(alpha, x) for x in xs
    ]
    at = int(np.argmax(slopes))
    fine = np.linspace(xs[max(at - 1, 0)], xs[min(at + 1, len(xs) - 1)], 41).tolist()
    return max(
        -independent.stable_slope(alpha, x) / independent.stable_density(alpha, x) for x in fine
    )


def figure_9(report: Report) -> None:
    report.section("Figure 9: epsilon by scale, and its branches (Corollaries 26 and 27)")
    report.note(
        "Corollary 26, large gamma: epsilon goes to Delta / gamma times the steepest slope of ln p"
    )
    report.same("alpha = 1: that slope is 1", 1.0, steepest(1.0), 6)
    for alpha in ALPHAS:
        slope = steepest(alpha)
        for g in (100.0, 1000.0):
            rest = largest_loss(alpha, 1 / g) * g / slope - 1
            report.holds(
                f"alpha = {alpha}, gamma = {g:g}: off by {rest:.1e}", abs(rest) < 3 / g**2 + 2e-6
            )
    scales = np.geomspace(0.01, 30, 50).tolist()
    small = [g for g in scales if g < 0.7]
    large = [g for g in scales if g > 0.5]
    curves = (
        Series("ε, α = 1", scales, [largest_loss(1.0, 1 / g) for g in scales]),
        Series("small γ: 2 ln(Δ/γ)", small, [2 * math.log(1 / g) for g in small], "dashed"),
        Series("large γ: Δ/γ", large, [1 / g for g in large], "dashed"),
    )
    below = all(1 / g > largest_loss(1.0, 1 / g) for g in scales)
    report.holds(
        "at alpha 1 the large branch lies above everywhere: safe, and tight far out", below
    )
    above = all(2 * math.log(1 / g) < largest_loss(1.0, 1 / g) for g in small)
    report.holds("and the small branch below: no guarantee by itself", above)
    panels = (
        Panel("γ / Δ", "ε", curves, "x", "", (0, 10)),
        Panel("γ / Δ", "ε γ / Δ", by_alpha(scales, _levelled(scales)), "x"),
    )
    drawn = (
        "epsilon at alpha 1 with both branches, that for small gamma as corrected; and epsilon "
        "gamma / Delta for every alpha, which becomes level where gamma is large"
    )
    report.figure(Figure("sas_9_branches", "Figure 9", NO_NUMBERS, drawn, panels))


def _levelled(scales: Sequence[float]) -> dict[float, Sequence[float]]:
    return {alpha: [largest_loss(alpha, 1 / g) * g for g in scales] for alpha in ALPHAS}


def sigma_for(epsilon: float) -> float:
    """Return the least standard deviation of Gaussian noise, at delta 10^-6 and sensitivity 1."""

    def excess(log_sigma: float) -> float:
        return math.log(max(GaussianLoss(math.exp(-log_sigma)).delta(epsilon), 1e-300) / DELTA)

    return math.exp(brentq(excess, math.log(0.3 / epsilon), math.log(30 / epsilon), xtol=1e-9))


def figure_10(report: Report) -> None:
    report.section("Figure 10: expected error beside the Gaussian's")
    epsilons = np.geomspace(0.05, 5, 15).tolist()
    sigmas = [sigma_for(epsilon) for epsilon in epsilons]
    for epsilon, sigma in list(zip(epsilons, sigmas, strict=True))[::7]:
        found = independent.normal_delta(1 / sigma, epsilon)
        report.same(f"epsilon {epsilon:.3g}: delta of sigma {sigma:.5g}", found, DELTA, 6)
    gaussian = [sigma * math.sqrt(2 / math.pi) for sigma in sigmas]
    curves = {a: [distortion(a, scale_for(a, e)) for e in epsilons] for a in ALPHAS[1:]}
    less = all(a < b for alpha in (1.5, 1.75) for a, b in zip(curves[alpha], gaussian, strict=True))
    report.holds("stable noise of alpha 1.5 and 1.75 errs less, with no delta at all", less)
    name = "Gaussian, δ = 10⁻⁶"
    series = (*by_alpha(epsilons, curves), Series(name, epsilons, gaussian, "dashed"))
    panel = Panel("ε", "E |noise| / Δ", series, "xy")
    drawn = "expected error of stable noise at pure epsilon, and of Gaussian noise at delta 1e-6"
    report.figure(Figure("sas_10_gaussian", "Figure 10", NO_NUMBERS, drawn, (panel,)))


def tell(report: Report) -> None:
    """Compute all figures."""
    for part in (
        figure_2, figure_3, figure_4, figure_5, figure_6, figure_7, figure_8, figure_9, figure_10
    ):  # fmt: skip
        part(report)
