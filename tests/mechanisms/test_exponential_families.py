"""Asymmetric and truncated Laplace noise against their papers' values, and what they refuse."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import ctx
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import BudgetError
from dprelease.mechanisms.asymmetric_laplace import AsymmetricLaplace
from dprelease.mechanisms.truncated_laplace import TruncatedLaplace
from dprelease.privacy.losses.two_sided_exponential import (
    EndSearch,
    TruncatedLoss,
    other_length,
    short_side_bounds,
)
from dprelease.privacy.unit import Move, Sensitivity
from tests.reference.read import rows

STEPS = 2**12
"""Lattice steps in one unit of the papers: fine enough for the continuous values."""


def of_steps(shift: int) -> Sensitivity:
    return Sensitivity(1, (Move(shift, 1),))


@pytest.mark.parametrize("row", rows("asymmetric_laplace"), ids=str)
def test_asymmetric_reference(row: dict[str, str]) -> None:
    epsilon, k = float(row["epsilon"]), row["k"]
    law = AsymmetricLaplace.design(STEPS / epsilon, k=k, debias="false")
    assert law.mean / STEPS == pytest.approx(float(row["mean"]), rel=1e-12, abs=1e-9)
    variance = float(row["variance"]) + 1 / (12 * STEPS**2)
    assert (law.standard_deviation / STEPS) ** 2 == pytest.approx(variance, rel=1e-7)
    # P(Y >= 2 units): the tail at half a step below is one half step's mass more.
    for x, column in ((2, "sf_at_2"), (-1, "sf_at_minus_1")):
        between = [float(law.tail(x * STEPS + i, True)) for i in (0, 1)]
        assert between[1] < float(row[column]) < between[0]
    assert law.losses(STEPS)[0].pure_epsilon <= epsilon * (1 + 1e-12)
    largest = max(loss.pure_epsilon for loss in law.losses(STEPS))
    assert largest == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("k", ["1/2", "0", "65", "nan", "-1", "0.01"])
def test_asymmetric_refuses_invalid_k(k: str) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-00[35].*\n?.*asymmetric_laplace"):
        AsymmetricLaplace.design(7.0, k=k)


def test_asymmetric_needs_k_and_whole_centres() -> None:
    with pytest.raises(BudgetError, match="DP-MECH-003"):
        AsymmetricLaplace.design(7.0)
    with pytest.raises(BudgetError, match="a whole number"):
        AsymmetricLaplace.of(scale=7.0, k=2.0, center=0.5)


@given(st.floats(0.02, 60.0), st.floats(0.5, 1e6))
def test_centring_leaves_less_than_half_a_step(k: float, scale: float) -> None:
    law = AsymmetricLaplace.design(scale, k=k)
    assert abs(law.mean) <= 0.5 + 1e-9 * scale * max(k, 1 / k) ** 2
    plain = AsymmetricLaplace.design(scale, k=k, debias="false")
    assert plain.center == 0.0
    assert law.standard_deviation == plain.standard_deviation


def test_renyi_of_asymmetric_noise_bounds_enumeration() -> None:
    """Against the lattice law's own masses: the continuous divergence bounds the rounded one."""
    law = AsymmetricLaplace.design(40.0, k=1.5)
    with ctx.workprec(128):
        tails = [law.tail(j, True) for j in range(-6000, 6001)]
    mass = [float(a - b) for a, b in zip(tails, tails[1:], strict=False)]
    for loss, sign in zip(law.losses(20), (1, -1), strict=True):
        for order in (1.5, 2.0, 8.0, 64.0):
            terms = (
                p * (p / mass[i - sign * 20]) ** (order - 1)
                for i, p in enumerate(mass[:-20])
                if i >= 20 and mass[i - sign * 20] > 1e-250 and p > 1e-250
            )
            found = math.log(sum(terms)) / (order - 1)
            assert loss.renyi(order) >= found
            assert loss.renyi(order) == pytest.approx(found, rel=2e-3)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("row", rows("truncated_laplace"), ids=str)
