"""Mugunthan, Xiao and Kagal, poster: figure 1, truncated Laplace; figure 2, asymmetric Laplace.

Where the poster is wrong, and why:

- "any" short side B: the far end of the truncated law exists only for B in an interval, since its
  a = 2 + ((1 - delta) / delta) b - b exp(epsilon) / delta has to lie in (0, b].
- "zero mean": only the symmetric case has mean zero; the mean is reported, and its nearest lattice
  point taken away.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.integrate import quad

from dprelease.errors import BudgetError
from dprelease.mechanisms.asymmetric_laplace import AsymmetricLaplace
from dprelease.mechanisms.laplace import Laplace
from dprelease.mechanisms.truncated_laplace import TruncatedLaplace
from dprelease.privacy.unit import Move, Sensitivity
from examples.papers import independent
from examples.papers.charts import Figure, Panel, Series
from examples.papers.report import Report, run

TITLE = "Asymmetric and generalized truncated Laplace (Mugunthan, Xiao and Kagal)"
STEPS = 2**20
"""Lattice steps in one unit of sensitivity."""

UNIT = Sensitivity(1, (Move(STEPS, 1),))
KS = (1.0, 1.2, 2.0, 0.5)
NO_NUMBERS = "No number of the printed figure is known here: computed."
Law = Callable[[float], float]


def asymmetric_density(rate: float, k: float) -> Law:
    """Return the poster's density of figure 2."""

    def density(x: float) -> float:
        tail = math.exp(rate * x / k) if x < 0 else math.exp(-k * rate * x)
        return rate / (k + 1 / k) * tail

    return density


def truncated_density(rate: float, low: float, high: float) -> Law:
    """Return the poster's density of figure 1: exp(-rate |x|) between the ends, normalised."""
    whole = (
        quad(lambda x: math.exp(rate * x), low, 0)[0]
        + quad(lambda x: math.exp(-rate * x), 0, high)[0]
    )
    return lambda x: math.exp(-rate * abs(x)) / whole if low <= x <= high else 0.0


def far_end(epsilon: float, delta: float, short: float) -> float:
    """Return the poster's far end for the short side B, at sensitivity 1."""
    b = math.exp(-short * epsilon)
    a = 2 + (1 - delta) / delta * b - b * math.exp(epsilon) / delta
    return -math.log(a) / epsilon


