"""Certified variances and means against sums of independent masses, for every law that has one."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import arb, ctx
from scipy import stats

from tests.mechanisms.laws import independent_mass, law_of, laws

SCALES = (0.3, 1.0, 2.5, 7.75)
NONE = {"symmetric_alpha_stable", "staircase", "optimal", "truncated_laplace"}
NEAR = 2.0**-14
"""How far above the variance a bound may be, relatively."""


def reference(name: str, shape: int, scale: float) -> tuple[arb, arb]:
    """Return mean and variance from the definition of the law: masses of all cells that count."""
    law = law_of(name, scale, shape)
    reach = int(50 * law.standard_deviation + abs(law.mean)) + 30
    with ctx.workprec(200):
        masses = {k: independent_mass(law, k) for k in range(-reach, reach + 1)}
        mean = sum((p * k for k, p in masses.items()), arb(0))
        square = sum((p * k * k for k, p in masses.items()), arb(0))
        return mean, square - mean * mean


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("name", "shape", "scale"), laws(SCALES))
def test_certified_variance_is_just_above_the_true_one(name: str, shape: int, scale: float) -> None:
    found = law_of(name, scale, shape).variance_bound_and_mean
    if name in NONE:
        assert found is None
        return
    assert found is not None
    variance, mean = found
    true_mean, true_variance = (float(x.mid()) for x in reference(name, shape, scale))
    assert true_variance * (1 - 1e-12) <= float(variance) <= true_variance * (1 + NEAR)
    assert math.isclose(float(mean), true_mean, abs_tol=1e-12)


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("name", "shape", "scale"), laws((100.0, 3e4)))
def test_certified_variance_agrees_with_floats(name: str, shape: int, scale: float) -> None:
    law = law_of(name, scale, shape)
    if law.variance_bound_and_mean is None:
        assert name in NONE
        return
    variance, mean = law.variance_bound_and_mean
    ratio = float(variance) / law.standard_deviation**2
    assert 1 - 1e-9 <= ratio <= 1 + NEAR
    assert math.isclose(float(mean), law.mean, rel_tol=1e-9, abs_tol=1e-9 * scale)
    assert isinstance(variance, Fraction)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize(("name", "shape", "scale"), laws((0.3, 2.5, 100.0, 3e4)))
def test_unrounded_half_widths_are_near_rounded_ones(
    name: str, shape: int, scale: float, confidence: float
) -> None:
    """And part the mass of a step as the confidence asks."""
    law = law_of(name, scale, shape)
    width, smooth = law.half_width(confidence), law.unrounded_half_width(confidence)
    assert width - 0.5 <= smooth <= width + 0.5
    with ctx.workprec(128):
        beyond = [
            float((law.tail(w + 1, True) + law.tail(-w - 1, False)).mid()) if w >= 0 else 1.0
            for w in (width - 1, width)
        ]
    part = smooth - (width - 0.5)
    assert math.isclose(beyond[0] * (1 - part) + beyond[1] * part, 1 - confidence, abs_tol=1e-9)
    if name in ("gaussian", "discrete_gaussian") and scale >= 100:
        normal = float(stats.norm.ppf((1 + confidence) / 2)) * scale
        assert math.isclose(smooth, normal, rel_tol=1e-4)
