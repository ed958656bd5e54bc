"""Generalized Gaussian noise: reference values, quantiles, divergence, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx

from dprelease.errors import BudgetError
from dprelease.mechanisms.gaussian import Gaussian
from dprelease.mechanisms.generalized_gaussian import GeneralizedGaussian, PowerLoss
from dprelease.numerics import power_tail
from tests.reference.read import rows


@pytest.mark.parametrize("row", rows("generalized_gaussian"), ids=str)
def test_reference(row: dict[str, str]) -> None:
    """One unit is 2^20 steps, so that rounding does not show."""
    steps = 2**20
    law = GeneralizedGaussian(float(row["b"]) * steps, float(row["p"]))
    assert law.mean_absolute_error / steps == pytest.approx(float(row["mean_abs"]), rel=1e-12)
    variance = law.standard_deviation**2 - 1 / 12
    assert variance / steps**2 == pytest.approx(float(row["variance"]), rel=1e-12)
    found = law.losses(steps)[0].delta(float(row["epsilon"]))
    exact = float(row["delta_sensitivity_1"])
    assert exact * (1 - 2**-50) <= found <= exact * (1 + 1e-10) + 1e-15


@pytest.mark.parametrize("power", [1.0, 1.01, 1.5, 2.0, 3.7, 8.0])
def test_quantiles_are_within_their_error_bounds(power: float) -> None:
    """Where a quantile is sure, the tails 2**-41 beside it lie on either side of u."""
    u = np.concatenate((np.geomspace(2.0**-20, 0.49999, 150), 0.5 - np.geomspace(1e-9, 0.1, 30)))
    y, sure = power_tail.quantile(power, u)
    assert np.mean(sure) > 0.9
    with ctx.workprec(120):
        for at, position in zip(u[sure], y[sure], strict=True):
            low, high = arb(float(position)) - arb(2) ** -41, arb(float(position)) + arb(2) ** -41
            assert power_tail.tail_ball(power, high) < float(at)
            assert power_tail.tail_ball(power, low) > float(at)


@pytest.mark.parametrize("power", [1.0, 1.3, 2.0, 5.5, 8.0])
def test_float_tails_keep_their_digits(power: float) -> None:
    y = np.concatenate((np.geomspace(1e-9, 1, 40), np.linspace(1, 600 ** (1 / power), 60)))
    with ctx.workprec(160):
        for at, found, inside in zip(
            y, power_tail.tail(power, y), power_tail.probability_from_zero(power, y), strict=True
        ):
            exact = power_tail.tail_ball(power, arb(float(at)))
            assert abs(arb(float(found)) / exact - 1) < 1e-12
            assert abs(arb(float(inside)) / (arb(1) / 2 - exact) - 1) < 1e-12


@pytest.mark.parametrize("scale", [1023.5, 1024.5])
@pytest.mark.parametrize("power", [1.0, 1.2, 2.0, 6.0])
def test_moments_are_continuous_between_formulas(scale: float, power: float) -> None:
    law = GeneralizedGaussian(scale, power)
    k = np.arange(1.0, scale * 700 ** (1 / power))
    tails = power_tail.tail(power, (k - 0.5) / scale)
    assert law.mean_absolute_error == pytest.approx(2 * math.fsum(tails), rel=1e-10)
    variance = 2 * math.fsum((2 * k - 1) * tails)
    assert law.standard_deviation**2 == pytest.approx(variance, rel=1e-10)


@pytest.mark.parametrize("epsilon", [-3.0, -0.1, 0.0, 0.5, 2.0, 30.0])
def test_power_two_is_the_gaussian(epsilon: float) -> None:
    law, other = GeneralizedGaussian(7.0 * math.sqrt(2), 2.0), Gaussian(7.0)
    found, exact = law.losses(5)[0].delta(epsilon), other.losses(5)[0].delta(epsilon)
    assert found == pytest.approx(exact, rel=1e-11 * (1 + epsilon**2), abs=1e-300)
    assert law.losses(5)[0].normal_mu == pytest.approx(5 / 7)


def test_power_one_is_laplace_and_pure() -> None:
    (loss,) = GeneralizedGaussian(4.0, 1.0).losses(3)
    assert loss.pure_epsilon == 0.75
    assert loss.delta(0.75) == 0.0


@pytest.mark.share(0.5)
@pytest.mark.parametrize("power", [1.1, 1.5, 2.5, 6.0])
@pytest.mark.parametrize("shift", [1, 40, 900])
def test_delta_equals_the_integral(power: float, shift: int) -> None:
    """A Riemann sum of the gains brackets the claimed delta."""
    loss = PowerLoss(power, 100.0, shift)
    y = np.linspace(-30, 40, 700001)
    y = (y[1:] + y[:-1]) / 2
    p = np.exp(-(np.abs(y) ** power)) * power_tail.density(power)
    q = np.exp(-(np.abs(y - shift / 100) ** power)) * power_tail.density(power)
    for epsilon in (-0.5, 0.0, 0.02, 1.0, 4.0):
        found = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0))) * 1e-4
        assert loss.delta(epsilon) == pytest.approx(found, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("order", [1.1, 2.0, 4.0])
@pytest.mark.parametrize("move", [0.01, 0.5])
def test_renyi_bounds_the_integral(power: float, order: float, move: float) -> None:
    scale = 2.0**10
    loss = PowerLoss(power, scale, max(1, round(move * scale)))
    move = loss.shift / scale

    def integral(low: float, high: float) -> arb:
        """Return the integral between ends on which neither y nor y - move changes its sign."""
        near, away = (1 if low >= 0 else -1), (1 if low >= move else -1)

        def tilted(z: acb, _: object) -> acb:
            grows = (order - 1) * (away * (z - arb(move))) ** arb(power)
            return (grows - order * (near * z) ** arb(power)).exp()

        return acb.integral(tilted, acb(low), acb(high)).real

    with ctx.workprec(100):
        total = integral(-12.0, 0.0) + integral(0.0, move) + integral(move, 12.0)
    assert float(total.rad()) < 1e-12
    exact = math.log(float(total) * power_tail.density(power)) / (order - 1)
    found = loss.renyi(order)
    assert exact - 1e-12 <= found <= exact * (1 + 1e-4) + 1e-8 / (order - 1)
    if power == 2.0:
        assert found >= order * move**2 * (1 - 1e-12)


def test_far_deltas_are_not_zero() -> None:
    (loss,) = GeneralizedGaussian(10.0, 3.0).losses(1)
    assert 0.0 < loss.delta(90.0) < 1e-100
    assert loss.delta(500.0) == 5e-324


@pytest.mark.parametrize("p", [0.99, 8.01])
def test_bad_powers_are_refused(p: float) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-005[\s\S]*1\.0 to 8\.0"):
        GeneralizedGaussian.of(scale=3.0, p=p)
