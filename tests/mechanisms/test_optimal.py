"""Optimal integer noise: the optimum, its proof, its record, and refusals."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.optimal import LARGEST_SHIFT, Optimal, least_error
from dprelease.numerics.least_noise import (
    hockey_stick_divergence,
    parse_masses,
    rational_exp,
    solve,
)
from dprelease.privacy.guarantee import Event
from dprelease.privacy.unit import Move, Sensitivity
from tests.mechanisms.laws import hockey_sticks


def one_move(shift: int) -> Sensitivity:
    return Sensitivity(1, (Move(shift, 1),))


def designed(epsilon: float, delta: float, shift: int, measure: str = "mae") -> Optimal:
    return Optimal.design(shift / epsilon, one_move(shift), delta=delta, optimise=measure)


def plain_program(epsilon: float, delta: float, shift: int, power: int, reach: int) -> float:
    """Return the least error of a symmetric unimodal pmf on -reach..reach: all shifts, all gains.

    Nothing is assumed of the solution's form: one column for each mass and for each gain of each
    shift, and no rescaling, so delta has to be far above the solver's tolerance.
    """
    ks = range(-reach - shift, reach + 1)
    columns = reach + 1 + len(ks) * shift
    entries: list[tuple[int, int, float]] = []
    bounds: list[float] = []
    for s in range(1, shift + 1):
        gains = range(reach + 1 + (s - 1) * len(ks), reach + 1 + s * len(ks))
        for gain, k in zip(gains, ks, strict=True):
            row = len(bounds)
            entries += [(row, abs(k), 1.0)] if abs(k) <= reach else []
            entries += [(row, abs(k + s), -math.exp(epsilon))] if abs(k + s) <= reach else []
            entries.append((row, gain, -1.0))
            bounds.append(0.0)
        entries += [(len(bounds), gain, 1.0) for gain in gains]
        bounds.append(delta)
    for k in range(reach):
        entries += [(len(bounds), k, -1.0), (len(bounds), k + 1, 1.0)]
        bounds.append(0.0)
    row, column, value = zip(*entries, strict=True)
    weights, errors = np.zeros(columns), np.zeros(columns)
    weights[: reach + 1] = 2.0
    weights[0] = 1.0
    errors[: reach + 1] = 2.0 * np.arange(reach + 1) ** float(power)
    found = linprog(
        errors,
        A_ub=sparse.csr_array((value, (row, column)), shape=(len(bounds), columns)),
        b_ub=bounds,
        A_eq=weights[None, :],
        b_eq=[1.0],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    return float(found.fun)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(
    ("epsilon", "delta", "shift"),
    [(1.0, 0.05, 1), (1.0, 1e-3, 3), (0.5, 0.01, 4), (2.0, 1e-3, 5), (0.3, 0.1, 3), (1.0, 0.3, 4)],
)
def test_reduced_program_reaches_the_full_optimum(
    epsilon: float, delta: float, shift: int, power: int
) -> None:
    found = solve(epsilon, delta, shift, power)
    reach = shift * (found.last_period + 6) + 3
    plain = plain_program(epsilon, delta, shift, power, reach)
    assert found.error == pytest.approx(plain, rel=1e-7)


CASES = [
    (1.0, 1e-9, 1),
    (0.05, 1e-6, 2),
    (1.0, 1e-9, 7),
    (3.0, 0.01, 12),
    (12.0, 1e-12, 5),
    (1.0, 1e-15, 64),
]


@pytest.mark.share(0.5)
@pytest.mark.parametrize("measure", ["mae", "mse"])
@pytest.mark.parametrize(("epsilon", "delta", "shift"), CASES)
def test_guarantee_holds_exactly_for_every_shift(
    epsilon: float, delta: float, shift: int, measure: str
) -> None:
    """Both directions and every k, in rational arithmetic, with a factor below exp(epsilon)."""
    law = designed(epsilon, delta, shift, measure)
    factor = 1 / rational_exp(-Fraction(epsilon))
    masses = dict(enumerate(law.masses))
    total = sum(masses.values()) * 2 - masses[0]
    for s in {1, shift // 2, shift - 1, shift} - {0}:
        for sign in (-1, 1):
            ks = range(-len(masses) - s, len(masses) + s)
            gains = (masses.get(abs(k), 0) - factor * masses.get(abs(k + sign * s), 0) for k in ks)
            assert sum(gain for gain in gains if gain > 0) <= Fraction(delta) * total
    (loss,) = law.losses(shift)
    assert loss.delta(epsilon) <= delta
    if epsilon < 10 and delta > 1e-12:  # else delta is too small a part for the solver to care
        assert loss.delta(epsilon) >= delta * 0.99


@pytest.mark.each
@pytest.mark.parametrize("measure", ["mae", "mse"])
@pytest.mark.parametrize(("epsilon", "delta", "shift"), CASES)
def test_error_is_the_optimum(epsilon: float, delta: float, shift: int, measure: str) -> None:
    law = designed(epsilon, delta, shift, measure)
    error = law.mean_absolute_error if measure == "mae" else law.standard_deviation
    assert error == pytest.approx(least_error(epsilon, delta, shift, measure), rel=1e-6)


@pytest.mark.each
@pytest.mark.parametrize("name", ["discrete_laplace", "discrete_gaussian", "laplace", "staircase"])
@pytest.mark.parametrize(("epsilon", "delta", "shift"), CASES[:4])
def test_no_mechanism_has_less_error(name: str, epsilon: float, delta: float, shift: int) -> None:
    kind = registry.get(name)
    low, high = 0.05 * shift, 1000.0 * shift / epsilon
    for _ in range(40):
        middle = math.sqrt(low * high)
        losses = kind.design(middle, one_move(shift)).losses(shift)
        private = max(loss.delta(epsilon) for loss in losses) <= delta
        low, high = (low, middle) if private else (middle, high)
    law = kind.design(high, one_move(shift))
    assert law.mean_absolute_error >= least_error(epsilon, delta, shift) * (1 - 1e-7)
    assert law.standard_deviation >= least_error(epsilon, delta, shift, "mse") * (1 - 1e-7)


def test_optimum_without_delta_is_the_staircase() -> None:
    for shift in (1, 3, 8):
        pure = least_error(1.0, 0.0, shift)
        assert least_error(1.0, 1e-12, shift) == pytest.approx(pure, rel=1e-9)
        assert least_error(1.0, 1e-3, shift) < pure


def test_large_shifts_are_scaled() -> None:
    assert least_error(1.0, 1e-6, 10**6) / 10**6 == pytest.approx(
        least_error(1.0, 1e-6, 200) / 200, rel=1e-5
    )
    with pytest.raises(ValueError, match="mae or mse"):
        least_error(1.0, 0.1, 1, "median")


@pytest.mark.parametrize("shift", [1, 2, 5, 9, 60])
def test_delta_curve_is_exact(shift: int) -> None:
    law = designed(1.0, 1e-5, 5)
    (loss,) = law.losses(shift)
    for epsilon in (-2.0, 0.0, 0.3, 0.99, 1.01, 4.0, 40.0):
        found = max(hockey_sticks(law, shift, epsilon))
        assert found * (1 - 1e-12) <= loss.delta(epsilon) <= found * (1 + 1e-9)


def test_recorded_probabilities_survive_json() -> None:
    law = designed(1.0, 1e-9, 64)
    text = dict(law.parameters)["masses"]
    assert parse_masses(text) == law.masses
    assert len(text) < 2000
    event = Event("q", "c", "optimal", law.parameters, one_move(64))
    back = Event.from_json(json.loads(json.dumps(event.to_json())))
    assert Optimal.of(**dict(back.parameters)) == law


@pytest.mark.parametrize(
    "text",
    ["", " ", "0", "5 6", "5 0", "5*0", "-5", "5.0", "5  4", "5*9000", "f" * 65, "5;4", "0x5", "٥"],
)
def test_bad_recorded_probabilities_are_refused(text: str) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-005[\s\S]*'optimal'"):
        Optimal.of(scale=1.0, masses=text)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(BudgetError, match="DP-MECH-002"):
        Optimal.of(scale=1.0, masses="5", width=1.0)
    with pytest.raises(BudgetError, match="DP-MECH-003"):
        Optimal.of(scale=1.0)
    with pytest.raises(BudgetError, match="DP-MECH-002"):
        Optimal.design(1.0, one_move(1), gamma=1.0)
    with pytest.raises(BudgetError, match="mae or mse"):
        Optimal.design(1.0, one_move(1), optimise="median")
    for delta in (0, 1e-21, 0.6, math.nan, -1e-9, "x"):
        with pytest.raises(BudgetError, match=r"1e-20 to 0\.5; with delta 0 the staircase"):
            Optimal.design(1.0, one_move(1), delta=delta)
    with pytest.raises(BudgetError, match="at most 512 steps"):
        Optimal.design(1000.0, one_move(LARGEST_SHIFT + 1))
    for scale in (0.049, 1e3):
        with pytest.raises(BudgetError, match=r"DP-MECH-001[\s\S]*0\.05 to 408"):
            Optimal.design(scale, one_move(1))


def test_wrong_shifts_fail_the_proof() -> None:
    """A law for a shift of 4 does not pass for one of 5, nor with one mass more at its end."""
    law = designed(1.0, 1e-6, 4)
    factor = 1 / rational_exp(Fraction(-1))
    assert hockey_stick_divergence(law.masses, factor, 4) <= Fraction(1e-6)
    assert hockey_stick_divergence(law.masses, factor, 5) > Fraction(1e-6)
    cut = law.masses[:-6]
    assert hockey_stick_divergence(cut, factor, 4) > Fraction(1e-6)
