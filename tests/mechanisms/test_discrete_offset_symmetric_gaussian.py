"""Offset-symmetric Gaussian tails on the integers: sums, limits, and the loss by plain sums."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.discrete_offset_symmetric_gaussian import DiscreteOffsetSymmetricGaussian
from dprelease.mechanisms.offset_symmetric_gaussian import OffsetSymmetricGaussian
from dprelease.numerics import theta
from dprelease.numerics.balls import ball
from dprelease.privacy.losses.offset_gaussian import OffsetIntegerLoss

RATIOS = [2.0**-10, 0.3, 3.0, 32.0]


@pytest.mark.share(0.2)
@pytest.mark.parametrize("ratio", [0.0, *RATIOS])
@pytest.mark.parametrize("scale", [9.5, 300.0, 1024.0, 20_000.0])
def test_both_sums_agree(scale: float, ratio: float) -> None:
    for k in (1, round(scale / (1 + ratio)), round(6 * scale)):
        with ctx.workprec(160):
            h, r = 1 / arb(scale), ball(ratio)
            direct = theta._direct_sum(h, r, k)
            assert direct.overlaps(theta._euler_maclaurin(h, r, k))
            assert direct.rel_accuracy_bits() > 120


@pytest.mark.parametrize("ratio", RATIOS)
def test_large_scales_continue_small_ones(ratio: float) -> None:
    """Tables and Euler-Maclaurin values meet where one takes over from the other."""
    laws = [DiscreteOffsetSymmetricGaussian(math.nextafter(1024.0, s), ratio) for s in (0.0, 1e9)]
    assert laws[0].scale < 1024.0 < laws[1].scale
    for measurement in ("mean_absolute_error", "standard_deviation"):
        small, large = (getattr(law, measurement) for law in laws)
        assert small == pytest.approx(large, rel=1e-12)
    u = np.random.default_rng(1).uniform(2.0**-20, 0.5, 2000)
    (k, sure), (other, also) = (law.upper_quantile(u) for law in laws)
    both = sure & also
    assert both.mean() > 0.999
    assert np.array_equal(k[both], other[both])


@pytest.mark.share(0.4)
@pytest.mark.parametrize("ratio", [0.0, *RATIOS])
@pytest.mark.parametrize("shift", [1, 700, 20_000])
def test_probabilities_at_large_scales(ratio: float, shift: int) -> None:
    """Euler-Maclaurin masses against balls, with the relative error that the grid allows for."""
    loss = OffsetIntegerLoss(1100.0, ratio, shift)
    edges = np.linspace(-loss.largest_relevant_loss, loss.largest_relevant_loss, 41) * 0.8
    p, q = loss.interval_probabilities(edges)
    cuts = [loss.continuous.output_of_loss(Fraction(edge)) for edge in edges.tolist()]
    first = [math.ceil(cut * Fraction(loss.scale)) for cut in cuts]
    with ctx.workprec(2500):
        for found, away in ((p, 0), (q, shift)):
            # P(K < first) falls along the edges: losses above each edge.
            above = [arb(1), *(loss._probability_up_to(k - 1 - away) for k in first), arb(0)]
            exact = [float(a - b) for a, b in zip(above, above[1:], strict=False)]
            assert found == pytest.approx(np.array(exact), rel=2.0**-30, abs=1e-280)


def test_ratio_limits_are_gaussian_and_laplace() -> None:
    near = DiscreteOffsetSymmetricGaussian(20.0, 2.0**-10)
    far = DiscreteOffsetSymmetricGaussian(640.0, 32.0)
    for epsilon in (0.0, 0.2):
        gaussian = DiscreteGaussian(20.0).losses(3)[0].delta(epsilon)
        assert near.losses(3)[0].delta(epsilon) == pytest.approx(gaussian, rel=0.02)
    laplace = DiscreteLaplace(20.0)
    assert far.mean_absolute_error == pytest.approx(laplace.mean_absolute_error, rel=0.01)
    assert far.losses(4)[0].delta(0.1) == pytest.approx(laplace.losses(4)[0].delta(0.1), rel=0.05)


@pytest.mark.parametrize("ratio", RATIOS)
def test_delta_is_near_that_of_rounded_noise(ratio: float) -> None:
    whole = DiscreteOffsetSymmetricGaussian(5000.0, ratio).losses(3000)[0]
    rounded = OffsetSymmetricGaussian(5000.0, ratio).losses(3000)[0]
    for epsilon in (0.0, 0.5, 1.0):
        assert whole.delta(epsilon) == pytest.approx(rounded.delta(epsilon), rel=1e-3)
