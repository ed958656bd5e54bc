"""Gini coefficients of bands: exact bounds, coverage by group size, and blank cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats, sample
from dprelease.postprocess.summaries.inequality import gini_estimates
from tests.replay import Keyed

EDGES = np.array([0.0, 10, 20, 30, 50, 80, 120, 200])
NONE = DiscreteLaplace(Fraction(1, 100))
"""Noise that is 0 in practice; half a step stands for the few values of small noise."""


def gini(values: Floats) -> float:
    """Return the mean absolute difference of all pairs, as a part of twice the mean."""
    differences = np.abs(values[:, None] - values[None, :])
    return float(differences.mean() / (2 * values.mean()))


def counts_of(values: Floats, edges: Floats = EDGES) -> Floats:
    return np.histogram(values, edges)[0].astype(np.float64)


def incomes(rows: int, skew: float) -> Floats:
    """Return values of one group from a distribution with a long tail."""
    return 199.0 * ((np.arange(rows) + 0.5) / rows) ** skew


@pytest.mark.each
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("scale", ["1", "8"])
@pytest.mark.parametrize("skew", [1.0, 3.0])
@pytest.mark.parametrize("rows", [40, 400, 3000])
def test_gini_intervals_cover_the_truth(
    kind: type[DiscreteLaplace | DiscreteGaussian], scale: str, skew: float, rows: int
) -> None:
    """In small groups, of which most are empty, and in large ones."""
    runs, values = 1500, incomes(rows, skew)
    truth, noise = gini(values), kind(Fraction(scale))
    noised = np.tile(counts_of(values), (runs, 1))
    bits = Keyed(f"gini {kind.__name__} {scale} {skew} {rows}")
    noised += sample(noise.noise_distribution, noised.size, bits).reshape(noised.shape)
    found = gini_estimates(noised, EDGES, noise, 0.95)
    held = (found.lower <= truth) & (truth <= found.upper)
    assert held.mean() > 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / runs)
    shown = found.values[~found.unsure]
    assert ((found.lower <= found.upper) & (found.upper <= 1)).all()
    if rows >= 3000:
        assert not found.unsure.any()
        assert np.abs(shown - truth).max() < 0.15


@given(st.lists(st.floats(0, 199.9), min_size=2, max_size=40).filter(lambda x: sum(x) > 1))
def test_gini_interval_contains_every_placement_in_bands(values: list[float]) -> None:
    """Without noise, for values anywhere in their bands, also all at one edge."""
    held = np.array(values)
    band = np.digitize(held, EDGES) - 1
    low, high = EDGES[band], EDGES[band + 1]
    repeated = 200.0 * counts_of(held)  # so that half a step of noise says little
    found = gini_estimates(repeated[None, :], EDGES, NONE, 0.95)
    for share in (0.0, 0.5, 1.0, None):
        placed = held if share is None else low + share * (high - low)
        if placed.mean() > 0:
            truth = gini(placed)
            assert found.lower[0] <= truth + 1e-9
            assert truth - 1e-9 <= found.upper[0]


def test_gini_bounds_equal_a_search() -> None:
    """Without noise, the ends are close to the extremes of many distributions."""
    edges = np.array([0.0, 10.0, 30.0])
    counts = np.array([[60_000.0, 40_000.0]])
    found = gini_estimates(counts, edges, NONE, 0.95)
    best = [1.0, 0.0]
    for a in np.linspace(0, 1, 21):  # the share of each band at its lower edge, others at the upper
        for b in np.linspace(0, 1, 21):
            p = np.array([0.6 * a, 0.6 * (1 - a), 0.4 * b, 0.4 * (1 - b)])
            x = np.array([0.0, 10.0, 10.0, 30.0])
            mean = (p * x).sum()
            if mean > 0:
                one = float((np.outer(p, p) * np.abs(x[:, None] - x)).sum() / (2 * mean))
                best = [min(best[0], one), max(best[1], one)]
    assert found.lower[0] <= best[0] + 1e-9
    assert found.upper[0] == pytest.approx(best[1], abs=5e-3)
    # All values at 10 in both bands are the most equal ones.
    assert found.lower[0] == pytest.approx(0.0, abs=1e-3)


def test_gini_of_uncertain_totals_is_empty() -> None:
    counts = np.array([[1.0, -2, 0, 3, 0, 0, 1], [0.0] * 7, [9000.0] * 7])
    found = gini_estimates(counts, EDGES, DiscreteLaplace(Fraction(3)), 0.95)
    assert found.unsure.tolist() == [True, True, False]
    assert np.isnan(found.values).tolist() == [True, True, False]
    assert found.lower[:2].tolist() == [0, 0]
    assert found.upper[:2].tolist() == [1, 1]


def test_gini_of_uniform_values() -> None:
    """Uniform values from a to b have the Gini coefficient (b - a) / (3 (a + b))."""
    edges = np.array([100.0, 150, 200])
    found = gini_estimates(np.array([[1e6, 1e6]]), edges, NONE, 0.95)
    assert found.values[0] == pytest.approx(100 / 900)


def test_gini_with_unbounded_noise_has_no_limits() -> None:
    class Biased(DiscreteLaplace):
        mean = 1.5

    noise: Randomizer = Biased(Fraction(1))
    found = gini_estimates(np.full((1, 7), 500.0), EDGES, noise, 0.95)
    assert (found.lower[0], found.upper[0]) == (0.0, 1.0)
