"""The claimed privacy loss against the probabilities of the mechanism on neighbouring answers."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.privacy.guarantee import Event
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.unit import Move, Sensitivity
from tests.covering import spread
from tests.mechanisms.laws import KINDS, hockey_sticks, law_of, laws, renyi
from tests.reference.read import number, rows

NAMES = registry.names()
SCALES = (0.3, 1.0, 7.5, 40.0)
SHIFTS = (1, 2, 7)
EPSILONS = (-3.0, -0.5, 0.0, 0.1, 0.5, 1.0, 2.0, 5.0)


def claim(losses: tuple[PrivacyLoss, ...], epsilon: float) -> float:
    """Return the claimed delta: the largest of all curves."""
    return max(loss.delta(epsilon) for loss in losses)


CLAIMS = [
    (name, shape, scale, shift) for shift in SHIFTS for name, shape, scale in laws(SCALES, shift)
]


@pytest.mark.share(0.2, by="name")
@pytest.mark.parametrize(("name", "shape", "scale", "shift"), spread(CLAIMS, 0.2))
def test_claimed_delta_covers_both_directions(
    name: str, shape: int, scale: float, shift: int
) -> None:
    law = law_of(name, scale, shape, shift)
    losses = law.losses(shift)
    smaller = range(1, shift + 1) if scale < 2 else (shift,)
    for epsilon in EPSILONS:
        claimed = claim(losses, epsilon)
        for step in smaller:  # the shift itself comes last
            found = max(hockey_sticks(law, step, epsilon))
            assert claimed >= found - 1e-30
        if name.startswith("discrete") and found > 1e-25:
            assert claimed <= found * (1 + 1e-9)


@pytest.mark.share(0.5, by="name")
@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_smaller_claims_of_delta_fail(name: str, shape: int) -> None:
    """A claim for a shift of 1 does not cover masses 2 apart, nor a claim for 10 % more noise."""
    law = law_of(name, 7.5, shape, 2)
    least = law.losses(1)
    assert any(claim(least, e) < max(hockey_sticks(law, 2, e)) for e in (0.0, 0.1))
    noisier = law_of(name, 7.5 * 1.1, shape, 2).losses(2)
    assert any(claim(noisier, e) < max(hockey_sticks(law, 2, e)) for e in (0.0, 0.1))


@pytest.mark.share(0.25, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), laws((0.7, 6.0), 3))
def test_renyi_covers_the_probabilities(name: str, shape: int, scale: float) -> None:
    """The claimed curve lies above the masses' own, grows with the order, and is tight if exact."""
    law = law_of(name, scale, shape, 3)
    before = 0.0
    for order in (1.0625, 2.0, 8.5):
        claimed = max(loss.renyi(order) for loss in law.losses(3))
        found = renyi(law, 3, order)
        assert claimed >= found * (1 - 1e-9)
        assert claimed >= before * (1 - 1e-9)
        if name.startswith("discrete"):
            assert claimed == pytest.approx(found, rel=1e-9)
        before = claimed


PIECES = [
    (name, shape, scale, shift)
    for shift in (1, 5, 400)
    for name, shape, scale in laws((*SCALES, 1023.0, 1025.0, 2.0**20), shift)
]


