"""Losses of stable noise lie within their proved bounds, and blocks are all outputs."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import pytest
from flint import arb, ctx

from dprelease.numerics.balls import ball
from dprelease.numerics.stable.entire_series import density_and_tail
from dprelease.numerics.stable.stable_balls import pdf_ball, sf_ball
from dprelease.privacy.losses.stable import largest_loss
from dprelease.verification.certificate.neighbour_blocks import Block, BlockOptions
from dprelease.verification.certificate.proven_losses import proven_losses
from dprelease.verification.certificate.stable_losses import StableLosses
from tests.mechanisms.laws import law_of

ALPHAS = (1.0, 1.25, 1.5, 1.95, 2 - 2.0**-20)
SHIFTS = ("0.001", "1", "300")
OPTIONS = BlockOptions(0.02, 1e-12, 2**13)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_power_series_equals_density(alpha: float) -> None:
    """At points on both sides of every change of precision or of method."""
    draw = random.Random(1)
    points = [Fraction(0), *(Fraction(draw.expovariate(1 / scale)) for scale in (1, 5, 30) * 4)]
    for x in points:
        density, tail = density_and_tail(alpha, x, 80)
        with ctx.workprec(160):
            at = ball(x)
        with ctx.workprec(80):
            assert density.overlaps(pdf_ball(alpha, at)), x
            assert tail.overlaps(sf_ball(alpha, at)), x
        assert min(density.rel_accuracy_bits(), tail.rel_accuracy_bits()) >= 60, x


@pytest.mark.each
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_losses_of_intervals_are_within_bounds(alpha: float, shift: str) -> None:
    """Of intervals of any width, near the half of the shift, near the maximum, and far out."""
    draw, losses = random.Random(2), StableLosses(alpha, Fraction(shift))
    with ctx.workprec(96):
        for _ in range(40):
            start = Fraction(draw.choice([draw.uniform(0, 4), draw.expovariate(1 / 20)]))
            a = losses.shift / 2 + start * draw.choice([0, 1])
            width = Fraction(draw.choice([1, 2.0**-4, 2.0**-9]) * draw.random())
            b = a + width
            low, high = losses._loss_range(max(a - width, losses.shift / 2), a, b, b + width)
            for part in range(9):
                loss = losses._loss(a + width * part / 8)
                assert not loss > high, (a, b, part)
                assert not loss < low, (a, b, part)
            if a > losses.shift / 2 + width:  # the bounds are close, too
                ends = losses._loss(a).max(losses._loss(b))
                assert high <= ends * ball(b / a) ** 2


@pytest.mark.each
@pytest.mark.parametrize("shift", ["1/7", "8"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_blocks_cover_all_outputs(alpha: float, shift: str) -> None:
    """Both probabilities add up to 1, and the mean of Q/P in each block fits its losses."""
    losses = StableLosses.at_precision_of(alpha, Fraction(shift), OPTIONS.least)
    with ctx.workprec(128):
        blocks = losses.blocks(OPTIONS, ball(losses.largest()))
        for total in (sum((b.p for b in blocks), arb(0)), sum((b.q for b in blocks), arb(0))):
            assert total.contains(1)
            assert total.rad() < 1e-15
        assert all(_is_possible(block) for block in blocks)
        moved = [Block(b.p, b.q, b.low * 2, b.high / 2) for b in blocks]  # type: ignore[operator]
        assert not all(_is_possible(block) for block in moved)


def _is_possible(block: Block) -> bool:
    """Return whether ln(p / q) can lie between the losses of a block."""
    assert block.low is not None
    assert block.high is not None
    loss = (block.p / block.q).log()
    return not (loss < block.low or loss > block.high)


@pytest.mark.each
@pytest.mark.parametrize("shift", ["1/30", "1", "8"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_largest_loss_bounds_a_dense_grid(alpha: float, shift: str) -> None:
    """It is at least each loss on a dense grid, and not above what the planner computes."""
    law = law_of("symmetric_alpha_stable", 840.0)
    steps = int(840 * Fraction(shift))
    found = proven_losses(type(law)(scale=840.0, alpha=alpha)).largest(steps)
    assert found is not None
    losses = StableLosses(alpha, Fraction(shift))
    with ctx.workprec(96):
        grid = [losses.shift / 2 + Fraction(i, 16) for i in range(200)]
        best = max(losses._loss(t) for t in grid)
        assert not best > ball(found)
        assert ball(found) <= best * (1 + arb(2) ** -6)
    assert float(found) <= largest_loss(alpha, float(Fraction(shift)))


def test_slope_in_the_square_falls() -> None:
    """All bounds of losses follow from it."""
    losses = StableLosses(1.5, Fraction(1))
    with ctx.workprec(96):
        falls = [losses._fall(Fraction(x), Fraction(x + 1)) for x in range(40)]
        assert all(a > b for a, b in pairwise(falls))