def test_truncated_reference(row: dict[str, str]) -> None:
    """The other end, and the moments, of the seeds' pairs (upper is the short side there)."""
    shift = Fraction(row["sensitivity"]) * STEPS
    scale = float(shift / Fraction(row["epsilon"]))
    upper, lower = float(row["upper_B"]) * STEPS, -float(row["lower_A"]) * STEPS
    ends = EndSearch(Fraction(scale), int(shift), Fraction(row["delta"]))
    conditioning = 1e-15 * math.exp(lower / scale) * ends.growth_over_delta
    assert other_length(ends, upper * (1 + 1e-15)) == pytest.approx(lower, rel=1e-9 + conditioning)
    law = TruncatedLaplace.of(scale=scale, lower=-lower, upper=upper)
    assert law.mean / STEPS == pytest.approx(float(row["mean"]), rel=1e-6, abs=1e-8)
    assert law.mean_absolute_error / STEPS == pytest.approx(float(row["mean_abs"]), rel=1e-6)
    square = (law.standard_deviation**2 + law.mean**2 - 1 / 12) / STEPS**2
    assert square == pytest.approx(float(row["second_moment"]), rel=1e-6)


@pytest.mark.parametrize("row", rows("truncated_laplace_geng"), ids=str)
def test_symmetric_truncated_reference(row: dict[str, str]) -> None:
    law = TruncatedLaplace.design(
        STEPS / float(row["epsilon"]), of_steps(STEPS), delta=row["delta"], short_side="none"
    )
    assert law.upper / STEPS == pytest.approx(float(row["half_support_A"]), rel=1e-12)
    assert law.mean_absolute_error / STEPS == pytest.approx(
        float(row["mean_abs_formula"]), rel=1e-6
    )


EPSILONS = st.floats(0.01, 8.0)
DELTAS = st.sampled_from(["1e-12", "1e-9", "1e-6", "1e-3", "0.01", "0.2"])


@given(EPSILONS, DELTAS, st.integers(1, 300), st.sampled_from(["upper", "lower", "none", "auto"]))
def test_designed_ends_have_at_most_delta(
    epsilon: float, delta: str, shift: int, side: str
) -> None:
    """Both directions, at every shift up to the declared one; never above delta, nor far below."""
    law = TruncatedLaplace.design(shift / epsilon, of_steps(shift), delta=delta, short_side=side)
    at = Fraction(shift) / Fraction(law.scale)
    worst = max(loss.delta(at) for loss in law.losses(shift))
    assert Fraction(worst) <= Fraction(delta)
    assert worst >= float(Fraction(delta)) * (1 - 1e-6)
    for smaller in {1, shift // 2 + 1}:
        assert all(Fraction(loss.delta(at)) <= Fraction(delta) for loss in law.losses(smaller))
    assert min(-law.lower, law.upper) >= shift
    assert (side, -law.lower >= law.upper) != ("upper", False)
    assert (side, -law.lower <= law.upper) != ("lower", False)


@given(EPSILONS, DELTAS, st.integers(1, 300), st.floats(0.0, 3.0))
def test_side_lengths_are_kept_or_refused(
    epsilon: float, delta: str, shift: int, share: float
) -> None:
    scale = shift / epsilon
    least, even = short_side_bounds(EndSearch(Fraction(scale), shift, Fraction(delta)))
    length = max(least + share * (even - least), 1e-3)
    try:
        law = TruncatedLaplace.design(scale, of_steps(shift), delta=delta, upper=length)
    except BudgetError as refused:
        assert refused.code == "DP-MECH-005"  # noqa: PT017 - either end is right, by its reason
        assert length < max(least * (1 + 1e-6) + 1e-6, shift) or share > 1
    else:
        assert law.upper == length
        worst = max(loss.delta(Fraction(shift) / Fraction(scale)) for loss in law.losses(shift))
        assert Fraction(worst) <= Fraction(delta)


def test_shorter_ends_exceed_delta() -> None:
    """EndSearch a millionth shorter exceed the delta that they are made for."""
    law = TruncatedLaplace.design(10.0, of_steps(1), delta="1e-6")
    for factor, within in ((1.0, True), (1 - 1e-6, False)):
        side = Fraction(law.upper * factor)
        loss = TruncatedLoss(Fraction(10), side, side, 1)
        assert (Fraction(loss.infinite_loss_probability) <= Fraction(1, 10**6)) is within


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"delta": "0"},
        {"delta": "0.5"},
        {"delta": "1e-6", "upper": "0.1"},
        {"delta": "1e-6", "upper": "100", "lower": "100"},
        {"delta": "1e-6", "upper": "x"},
    ],
)
def test_truncated_refuses_invalid_shapes(shape: dict[str, str]) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-00[35]"):
        TruncatedLaplace.design(10.0, of_steps(1), **shape)


def test_shift_beyond_the_short_side_has_delta_1() -> None:
    loss = TruncatedLoss(Fraction(10), Fraction(5), Fraction(50), 6)
    assert loss.delta(3.0) == 1.0
    pieces = loss.pieces(0.01)
    assert pieces.p[-1] == 1.0
    assert math.isinf(pieces.high[-1])
