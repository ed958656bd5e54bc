"""Staircase noise: its optima, its curve, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import ctx

from dprelease.errors import BudgetError
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.staircase import Staircase, StaircaseLoss, mae_gamma, mse_gamma
from dprelease.privacy.unit import Move, Sensitivity
from tests.mechanisms.laws import hockey_sticks, mass
from tests.reference.read import rows


def designed(epsilon: float, width: int, **shape: str | float) -> Staircase:
    return Staircase.design(width / epsilon, Sensitivity(1, (Move(width, 1),)), **shape)


@pytest.mark.parametrize("row", rows("staircase_optimal"), ids=str)
def test_reference(row: dict[str, str]) -> None:
    """On a fine lattice the rounded law has the errors of the continuous one."""
    epsilon, width = float(row["epsilon"]), 2**30
    assert mae_gamma(epsilon) == pytest.approx(float(row["gamma_min_mean_abs"]), rel=1e-12)
    assert mse_gamma(epsilon) == pytest.approx(float(row["gamma_min_power"]), rel=1e-12)
    mae = designed(epsilon, width).mean_absolute_error / width
    assert mae == pytest.approx(float(row["mean_abs"]), rel=1e-12)
    power = (designed(epsilon, width, optimise="mse").standard_deviation / width) ** 2
    assert power == pytest.approx(float(row["power"]), rel=1e-12)


def test_optimal_gamma_is_continuous() -> None:
    assert mse_gamma(1e-4) == pytest.approx(mse_gamma(math.nextafter(1e-4, 0)), rel=1e-11)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("measure", ["mae", "mse"])
def test_no_other_stair_has_less_error(width: int, epsilon: float, measure: str) -> None:
    law = designed(epsilon, width, optimise=measure)
    error = law._error(measure)
    for gamma in np.linspace(0, 1, 4 * width + 1):
        other = Staircase(law.scale, law.width, float(gamma))
        assert error <= other._error(measure) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_width_of_one_step_is_discrete_laplace(epsilon: float) -> None:
    law, other = designed(epsilon, 1), DiscreteLaplace(1 / epsilon)
    with ctx.workprec(150):
        for k in range(12):
            assert law.tail(k, True).overlaps(other.tail(k, True))
    for e in (-2.0, -0.05, 0.0, 0.09, 0.9):
        assert law.losses(1)[0].delta(e) == pytest.approx(other.losses(1)[0].delta(e), rel=1e-14)


@pytest.mark.share(0.4)
@pytest.mark.parametrize(("width", "epsilon"), [(3, 0.3), (6, 2.0), (11, 2.0)])
def test_delta_equals_that_of_integer_noise(width: int, epsilon: float) -> None:
    """Where stairs end between cells, nothing is lost by pricing the continuous law."""
    law = designed(epsilon, width)
    for shift in (1, 2, width - 1, width):
        for e in (-0.7, 0.0, 0.25):
            found = max(hockey_sticks(law, shift, e))
            claimed = law.losses(shift)[0].delta(e)
            assert found - 1e-14 <= claimed <= found * (1 + 1e-9) + 1e-12


@pytest.mark.share(0.4)
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_moves_beyond_a_width_are_covered(gamma: float) -> None:
    law = designed(0.8, 3, gamma=gamma)
    for shift in (1, 3, 4, 6, 8, 11):
        (loss,) = law.losses(shift)
        assert loss.pure_epsilon == pytest.approx(0.8 * math.ceil(shift / 3), rel=1e-12)
        for e in (-1.0, 0.0, 0.79, 1.0):
            assert loss.delta(e) >= max(hockey_sticks(law, shift, e)) - 1e-25


@pytest.mark.parametrize("gamma", [0.0, 0.17, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("scale", [0.3, 2.0, 9.0])
def test_moments_equal_sums_of_probabilities(gamma: float, scale: float) -> None:
    law = Staircase(scale, 5.0, gamma)
    with ctx.workprec(120):
        masses = np.array([float(mass(law, k)) for k in range(1, int(40 * scale) + 50)])
    k = np.arange(1, len(masses) + 1)
    assert law.mean_absolute_error == pytest.approx(2 * np.sum(k * masses), rel=1e-12)
    assert law.standard_deviation**2 == pytest.approx(2 * np.sum(k**2 * masses), rel=1e-12)


def test_renyi_equals_sums_of_probabilities() -> None:
    law = designed(0.7, 4)
    with ctx.workprec(200):
        masses = [float(mass(law, k)) for k in range(-300, 301)]
    for shift in (1, 3, 4):
        for order in (1.001, 2.0, 17.0):
            pairs = zip(masses[shift:], masses, strict=False)
            moment = math.fsum(p * (p / q) ** (order - 1) for p, q in pairs if q > 0)
            found = StaircaseLoss(law, shift).renyi(order)
            assert found >= math.log(moment) / (order - 1) - 1e-12
            assert found == pytest.approx(math.log(moment) / (order - 1), rel=1e-8)
            assert found < 0.7


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"gamma": 1.5}, "'gamma'.*0.0 to 1.0"),
        ({"gamma": 0.5, "optimise": "mae"}, "left out"),
        ({"optimise": "median"}, "mae or mse"),
    ],
)
def test_bad_shapes_are_refused(shape: dict[str, str | float], message: str) -> None:
    with pytest.raises(BudgetError, match=rf"DP-MECH-005[\s\S]*{message}"):
        designed(1.0, 3, **shape)


def test_bad_widths_are_refused() -> None:
    with pytest.raises(BudgetError, match="whole number"):
        Staircase.of(scale=1.0, width=1.5, gamma=0.5)
    with pytest.raises(BudgetError, match=r"DP-MECH-001[\s\S]*2\.0 to 2\^50"):
        Staircase.of(scale=1.0, width=1000.0, gamma=0.5)
