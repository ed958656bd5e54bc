"""Shares of noisy counts: coverage for every noise, and agreement with a search over all shares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.numerics.entropy import Entropy
from dprelease.numerics.lattice import sample
from dprelease.postprocess.margins import margin_factor, share_estimates

RUNS = 4000


@pytest.mark.each
@pytest.mark.parametrize("scale", ["0.3", "1", "30"])
@pytest.mark.parametrize("shape", [(40, 60), (900, 3, 0, 0), (5,) * 40, (1000, 1000, 1), (25,)])
def test_share_intervals_have_the_coverage(scale: str, shape: tuple[int, ...]) -> None:
    """By simulation, with at least the stated coverage, also in small and empty cells."""
    noise = DiscreteLaplace(Fraction(scale))
    truth = np.tile(np.array(shape, dtype=np.float64), RUNS)
    groups = np.repeat(np.arange(RUNS), len(shape))
    drawn = sample(noise.noise_distribution, len(truth), Entropy())
    found = share_estimates(truth + drawn, groups, margin_factor(noise))
    share = truth / sum(shape)
    covered = (found.lower <= share + 1e-12) & (share <= found.upper + 1e-12)
    for i in range(len(shape)):
        assert covered[i :: len(shape)].mean() > 0.95 - 6 * np.sqrt(0.05 * 0.95 / RUNS)


@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("scale", ["0.3", "0.5", "0.7", "0.8", "1", "1.5", "3"])
@pytest.mark.parametrize("shape", [(5, 5), (50, 50), (30, 70), (1, 99), (333, 667), (500, 500)])
def test_intervals_of_two_shares_cover_with_small_noise(
    kind: type[DiscreteLaplace | DiscreteGaussian], scale: str, shape: tuple[int, int]
) -> None:
    """By all pairs of noise values with their probabilities: small noise has few values."""
    size = float(scale)
    steps = np.arange(-40, 41)
    exponents = np.abs(steps) / size if kind is DiscreteLaplace else steps**2 / (2 * size**2)
    weights = np.exp(-exponents) / np.exp(-exponents).sum()
    first, second = (part.ravel() for part in np.meshgrid(steps, steps, indexing="ij"))
    values = np.column_stack([shape[0] + first, shape[1] + second]).ravel().astype(float)
    factor = margin_factor(kind(Fraction(scale)))
    found = share_estimates(values, np.repeat(np.arange(len(first)), 2), factor)
    share = shape[0] / sum(shape)
    covered = (found.lower[::2] <= share + 1e-12) & (share <= found.upper[::2] + 1e-12)
    assert np.outer(weights, weights).ravel()[covered].sum() > 0.945


def test_share_intervals_equal_a_search() -> None:
    """An interval contains the shares p with |y - p Y| at most the margin of (1 - p) K - p (others)."""
    parts, factor = np.array([30.0, -3.0, 55.0, 8.0]), 7.0
    found = share_estimates(parts, np.zeros(4, int), factor)
    p = np.linspace(0, 1, 200_001)
    for i, y in enumerate(parts):
        margin = factor * np.sqrt((1 - p) ** 2 + 3 * p**2)
        compatible = p[np.abs(y - p * parts.sum()) <= margin]
        assert found.lower[i] == pytest.approx(compatible.min(), abs=1e-5)
        assert found.upper[i] == pytest.approx(compatible.max(), abs=1e-5)


def test_shares_of_uncertain_totals_are_empty() -> None:
    found = share_estimates(np.array([5.0, -4.0, 2.0]), np.zeros(3, int), 3.0)
    assert found.unsure.all()
    assert np.isnan(found.values).all()
    assert (found.lower == 0).all()
    assert (found.upper == 1).all()


def test_shares_with_unbounded_noise_have_no_limits() -> None:
    found = share_estimates(np.array([500.0, 400.0]), np.zeros(2, int), float("inf"))
    assert found.values.sum() == 1
    assert found.lower.tolist() == [0, 0]
    assert found.upper.tolist() == [1, 1]


def test_shares_without_noise_or_cells() -> None:
    found = share_estimates(np.array([3.0, 1.0]), np.zeros(2, int), 0.0)
    assert found.values.tolist() == found.lower.tolist() == found.upper.tolist() == [0.75, 0.25]
    assert len(share_estimates(np.zeros(0), np.zeros(0, int), 1.0).values) == 0
