"""Discrete Gaussian noise bounded by normal noise: never below the truth, and as tight as the theorem."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import pytest
from flint import acb, arb, ctx

from dprelease.mechanisms import registry
from dprelease.numerics.balls import ball
from dprelease.privacy.guarantee import Event
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.verification.certificate import kinds as normal_vectors_module
from dprelease.verification.certificate.closed_forms import normal_epsilon
from dprelease.verification.certificate.composed_losses import EFFORTS, composed_losses
from dprelease.verification.certificate.epsilon_bounds import epsilon_bounds
from dprelease.verification.certificate.kinds import (
    ANY,
    Smoothing,
    VectorKind,
    normal_losses,
    smoothing_for,
    vector_kinds_of,
    vectors_with_gaussian_noise,
)


def kinds(scales: Sequence[float], moves: Sequence[Sensitivity]) -> list[VectorKind]:
    law = registry.get("discrete_gaussian")
    return vector_kinds_of(
        [
            Event("q", f"c{i}", "discrete_gaussian", law.of(scale=scale).parameters, unit)
            for i, (scale, unit) in enumerate(zip(scales, moves, strict=True))
        ]
    )


def pairs(scale: float, shift: int) -> list[tuple[arb, arb]]:
    """Return the masses under two neighbours, from the definition, but for ends beyond 9 scales."""
    reach = range(-int(9 * scale), int(9 * scale) + shift + 1)
    weights = {k: (-(ball(k) ** 2) / (2 * ball(scale) ** 2)).exp() for k in range(-120, 121)}
    total = sum(weights.values(), arb(0))
    return [(weights[k] / total, weights[k - shift] / total) for k in reach]


@pytest.mark.parametrize(
    ("scales", "shifts"),
    [((1.75,), (1,)), ((2.0,), (3,)), ((3.0, 2.5), (2, 1)), ((2.0, 4.0), (1, 3))],
)
def test_epsilon_is_never_below_the_truth(
    scales: tuple[float, ...], shifts: tuple[int, ...]
) -> None:
    """Output by output, of one cell and of two: between the few losses that there are, too."""
    with ctx.workprec(160):
        units = [Sensitivity(1, (Move(shift, 1),)) for shift in shifts]
        found = vectors_with_gaussian_noise(kinds(scales, units), ANY)
        assert found is not None
        assert not found.others
        cells = [pairs(*one) for one in zip(scales, shifts, strict=True)]
        outputs = []
        for several in itertools.product(*cells):
            p = q = arb(1)
            for own, other in several:
                p, q = p * own, q * other
            outputs.append((p, q, float((p / q).log())))
        smooth, excess = found.smoothing, []
        for i in range(1, 25):
            epsilon = Fraction(i, 11)
            growth = ball(epsilon).exp()
            over = (p - growth * q for p, q, loss in outputs if loss > float(epsilon))
            truth = Fraction(float(sum(over, arb(0)))) * (1 - Fraction(1, 2**45))
            if truth < Fraction(1, 10**12):
                break
            proved = normal_epsilon(found.mu_squared, truth / smooth.raised)
            assert proved is not None
            excess.append(proved + smooth.slack - epsilon)
            assert excess[-1] >= 0, epsilon
    # Masses between two losses leave it near; what smooths takes at most its part of mu.
    part = max(float(smooth.variance) / scale**2 for scale in scales)
    assert min(excess) < 2 * part * float(epsilon)


@pytest.mark.parametrize(("variance", "scale"), [(Fraction(1, 8), 0.75), (Fraction(1, 10), 0.5)])
def test_ratios_of_probabilities_are_within_bounds(variance: Fraction, scale: float) -> None:
    """The law of J by an integral, so narrow that h is seen: ratios lie within what is proved."""
    v, w = ball(Fraction(scale) ** 2), ball(variance)
    with ctx.workprec(80):
        total = sum(((-(ball(k) ** 2) / (2 * v)).exp() for k in range(-60, 61)), arb(0))

        def told(y: acb, k: int) -> acb:
            z = sum(((-((y - j) ** 2) / (2 * w)).exp() for j in range(-14, 15)), acb(0))
            density = (-(y**2) / (2 * (v - w))).exp() / (2 * arb.pi() * (v - w)).sqrt()
            return density * (-((y - k) ** 2) / (2 * w)).exp() / z

        ratios = []
        for k in range(4):
            integral = acb.integral(lambda y, _, k=k: told(y, k), -9, 9, rel_tol=arb("1e-9")).real
            ratios.append((-(ball(k) ** 2) / (2 * v)).exp() / total / integral)
        x = (-2 * arb.pi() ** 2 * w).exp()
        h = 2 * x / (1 - x)
    for ratio in ratios:
        assert float(ratio) <= float(1 + h) * (1 + 1e-6)
        assert float(ratio) >= float((1 - h) / (1 + h)) * (1 - 1e-6)
    assert max(abs(float(ratio) - 1) for ratio in ratios) > float(h) / 50


@pytest.mark.parametrize("cells", [1, 7, 1000, 10**9])
def test_smoothing_covers_every_cell(cells: int) -> None:
    smooth = smoothing_for(cells)
    with ctx.workprec(300):
        waves = sum(
            ((-2 * arb.pi() ** 2 * ball(smooth.variance) * j * j).exp() for j in range(1, 9)),
            arb(0),
        )
        h = 2 * waves
        assert ball(smooth.raised) > (1 + h) ** cells
        assert ball(smooth.slack) > cells * ((1 + h) ** 2 / (1 - h)).log()
        assert smooth.slack < Fraction(4, 2**normal_vectors_module.UNSEEN)
    assert smoothing_for(0) == Smoothing(Fraction(0), Fraction(1), Fraction(0))


def test_squared_norms_and_smoothing_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of slots, cells, the worse one of two moves, and parts that meet."""
    monkeypatch.setattr(normal_vectors_module, "UNSEEN", 6)  # so that slack and factor are seen
    units = [Sensitivity(3, (Move(4, 2), Move(5, 1)), 2), Sensitivity(2, (Move(3, 1),))]
    delta = Fraction(1, 10**5)
    with ctx.workprec(160):
        held = kinds((30.0, 50.0), units)
        found = vectors_with_gaussian_noise(held, ANY)
        assert found is not None
        smooth = found.smoothing
        assert smooth == smoothing_for(3 * 2 + 2)
        wanted = 2 * 3 * 2 * 16 / (900 - smooth.variance) + 2 * 9 / (2500 - smooth.variance)
        assert found.mu_squared == wanted
        _, bound, *_ = epsilon_bounds(held, delta, Fraction(0), None)
        normal = normal_epsilon(wanted, delta / smooth.raised)
        assert normal is not None
        assert bound.at_most == normal + smooth.slack
        assert smooth.slack > normal_epsilon(wanted, delta) * Fraction(1, 10**3)  # type: ignore[operator]
        narrow = vectors_with_gaussian_noise(kinds((0.25, 50.0), units), ANY)
    assert narrow is not None
    assert [kind.mechanism.name for kind in narrow.others] == ["discrete_gaussian"]


@pytest.mark.parametrize("mu", [Fraction(1, 30), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_normal_losses_on_a_grid_are_tight(mu: Fraction) -> None:
    """Composed on a grid, one normal law costs hardly more than in closed form, and no less."""
    delta = Fraction(1, 10**6)
    with ctx.workprec(160):
        (kind,) = kinds((40.0,), [Sensitivity(1, (Move(4, 1),))])
        found = vectors_with_gaussian_noise([kind], ANY)
        assert found is not None
        (one,) = found.all_kinds
        assert one.cells_of_unit == 1
        object.__setattr__(one, "losses", normal_losses(mu**2))
        proved = composed_losses([one], delta, EFFORTS[0]).epsilon_at(delta)
        exact = normal_epsilon(mu**2, delta)
    assert proved is not None
    assert exact is not None
    assert exact * (1 - Fraction(1, 2**50)) <= proved <= exact * Fraction(10001, 10000)
