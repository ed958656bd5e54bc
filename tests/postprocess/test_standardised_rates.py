"""Directly standardised rates: coverage by group size, agreement with exact margins, and blanks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.numerics.lattice import sample
from dprelease.postprocess.summaries.inequality import portable_factor
from dprelease.postprocess.summaries.step import rate_estimates
from tests.replay import Keyed

WEIGHTS = np.array([0.2, 0.4, 0.25, 0.15])
AGES = np.array([300.0, 600, 350, 120])
"""The population by age of a group of the size 1."""
RATES = np.array([0.001, 0.004, 0.02, 0.15])


@pytest.mark.each
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("scale", ["0.7", "10"])
@pytest.mark.parametrize("size", [0.3, 1, 30])
@pytest.mark.parametrize("public", [False, True], ids=["noisy", "public"])
def test_intervals_of_rates_cover_the_truth(
    kind: type[DiscreteLaplace | DiscreteGaussian], scale: str, size: float, public: bool
) -> None:
    """In small groups with few events, of which some are empty, and in large ones."""
    runs, noise = 4000, kind(Fraction(scale))
    population = np.round(AGES * size)
    events = np.round(population * RATES)
    truth = float((WEIGHTS * events / population).sum())
    bits = Keyed(f"rates {kind.__name__} {scale} {size} {public}")
    drawn = sample(noise.noise_distribution, 2 * runs * 4, bits).reshape(2, runs, 4)
    noised = np.tile(events, (runs, 1)) + drawn[0]
    under = np.tile(population, (runs, 1)) + (0 if public else drawn[1])
    factor = portable_factor(noise, 0.95)
    found = rate_estimates(noised, under, WEIGHTS, (factor, 0.0 if public else factor))
    held = (found.lower <= truth + 1e-12) & (truth - 1e-12 <= found.upper)
    assert held.mean() > 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / runs)
    if size > 1:
        assert not found.unsure.any()
        assert np.abs(np.median(found.values) - truth) < 0.2 * truth


def test_public_population_gives_margins_of_weighted_sums() -> None:
    """The margin is c |w / P|, in every group."""
    events, population = np.array([[30.0, 50, 90, 200]]), np.array([[1e3, 2e3, 3e3, 1e3]])
    found = rate_estimates(events, population, WEIGHTS, (7.0, 0.0))
    margin = 7.0 * np.sqrt(((WEIGHTS / population) ** 2).sum())
    assert found.values[0] == pytest.approx((WEIGHTS * events / population).sum())
    assert found.upper[0] - found.values[0] == pytest.approx(margin)
    assert found.values[0] - found.lower[0] == pytest.approx(margin)


def test_rate_of_one_stratum_is_a_fieller_ratio() -> None:
    e, p, c, d = 40.0, 200.0, 9.0, 11.0
    found = rate_estimates(np.array([[e]]), np.array([[p]]), np.ones(1), (c, d))
    r = np.linspace(0, 1, 1_000_001)
    compatible = r[(e - r * p) ** 2 <= c**2 + r**2 * d**2]
    assert found.lower[0] == pytest.approx(compatible.min(), abs=2e-6)
    assert found.upper[0] == pytest.approx(compatible.max(), abs=2e-6)


def test_rates_of_uncertain_populations_are_empty() -> None:
    events = np.array([[3.0, 40], [3.0, 40], [-9.0, -4]])
    population = np.array([[-2.0, 300], [40.0, 300], [90.0, 80]])
    found = rate_estimates(events, population, np.array([0.5, 0.5]), (4.0, 6.0))
    assert found.unsure.tolist() == [True, False, False]
    assert np.isnan(found.values[0])
    assert np.isinf(found.upper[0])
    assert 0 < found.lower[0] < 0.5 * 40 / 300
    assert found.values[2] == found.lower[2] == 0
    assert found.moved.tolist() == [False, False, True]


def test_strata_without_weight_are_ignored() -> None:
    found = rate_estimates(
        np.array([[3.0, 40]]), np.array([[-2.0, 400]]), np.array([0.0, 1.0]), (1.0, 1.0)
    )
    assert found.values[0] == pytest.approx(0.1)
