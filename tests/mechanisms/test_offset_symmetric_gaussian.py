"""Offset-symmetric Gaussian tails against the paper's values and against its two limits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import BudgetError
from dprelease.mechanisms.offset_symmetric_gaussian import OffsetSymmetricGaussian
from dprelease.numerics.balls import LEAST_FLOAT
from dprelease.privacy.losses.normal import normal_delta
from dprelease.privacy.losses.offset_gaussian import (
    OffsetGaussianLoss,
    interval_probability,
    moments,
)
from tests.reference.read import rows

STEPS = 2**12
"""Lattice steps in one unit of the paper."""


def in_units(row: dict[str, str]) -> OffsetGaussianLoss:
    sigma = math.sqrt(float(row["sigma2"]))
    return OffsetGaussianLoss(
        Fraction(float(row["sensitivity"]) / sigma), Fraction(float(row["m"]) / sigma)
    )


@pytest.mark.parametrize("row", rows("osgt_delta"), ids=str)
def test_delta_reference(row: dict[str, str]) -> None:
    found = in_units(row).delta(float(row["epsilon"]))
    exact = max(float(row["delta"]), LEAST_FLOAT)
    # m / sigma and 1 / sigma are floats here: delta may be off by what their last bits do.
    assert found == pytest.approx(exact, rel=1e-11, abs=LEAST_FLOAT)


@pytest.mark.parametrize("row", rows("osgt_delta"), ids=str)
def test_moments_reference(row: dict[str, str]) -> None:
    sigma = math.sqrt(float(row["sigma2"]))
    first, second = moments(float(row["m"]) / sigma)
    assert sigma * first == pytest.approx(float(row["mean_abs"]), rel=1e-12)
    assert sigma**2 * second == pytest.approx(float(row["variance"]), rel=1e-12)
    law = OffsetSymmetricGaussian.design(sigma * STEPS, ratio=float(row["m"]) / sigma)
    assert law.mean_absolute_error / STEPS == pytest.approx(float(row["mean_abs"]), rel=1e-6)
    assert (law.standard_deviation / STEPS) ** 2 == pytest.approx(float(row["variance"]), rel=1e-6)


@pytest.mark.parametrize("row", rows("osgt_renyi"), ids=str)
def test_renyi_reference(row: dict[str, str]) -> None:
    found = in_units(row).renyi(float(row["order"]))
    assert found == pytest.approx(float(row["renyi_divergence"]), rel=1e-12)


@pytest.mark.parametrize("row", rows("osgt_sf"), ids=str)
def test_survival_reference(row: dict[str, str]) -> None:
    sigma = math.sqrt(float(row["sigma2"]))
    law = OffsetSymmetricGaussian.design(sigma * STEPS, ratio=float(row["m"]) / sigma)
    k = round(float(row["y"]) * STEPS)
    around = [float(law.tail(k + i, True)) for i in (0, 1)]
    assert around[1] < float(row["sf"]) < around[0]
    assert sum(around) / 2 == pytest.approx(float(row["sf"]), rel=1e-4)


def test_figures_of_the_paper() -> None:
    """Variance 27.7047; delta(1) 7.8e-12; at delta 1e-10 epsilon 0.94 against 1.12."""
    sigma = math.sqrt(40.0)
    loss = OffsetGaussianLoss(Fraction(1 / sigma), Fraction(3 / sigma))
    variance = 40 * moments(3 / sigma)[1]
    assert f"{variance:.4f}" == "27.7047"
    assert f"{loss.delta(1.0):.1e}" == "7.8e-12"
    mu = 1 / math.sqrt(variance)
    assert f"{normal_delta(mu, 1.0):.1e}" == "3.9e-09"
    assert loss.delta(0.945) < 1e-10 < loss.delta(0.935)
    assert normal_delta(mu, 1.125) < 1e-10 < normal_delta(mu, 1.115)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("order", [1.01, 2.0, 7.5])
@pytest.mark.parametrize("r", [0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("d", [0.01, 1.0, 4.0])
def test_renyi_equals_the_integral(order: float, r: float, d: float) -> None:
    """Eq. (56) against quadrature of p^a q^(1 - a), split where the loss has its kinks."""
    loss = OffsetGaussianLoss(Fraction(d), Fraction(r))
    peak = (order - 1) * d + 40  # the integrand's mode lies above minus this

    def power(z: acb, _analytic: bool, low: bool, high: bool) -> acb:
        """Return the integrand where z <= 0 (low) and where z >= d (high)."""
        p = -(z * z) / 2 + (r * z if low else -r * z)
        away = z - d
        q = -(away * away) / 2 + (-r * away if high else r * away)
        return (order * p + (1 - order) * q).exp()

    with ctx.workprec(128):
        parts = [
            acb.integral(lambda z, a: power(z, a, True, False), arb(-peak - r), arb(0)),
            acb.integral(lambda z, a: power(z, a, False, False), arb(0), arb(d)),
            acb.integral(lambda z, a: power(z, a, False, True), arb(d), arb(d + 40)),
        ]
        ratio = arb(r)
        root = arb(2).sqrt()
        norm = (ratio**2 / 2).exp() * (2 * arb.pi()).sqrt() * (ratio / root).erfc()
        exact = (sum((part.real for part in parts), arb(0)) / norm).log() / (order - 1)
    assert loss.renyi(order) == pytest.approx(float(exact), rel=1e-9)


@given(st.floats(2.0**-10, 32.0), st.floats(1e-4, 8.0))
def test_renyi_bound_at_large_orders(r: float, d: float) -> None:
    """Theorem 2: beyond an order, D_a / a stays below what is claimed there."""
    loss = OffsetGaussianLoss(Fraction(d), Fraction(r))
    for order in (40.0, 1e4):
        assert all(
            loss.renyi(a * order) / (a * order) <= loss.renyi_ratio_bound(order)
            for a in (1.0, 1.5, 20.0)
        )


@pytest.mark.parametrize("ratio", [2.0**-10, 0.5, 5.0, 32.0])
def test_float_probabilities_are_accurate(ratio: float) -> None:
    """Masses used in compositions, against balls: 2^-30 relative, narrow and wide cells alike."""
    edges = np.concatenate((-np.geomspace(30, 1e-9, 60), [0.0], np.geomspace(1e-9, 30, 60)))
    found = interval_probability(edges[:-1], edges[1:], ratio)
    law = OffsetSymmetricGaussian.design(1.0, ratio=ratio)
    losses = law.losses(1)[0]
    with ctx.workprec(2000):
        below = [losses._probability_below(Fraction(z)) for z in edges.tolist()]
        for i, value in enumerate(found.tolist()):
            exact = float(below[i + 1] - below[i])
            assert value == pytest.approx(exact, rel=2.0**-30, abs=1e-300)


def test_ratio_limits_are_gaussian_and_laplace() -> None:
    """Ratio near 0 prices like Gaussian noise, a large one nearly like Laplace noise."""
    small = OffsetSymmetricGaussian.design(1000.0, ratio=2.0**-10)
    for epsilon in (0.0, 0.1, 0.5):
        assert small.losses(100)[0].delta(epsilon) == pytest.approx(
            normal_delta(0.1, epsilon), rel=0.02
        )
    large = OffsetSymmetricGaussian.design(32_000.0, ratio=32.0)
    assert large.losses(1000)[0].delta(0.5) == pytest.approx(-math.expm1(-0.25), rel=0.01)


@pytest.mark.parametrize("ratio", ["0", "-1", "nan", "33", "inf", "0.0001"])
def test_invalid_ratios_are_refused(ratio: str) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-00[35].*\n?.*offset_symmetric_gaussian"):
        OffsetSymmetricGaussian.design(7.0, ratio=ratio)