def admissible(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the ends of the interval of short sides B for which the far end exists."""
    gain = math.expm1(epsilon)
    low = math.log((gain + delta) / (2 * delta)) / epsilon
    return low, math.log((gain + 2 * delta) / (2 * delta)) / epsilon


def given_away(law: Law, epsilon: float, low: float, high: float) -> float:
    """Return delta by quadrature: the larger gain over both directions of a move by 1."""

    def gain(shift: float) -> float:
        cuts = sorted({low, high, 0.0, low + shift, high + shift, shift})
        inside = [cut for cut in cuts if low <= cut <= high]
        parts = pairwise(inside)
        f = lambda x: max(law(x) - math.exp(epsilon) * law(x - shift), 0.0)  # noqa: E731
        return sum(quad(f, a + 1e-13, b - 1e-13, epsabs=1e-15)[0] for a, b in parts)

    return max(gain(1.0), gain(-1.0))


def figure_1(report: Report) -> None:
    report.section("Figure 1: generalized truncated Laplace, by the short side B")
    for epsilon, delta in ((1.0, 1e-3), (0.5, 1e-6), (2.0, 0.01)):
        low, high = admissible(epsilon, delta)
        for share in (0.25, 0.5, 0.75):
            short = low + share * (high - low)
            law = truncated(epsilon, delta, short)
            ends = law.lower / STEPS, law.upper / STEPS
            name = f"epsilon {epsilon}, delta {delta:g}, B = {short:.4f}"
            report.same(f"{name}: far end", far_end(epsilon, delta, ends[1]), -ends[0], 5)
            curve = truncated_density(epsilon, *ends)
            error = independent.moment(curve, 1, *ends)
            report.same("  E |noise| by quadrature", error, law.mean_absolute_error / STEPS, 6)
            report.same("  delta by quadrature", given_away(curve, epsilon, *ends), delta, 4)
            claimed = max(loss.delta(epsilon) for loss in law.losses(STEPS))
            report.holds(
                f"  claimed: {claimed:.6g}", delta * (1 - 1e-3) < claimed <= delta * (1 + 1e-6)
            )
            centre = quad(lambda x, f=curve: x * f(x), *ends, points=[0.0])[0]
            report.same("  its mean, which is not zero", centre, law.mean / STEPS, 4)
        report.holds(f"B = {0.99 * low:.4f} is refused", refused(epsilon, delta, 0.99 * low))
        other = truncated(epsilon, delta, 1.01 * high)
        what = f"B = {1.01 * high:.4f}: now the lower end is the short one"
        report.holds(what, -other.lower < other.upper)
    report.wrong_formula(
        "short side B of the truncated law", "any", "in an interval, see the script"
    )
    report.wrong_formula("mean of the truncated law", "zero", "zero for the symmetric law alone")
    _draw_truncated(report)


def _draw_truncated(report: Report) -> None:
    epsilon, delta = 1.0, 0.1
    low, high = admissible(epsilon, delta)
    xs = np.linspace(-5.5, 2.5, 801).tolist()
    series = []
    for share in (0.05, 0.5, 1 - 1e-9):
        law = truncated(epsilon, delta, low + share * (high - low))
        ends = law.lower / STEPS, law.upper / STEPS
        curve = truncated_density(epsilon, *ends)
        name = f"from {ends[0]:.2f} to {ends[1]:.3f}"
        series.append(Series(name, xs, [curve(x) or math.nan for x in xs]))
    panel = Panel("noise x", "density", tuple(series), "y")
    drawn = (
        "densities at epsilon 1 and delta 0.1 by their ends: the nearer the short side comes, the "
        "farther the other has to go"
    )
    report.figure(Figure("poster_1_truncated", "Figure 1", NO_NUMBERS, drawn, (panel,)))


def figure_2(report: Report) -> None:
    report.section("Figure 2: asymmetric Laplace, epsilon 1, by k")
    for k in KS:
        rate = 1 / max(k, 1 / k)
        law, curve = (
            AsymmetricLaplace.design(STEPS, k=k, debias="false"),
            asymmetric_density(rate, k),
        )
        name, end = f"k = {k}", 60 * max(k, 1 / k) / rate
        report.same(f"{name}: whole mass", 1.0, independent.moment(curve, 0, -end, end))
        mean = independent.moment(lambda x, f=curve: x * f(x), 0, -end, end)
        if k == 1:
            report.holds(f"{name}: mean zero", abs(mean) < 1e-9 and law.mean == 0)
        else:
            report.same(f"{name}: mean", mean, law.mean / STEPS, 5)
        error = independent.moment(curve, 1, -end, end)
        report.same(f"{name}: E |noise|", error, law.mean_absolute_error / STEPS)
        xs = np.linspace(-6, 6, 121)
        largest = max(abs(math.log(curve(x) / curve(x - 1))) for x in xs.tolist())
        found = max(loss.pure_epsilon for loss in law.losses(STEPS))
        report.same(f"{name}: largest loss on a grid", largest, found)
        report.holds("  which is the epsilon asked for", math.isclose(found, 1.0, rel_tol=1e-9))
        report.holds(
            "  centred to half a step", abs(AsymmetricLaplace.design(STEPS, k=k).mean) <= 0.5
        )
    xs = np.linspace(-8, 8, 161).tolist()
    series = tuple(
        Series(f"k = {k:g}", xs, [asymmetric_density(1 / max(k, 1 / k), k)(x) for x in xs])
        for k in KS
    )
    panel = Panel("noise x", "density", series)
    drawn = "densities at epsilon 1: k above 1 leans to the left, below 1 to the right"
    report.figure(Figure("poster_2_asymmetric", "Figure 2", NO_NUMBERS, drawn, (panel,)))


def comparison(report: Report) -> None:
    report.section("Beside plain Laplace noise: E |noise| by epsilon")
    epsilons = np.geomspace(0.1, 4, 12).tolist()
    laplace = [Laplace(STEPS / e).mean_absolute_error / STEPS for e in epsilons]
    for epsilon, found in list(zip(epsilons, laplace, strict=True))[::5]:
        report.same(f"Laplace at epsilon {epsilon:.3g}: 1 / epsilon", 1 / epsilon, found)
    skewed = {k: [_error_of(k, e) for e in epsilons] for k in (1.2, 2.0)}
    cut = {d: [_error_cut(d, e) for e in epsilons] for d in (0.1, 1e-3)}
    for k, ys in skewed.items():
        more = all(a > b for a, b in zip(ys, laplace, strict=True))
        report.holds(f"k = {k}: asymmetric noise errs more at the same pure epsilon", more)
    for delta, ys in cut.items():
        less = all(a < b for a, b in zip(ys, laplace, strict=True))
        report.holds(f"delta {delta:g}: truncated noise errs less, for its delta", less)
    gains = [b - a for a, b in zip(cut[0.1], cut[1e-3], strict=True)]
    report.holds("and the less, the larger its delta", min(gains) > 0)
    series = (
        *(
            Series(f"asymmetric, k = {k:g}", epsilons, _over(ys, laplace))
            for k, ys in skewed.items()
        ),
        *(Series(f"truncated, δ = {d:g}", epsilons, _over(ys, laplace)) for d, ys in cut.items()),
        Series("Laplace", epsilons, [1.0] * len(epsilons), "dashed"),
    )
    panel = Panel("ε", "E |noise|, Laplace = 1", series, "x")
    drawn = "mean absolute error at equal epsilon, in that of plain Laplace noise"
    report.figure(Figure("poster_comparison", "Comparison", NO_NUMBERS, drawn, (panel,)))


def _over(values: list[float], others: list[float]) -> list[float]:
    return [a / b for a, b in zip(values, others, strict=True)]


def _error_of(k: float, epsilon: float) -> float:
    law = AsymmetricLaplace.design(STEPS / epsilon, k=k)
    return law.mean_absolute_error / STEPS


def _error_cut(delta: float, epsilon: float) -> float:
    law = TruncatedLaplace.design(STEPS / epsilon, UNIT, delta=repr(delta), short_side="none")
    return law.mean_absolute_error / STEPS


def truncated(epsilon: float, delta: float, short: float) -> TruncatedLaplace:
    """Return the law whose upper end is `short`, in units of sensitivity."""
    shape = {"delta": repr(delta), "upper": repr(short * STEPS), "debias": "false"}
    return TruncatedLaplace.design(STEPS / epsilon, UNIT, **shape)


def refused(epsilon: float, delta: float, short: float) -> bool:
    """Return whether the package refuses this short side."""
    try:
        truncated(epsilon, delta, short)
    except BudgetError:
        return True
    return False


def tell(report: Report) -> None:
    """Compute all of it."""
    for part in (figure_1, figure_2, comparison):
        part(report)


if __name__ == "__main__":
    sys.exit(run(TITLE, tell))
