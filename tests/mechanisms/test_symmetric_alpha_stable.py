"""The stable mechanism: its loss against the references and against rigorous branch and bound."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import BudgetError
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.numerics import stable
from dprelease.privacy.losses.stable import (
    SECOND_DERIVATIVE,
    TAIL_START,
    THIRD_DERIVATIVE,
    StableLoss,
    largest_loss,
)
from tests.reference.read import rows

ALPHAS = [1.0, 1.0001, 1.05, 1.3, 1.5, 1.75, 1.9, 1.99, 1.999, 2 - 1e-5, stable.LARGEST_ALPHA]


@pytest.mark.parametrize("row", rows("sas_epsilon"), ids=str)
def test_epsilon_reference(row: dict[str, str]) -> None:
    found = largest_loss(float(row["alpha"]), 1 / float(row["gamma_over_sensitivity"]))
    exact = float(row["epsilon"])
    assert found >= exact * (1 - 1e-12)
    assert found == pytest.approx(exact, rel=2e-6)


@given(st.integers(1, 2**40), st.floats(0.5, 2.0**40))
def test_rounded_shift_is_never_smaller(shift: int, scale: float) -> None:
    """Rounded up to 40 bits: a larger shift costs more, since noise and scaling lead back."""
    (loss,) = SymmetricAlphaStable(scale, 1.5).losses(shift)
    wanted = Fraction(shift) / Fraction(scale)
    assert wanted <= Fraction(loss.shift) <= wanted * (1 + Fraction(1, 2**38))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_curvature_bounds(alpha: float) -> None:
    """Second and third differences of ln p stay below the stated bounds, with room."""
    step = 2.0**-6
    y = np.arange(-8 * step, TAIL_START + 5, step)
    log_p = stable.log_pdf(alpha, y)
    assert np.max(np.abs(np.diff(log_p, 2))) / step**2 < SECOND_DERIVATIVE / 1.2
    assert np.max(np.abs(np.diff(log_p, 3))) / step**3 < THIRD_DERIVATIVE / 1.2


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("shift", [0.01, 1.0, 20.0, 1e4])
def test_loss_falls_in_the_tail(alpha: float, shift: float) -> None:
    y = np.geomspace(TAIL_START, 1e9, 4000)
    loss = stable.log_pdf(alpha, y) - stable.log_pdf(alpha, y + shift)
    assert np.all(np.diff(loss) < 1e-11)
    assert loss[0] <= largest_loss(alpha, shift)


def rigorous_bounds(alpha: float, shift: float, cells: int) -> tuple[float, float]:
    """Return lower and upper bounds of the largest loss by balls, p falling on x >= 0.

    On [a, b]: ln p(y) - ln p(y + d) lies between ln p(b) - ln p(a + d) and ln p(a) - ln p(b + d).
    """
    d = arb(shift)
    edges = np.concatenate((np.linspace(0.0, 16.0, cells), np.geomspace(16.0, 1e6, cells)[1:]))
    with ctx.workprec(64):
        near = [stable.pdf_ball(alpha, arb(y)).log() for y in edges.tolist()]
        far = [stable.pdf_ball(alpha, arb(y) + d).log() for y in edges.tolist()]
        upper = max(float((near[i] - far[i + 1]).upper()) for i in range(len(edges) - 1))
        lower = max(float((a - b).lower()) for a, b in zip(near, far, strict=True))
    return lower, upper


@pytest.mark.share(0.15)
@pytest.mark.parametrize("alpha", [1.0, 1.4, 1.9])
@pytest.mark.parametrize("shift", [1.0, 7.0, 300.0])
def test_largest_loss_within_rigorous_bounds(alpha: float, shift: float) -> None:
    lower, upper = rigorous_bounds(alpha, shift, 250)
    found = largest_loss(alpha, shift)
    assert lower <= found <= upper


@given(st.floats(1.0, stable.LARGEST_ALPHA), st.floats(-20.0, 12.0))
@settings(max_examples=150)
def test_no_output_has_a_larger_loss(alpha: float, log_shift: float) -> None:
    """No point of a grid other than the one it was found on exceeds the bound (V50)."""
    shift = math.exp(log_shift)
    y = np.concatenate((np.linspace(0.0, 40.0, 30_011), np.geomspace(40.0, 1e9, 500)))
    loss = stable.log_pdf(alpha, y) - stable.log_pdf(alpha, y + shift)
    found = largest_loss(alpha, shift)
    assert loss.max() <= found + 4e-12
    assert found <= loss.max() * (1 + 1e-5) + 1e-11


@given(st.floats(1.0, stable.LARGEST_ALPHA), st.floats(-20.0, 12.0))
def test_larger_shifts_lose_more(alpha: float, log_shift: float) -> None:
    shift = math.exp(log_shift)
    assert largest_loss(alpha, shift) <= largest_loss(alpha, shift * 1.001)


def test_losses_of_small_and_large_shifts() -> None:
    """Corollary 27 without the slip: at alpha 1, epsilon - 2 ln(d) goes to 0 as d grows."""
    assert largest_loss(1.0, 1e8) - 2 * math.log(1e8) == pytest.approx(0.0, abs=1e-7)
    assert largest_loss(1.0, 1e-8) / 1e-8 == pytest.approx(1.0, rel=1e-9)
    # The general limit: (1 + alpha) ln d + ln(p(0) / (alpha a_1)).
    for alpha in (1.3, 1.7):
        height = float(stable.pdf(alpha, np.zeros(1))[0])
        first = alpha * stable.tail_series(alpha)[0]
        limit = (1 + alpha) * math.log(1e9) + math.log(height / first)
        assert largest_loss(alpha, 1e9) == pytest.approx(limit, abs=1e-6)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.7, 1.95])
@pytest.mark.parametrize("shift", [0.05, 1.0, 8.0])
def test_delta_equals_the_integral(alpha: float, shift: float) -> None:
    """Against the divergence of very narrow cells, whose merging can only lower it."""
    loss = StableLoss(alpha, shift)
    far = np.geomspace(60.0, 1e8, 60_000)
    x = np.concatenate((-far[::-1], np.linspace(-60.0, 60.0, 240_001), far))
    p = -np.diff(np.where(x < 0, stable.sf(alpha, x), 1 - stable.sf(alpha, -x)))
    p = np.where(x[:-1] > 0, -np.diff(stable.sf(alpha, x)), p)
    q = np.diff(stable.sf(alpha, -(x - shift)))
    q = np.where(x[:-1] > shift, -np.diff(stable.sf(alpha, x - shift)), q)
    for share in (-0.5, 0.0, 0.2, 0.7, 0.95):
        epsilon = share * loss.pure_epsilon
        gain = p - math.exp(epsilon) * q
        found = float(gain[gain > 0].sum())
        assert loss.delta(epsilon) >= found - 1e-9
        assert loss.delta(epsilon) <= found * (1 + 2e-3) + 1e-8


@pytest.mark.parametrize("order", [1.5, 2.0, 16.0])
def test_renyi_at_alpha_one(order: float) -> None:
    """Cauchy noise at order 2: 1 + d^2 / 2 in closed form; below the pure epsilon at any order."""
    for shift in (0.1, 1.0, 3.0):
        loss = StableLoss(1.0, shift)
        found = loss.renyi(order)
        assert found <= loss.pure_epsilon
        if order == 2.0:
            exact = math.log(1 + shift**2 / 2)
            assert exact <= found <= exact * (1 + 1e-4) + 1e-7


def test_expected_distortion() -> None:
    """(2 scale / pi) Gamma(1 - 1 / alpha), up to the rounding; steps and formula meet at 64."""
    for alpha in (1.2, 1.5, 1.9):
        below, above = (
            SymmetricAlphaStable.of(scale=s, alpha=alpha).mean_absolute_error
            for s in (64 * (1 - 2.0**-30), 64.0)
        )
        assert below == pytest.approx(above, rel=1e-8)
        exact = 2 * 1e6 / math.pi * math.gamma(1 - 1 / alpha)
        law = SymmetricAlphaStable.of(scale=1e6, alpha=alpha)
        assert law.mean_absolute_error == pytest.approx(exact, rel=1e-9)
    assert math.isinf(SymmetricAlphaStable.of(scale=1.0, alpha=1.0).mean_absolute_error)


@given(st.integers(1, 10**6), st.floats(1.0, stable.LARGEST_ALPHA))
def test_shares_of_parties_add_up_to_the_noise(parties: int, alpha: float) -> None:
    """n share^alpha = scale^alpha: the characteristic functions multiply to the declared one."""
    law = SymmetricAlphaStable.of(scale=1e8, alpha=alpha)
    share = law.federated(parties)
    with ctx.workprec(128):
        total = (parties * arb(share.scale) ** arb(alpha)) ** (1 / arb(alpha))
        assert not total < arb(law.scale)
        assert total < arb(law.scale) * (1 + 2.0**-50)
    assert share.alpha == law.alpha


def test_zero_parties_are_refused() -> None:
    with pytest.raises(ValueError, match="one party"):
        SymmetricAlphaStable.of(scale=1.0, alpha=1.5).federated(0)


@pytest.mark.parametrize("alpha", ["0.99", "2", "1.9999999", "nan", "", "-1"])
def test_other_alphas_are_refused(alpha: str) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-00[35]"):
        SymmetricAlphaStable.of(scale=10.0, alpha=alpha)


def test_smaller_claim_fails() -> None:
    """A claim for one tenth less shift does not cover the loss: the checks above would see it."""
    y = np.linspace(0.0, 40.0, 30_011)
    loss = stable.log_pdf(1.7, y) - stable.log_pdf(1.7, y + 1.0)
    assert loss.max() > largest_loss(1.7, 0.9)
    assert Fraction(largest_loss(1.7, 1.0)) > 0
