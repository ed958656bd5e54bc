"""The claimed privacy loss against the mechanism's own masses on neighboring answers."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.privacy.event import Event
from dprelease.privacy.unit import Move, Sensitivity
from tests.reference.read import number, rows

NAMES = registry.names()
SCALES = (0.3, 1.0, 7.5, 40.0)
SHIFTS = (1, 2, 7)
EPSILONS = (-3.0, -0.5, 0.0, 0.1, 0.5, 1.0, 2.0, 5.0)


def hockey_sticks(law: Mechanism, shift: int, epsilon: float) -> tuple[float, float]:
    """Return sum over k of max(0, P(k) - e^eps P(k - shift)), and with the shift reversed."""
    reach = int(30 * law.scale) + shift + 3
    before, ctx.prec = ctx.prec, 160
    try:
        tails = [law.tail(k, True) for k in range(-reach, reach + 2)]
        mass = [a - b for a, b in zip(tails, tails[1:], strict=False)]
        factor = arb(epsilon).exp()
        found = []
        for sign in (1, -1):
            total = arb(0)
            for i in range(shift, len(mass) - shift):
                gain = mass[i] - factor * mass[i - sign * shift]
                total += gain if gain > 0 else 0
            found.append(float(total.lower()))
    finally:
        ctx.prec = before
    return found[0], found[1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shift", SHIFTS)
def test_claimed_delta_covers_the_masses_in_both_directions(
    name: str, scale: float, shift: int
) -> None:
    law = registry.get(name).of(scale=scale)
    (loss,) = law.losses(shift)
    for epsilon in EPSILONS:
        for smaller in range(1, shift + 1):
            for found in hockey_sticks(law, smaller, epsilon) if scale < 2 else ():
                assert loss.delta(epsilon) >= found - 1e-30
        for found in hockey_sticks(law, shift, epsilon):
            assert loss.delta(epsilon) >= found - 1e-30
            if name.startswith("discrete") and found > 1e-25:
                assert loss.delta(epsilon) <= found * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_check_of_delta_can_fail(name: str) -> None:
    """A claim for a shift of 1 does not cover masses 2 apart, nor a claim for 10 % more noise."""
    law = registry.get(name).of(scale=7.5)
    (claim,) = law.losses(1)
    assert any(claim.delta(e) < max(hockey_sticks(law, 2, e)) for e in (0.0, 0.1))
    (noisier,) = registry.get(name).of(scale=7.5 * 1.1).losses(2)
    assert any(noisier.delta(e) < max(hockey_sticks(law, 2, e)) for e in (0.0, 0.1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [*SCALES, 1023.0, 1025.0, 2.0**20])
@pytest.mark.parametrize("shift", [1, 5, 400])
def test_masses_add_up_to_the_curve(name: str, scale: float, shift: int) -> None:
    """P and Q masses each sum to 1, and give back delta at every edge."""
    (loss,) = registry.get(name).of(scale=scale).losses(shift)
    if loss.span > 50:  # no budget reaches such a loss: one short check of the totals is enough
        p, q = loss.masses(np.array([0.0]))
        assert abs(p.sum() - 1) + abs(q.sum() - 1) < 1e-9
        return
    edges = np.linspace(-loss.span, loss.span, 4001)
    p, q = loss.masses(edges)
    assert np.all(p >= 0)
    assert np.all(q >= 0)
    assert abs(p.sum() - 1) < 1e-9
    assert abs(q.sum() - 1) < 1e-9
    for i in range(0, 4001, 500):
        curve = p[i + 1 :].sum() - math.exp(edges[i]) * q[i + 1 :].sum()
        assert abs(curve - loss.delta(edges[i])) <= 1e-9 + 1e-6 * loss.delta(edges[i])


@pytest.mark.parametrize("name", NAMES)
def test_the_price_rises_with_the_shift_and_falls_with_the_noise(name: str) -> None:
    """Less noise never costs less (V51)."""
    kind = registry.get(name)
    for epsilon in (0.0, 0.3, 1.0):
        by_shift = [kind.of(scale=5.0).losses(shift)[0].delta(epsilon) for shift in range(1, 12)]
        assert all(a <= b for a, b in zip(by_shift, by_shift[1:], strict=False))
        by_scale = [kind.of(scale=s).losses(3)[0].delta(epsilon) for s in (1.0, 1.5, 4.0, 30.0)]
        assert all(a >= b for a, b in zip(by_scale, by_scale[1:], strict=False))


def at_least(found: float, reference: str, tolerance: float = 1e-10) -> None:
    """Assert found >= reference, and that it is no more than `tolerance` above."""
    exact = float(reference)
    assert found >= exact * (1 - 2**-50)
    assert found <= exact * (1 + tolerance) + 1e-15


@pytest.mark.parametrize("row", rows("laplace_delta"), ids=str)
def test_laplace_reference(row: dict[str, str]) -> None:
    scale, shift = float(row["scale"]), float(row["sensitivity"])
    # The loss depends on the ratio alone: a shift that is no whole step is scaled to one.
    (loss,) = registry.get("laplace").of(scale=scale / shift).losses(1)
    at_least(loss.delta(number(row["epsilon"])), row["delta"], 1e-6)


@pytest.mark.parametrize("row", rows("gaussian_delta"), ids=str)
def test_gaussian_reference(row: dict[str, str]) -> None:
    sigma, shift = float(row["sigma"]), float(row["l2_sensitivity"])
    (loss,) = registry.get("gaussian").of(scale=sigma / shift).losses(1)
    at_least(loss.delta(number(row["epsilon"])), row["delta"])


@pytest.mark.parametrize("row", rows("discrete_laplace_delta"), ids=str)
def test_discrete_laplace_reference(row: dict[str, str]) -> None:
    law = registry.get("discrete_laplace").of(scale=float(row["scale_t"]))
    (loss,) = law.losses(int(row["sensitivity"]))
    at_least(loss.delta(number(row["epsilon"])), row["delta"], 1e-6)


@pytest.mark.parametrize("row", rows("discrete_gaussian_delta"), ids=str)
def test_discrete_gaussian_reference(row: dict[str, str]) -> None:
    law = registry.get("discrete_gaussian").of(scale=float(row["sigma2"]) ** 0.5)
    (loss,) = law.losses(int(row["sensitivity"]))
    # The scale is a float, sigma2 is not its square to the bit: the tolerance is two-sided.
    assert loss.delta(number(row["epsilon"])) == pytest.approx(
        float(row["delta"]), rel=1e-9, abs=1e-300
    )


@pytest.mark.parametrize("row", rows("discrete_noise_moments"), ids=str)
def test_moments_reference(row: dict[str, str]) -> None:
    parameter = float(row["scale_t_or_sigma2"])
    scale = parameter if row["family"] == "discrete_laplace" else parameter**0.5
    law = registry.get(row["family"]).of(scale=scale)
    assert law.standard_deviation**2 == pytest.approx(float(row["variance"]), rel=1e-9)
    assert law.mean_absolute_error == pytest.approx(float(row["mean_abs"]), rel=1e-9)
    for k, column in ((3, "sf_at_3_inclusive"), (12, "sf_at_12_inclusive")):
        assert float(law.upper_tail(k)) == pytest.approx(float(row[column]), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_an_event_survives_json(name: str) -> None:
    for scale in (0.1, 1 / 3, 12345.6789, 2.0**49):
        law = registry.get(name).of(scale=scale)
        event = Event("q", "c", name, law.parameters, Sensitivity(2, (Move(3, 1), Move(2, 2))))
        back = Event.from_json(json.loads(json.dumps(event.to_json())))
        assert back == event
        assert registry.get(back.mechanism).of(**dict(back.parameters)) == law


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [0.0, -1.0, 9e-4, 2.0**50 * 1.01, math.inf, math.nan])
def test_scales_out_of_range_are_refused(name: str, scale: float) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-00[13]"):
        registry.get(name).of(scale=scale)


def test_unknown_parameters_and_names_are_refused() -> None:
    with pytest.raises(BudgetError, match="DP-MECH-002"):
        registry.get("laplace").of(scale=1.0, k=2.0)
    with pytest.raises(BudgetError, match="DP-MECH-003"):
        registry.get("laplace").of()
    with pytest.raises(BudgetError, match="did you mean 'laplace'"):
        registry.get("laplce")


def test_registry_is_complete_and_unique() -> None:
    kinds = [registry.get(name) for name in NAMES]
    assert [kind.name for kind in kinds] == list(NAMES)
    assert len({kind.summary for kind in kinds}) == len(kinds)
    assert {"laplace", "discrete_laplace", "gaussian", "discrete_gaussian"} <= set(NAMES)
    assert set(registry.pure_names()) == {kind.name for kind in kinds if kind.pure}


def test_pure_epsilon_is_exact_or_rounded_up() -> None:
    for name in registry.pure_names():
        for scale in (0.3, 7.0, 1e5):
            (loss,) = registry.get(name).of(scale=scale).losses(3)
            assert Fraction(loss.pure_epsilon) >= Fraction(3) / Fraction(scale)
            assert loss.delta(loss.pure_epsilon) == 0.0
