"""Mugunthan, Xiao and Kagal, poster: figure 1, asymmetric Laplace; figure 2, truncated Laplace.

Where the poster is wrong, and why:

- "any" short side B: the far end of the truncated law exists only for B in an interval, since its
  a = 2 + ((1 - delta) / delta) b - b exp(epsilon) / delta has to lie in (0, b].
- "zero mean": only the symmetric case has mean zero; the mean is reported, and its nearest lattice
  point taken away.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from dprelease.errors import BudgetError
from dprelease.mechanisms.asymmetric_laplace import AsymmetricLaplace
from dprelease.mechanisms.truncated_laplace import TruncatedLaplace
from dprelease.privacy.unit import Move, Sensitivity
from examples.papers.report import Report

STEPS = 2**20
"""Lattice steps in one unit of sensitivity."""

UNIT = Sensitivity(1, (Move(STEPS, 1),))


def asymmetric_density(rate: float, k: float, x: float) -> float:
    """Return the poster's density of figure 1."""
    tail = math.exp(rate * x / k) if x < 0 else math.exp(-k * rate * x)
    return rate / (k + 1 / k) * tail


def figure_1(report: Report) -> None:
    report.section("Figure 1: asymmetric Laplace, epsilon 1, by k")
    for k in (1.0, 1.2, 2.0, 0.5):
        rate = 1 / max(k, 1 / k)
        law = AsymmetricLaplace.design(STEPS, k=k, debias="false")
        report.compare(
            f"k = {k}: mean (1 - k^2) / (rate k)", (1 - k * k) / (rate * k), law.mean / STEPS
        )
        spread = math.sqrt(1 + k**4) / (rate * k)
        report.compare(f"k = {k}: standard deviation", spread, law.standard_deviation / STEPS)
        found = max(loss.pure_epsilon for loss in law.losses(STEPS))
        report.compare(f"k = {k}: epsilon, max(k, 1/k) rate", 1.0, found)
        centred = AsymmetricLaplace.design(STEPS, k=k)
        report.holds(f"k = {k}: centred to half a step", abs(centred.mean) <= 0.5)
    xs = np.linspace(-8, 8, 161).tolist()
    ks = (1.0, 1.2, 2.0, 0.5)
    rows = [(x, *(asymmetric_density(1 / max(k, 1 / k), k, x) for k in ks)) for x in xs]
    report.curve("asymmetric_densities", ("x", *map(str, ks)), rows)


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


def figure_2(report: Report) -> None:
    report.section("Figure 2: generalized truncated Laplace, by the short side B")
    rows = []
    for epsilon, delta in ((1.0, 1e-3), (0.5, 1e-6), (2.0, 0.01)):
        low, high = admissible(epsilon, delta)
        for share in (0.25, 0.5, 0.75):
            short = low + share * (high - low)
            law = truncated(epsilon, delta, short)
            expected = far_end(epsilon, delta, law.upper / STEPS)
            name = f"epsilon {epsilon}, delta {delta:g}, B = {short:.4f}: far end"
            report.compare(name, expected, -law.lower / STEPS, digits=5)
            rows.append((epsilon, delta, short, expected, law.mean_absolute_error / STEPS))
            claimed = max(loss.delta(epsilon) for loss in law.losses(STEPS))
            report.holds(f"  delta at epsilon: {claimed:.6g}", claimed <= delta * (1 + 1e-6))
        report.holds(f"  B = {0.99 * low:.4f} is refused", refused(epsilon, delta, 0.99 * low))
        other = truncated(epsilon, delta, 1.01 * high)
        what = f"  B = {1.01 * high:.4f}: now the lower end is the short one"
        report.holds(what, -other.lower < other.upper)
    heads = ("epsilon", "delta", "B", "A", "mean absolute error")
    report.curve("truncated_ends", heads, rows)


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


def main() -> int:
    """Print the tables; return 1 if a number is off."""
    report = Report("Asymmetric and generalized truncated Laplace (Mugunthan, Xiao and Kagal)")
    figure_1(report)
    figure_2(report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