@pytest.mark.share(0.5, by="name")
@pytest.mark.parametrize(("name", "shape", "scale", "shift"), spread(PIECES))
def test_pieces_bracket_the_delta_curve(name: str, shape: int, scale: float, shift: int) -> None:
    """P and Q masses each sum to 1, lie within their losses, and bracket delta."""
    for loss in law_of(name, scale, shape, shift).losses(shift):
        width = min(loss.largest_relevant_loss, 50.0) / 2000
        pieces = loss.pieces(width)
        assert np.all(pieces.p >= 0)
        assert np.all(pieces.q >= 0)
        assert abs(pieces.p.sum() - 1) < 1e-9
        assert abs(pieces.q.sum() - 1) < 1e-9
        # Products with masses that floats hardly hold say nothing.
        seen = (pieces.p > 1e-250) & (pieces.q > 1e-250)
        ratio = np.log(pieces.p[seen]) - np.log(pieces.q[seen])
        assert np.all(ratio >= pieces.low[seen] - 1e-9 * (1 + np.abs(ratio)))
        assert np.all(ratio <= pieces.high[seen] + 1e-9 * (1 + np.abs(ratio)))
        for epsilon in np.linspace(-1.0, 1.0, 9) * min(loss.largest_relevant_loss, 50.0):
            gain = pieces.p - math.exp(epsilon) * pieces.q
            curve = float(gain[gain > 0].sum())
            exact = loss.delta(float(epsilon))
            # A piece that epsilon cuts in two may hide part of its gain: its width bounds that.
            assert curve <= exact * (1 + 1e-6) + 1e-9
            assert exact <= curve + 2 * width + 1e-9


@pytest.mark.share(0.2, by="name")
@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_delta_grows_with_shift_and_falls_with_noise(name: str, shape: int) -> None:
    """Less noise never costs less (V51)."""
    for epsilon in (0.0, 0.3, 1.0):
        law = law_of(name, 5.0, shape, 11)
        by_shift = [claim(law.losses(shift), epsilon) for shift in range(1, 12)]
        assert all(a <= b for a, b in zip(by_shift, by_shift[1:], strict=False))
        by_scale = [
            claim(law_of(name, scale, shape, 3).losses(3), epsilon)
            for _, _, scale in [
                law for law in laws((1.0, 1.5, 4.0, 30.0), 3) if law[:2] == (name, shape)
            ]
        ]
        assert all(a * (1 + 1e-12) >= b for a, b in zip(by_scale, by_scale[1:], strict=False))


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


@pytest.mark.parametrize(("name", "shape", "scale"), laws((0.1, 1 / 3, 12345.6789, 2.0**49)))
def test_event_survives_json(name: str, shape: int, scale: float) -> None:
    for _ in (1,):
        law = law_of(name, scale, shape)
        event = Event("q", "c", name, law.parameters, Sensitivity(2, (Move(3, 1), Move(2, 2))))
        back = Event.from_json(json.loads(json.dumps(event.to_json())))
        assert back == event
        assert registry.get(back.mechanism).of(**dict(back.parameters)) == law


@pytest.mark.parametrize(("name", "shape"), KINDS)
@pytest.mark.parametrize("scale", [0.0, -1.0, 9e-4, 2.0**50 * 1.01, math.inf, math.nan])
def test_scales_out_of_range_are_refused(name: str, shape: int, scale: float) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-00[135]"):
        law_of(name, scale, shape)


@pytest.mark.parametrize(("name", "shape"), KINDS)
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, -1e300, "1; drop"])
def test_fields_out_of_their_domain_are_refused(name: str, shape: int, bad: float | str) -> None:
    """Whatever field is bad, the error names the mechanism, and no law comes out."""
    law = law_of(name, 7.5, shape)
    good = dict(law.parameters)
    for field in good:
        with pytest.raises(BudgetError, match=rf"DP-MECH-00[135].*\n?.*{name}"):
            type(law).of(**{**good, field: bad})


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


@pytest.mark.parametrize(("name", "shape", "scale"), laws((0.3, 7.0, 1e5), 3))
def test_pure_epsilon_bounds_the_curve(name: str, shape: int, scale: float) -> None:
    law = law_of(name, scale, shape, 3)
    largest = max(loss.pure_epsilon for loss in law.losses(3))
    assert math.isfinite(largest) == law.pure
    if law.pure:
        assert claim(law.losses(3), largest) == 0.0
    if name in ("laplace", "discrete_laplace"):
        assert Fraction(largest) >= Fraction(3) / Fraction(scale)
