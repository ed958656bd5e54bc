"""Margins of frequencies and means that are estimated from noisy records."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import signal, stats

from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.postprocess.record_estimates import FrequencyNoise, MeanNoise
from dprelease.query.local_records import resolve_records
from dprelease.tables.record_table import _frequency_estimates, _mean_estimate
from tests.release.test_local_columns import STORED, local_declaration

LEVELS = (0.8, 0.95, 0.99)


def coverage(law: RandomizedResponse, n: int, true: int, confidence: float) -> float:
    """Return the exact coverage of the interval for a value that `true` of n records have."""
    kept = stats.binom.pmf(np.arange(true + 1), true, law.true_value_probability)
    others = stats.binom.pmf(np.arange(n - true + 1), n - true, law.false_value_probability)
    chance = signal.fftconvolve(kept, others)
    noise = FrequencyNoise(law, n)
    likely = np.flatnonzero(chance > 1e-9).tolist()
    held = [
        count
        for count in likely
        if abs(noise.estimate(count) - true / n) <= noise.margin(noise.estimate(count), confidence)
    ]
    return float(chance[held].sum())


@pytest.mark.each
@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.9, 1.0])
def test_frequency_intervals_cover_the_truth(share: float, confidence: float) -> None:
    """With the declared coverage for many records; a margin 5 % smaller or larger would fail."""
    law, n = RandomizedResponse(0.6, 4), 40_000
    found = coverage(law, n, round(share * n), confidence)
    slack = {0.8: 0.01, 0.95: 0.006, 0.99: 0.0015}[confidence]
    assert found >= confidence - slack
    assert found <= confidence + slack or share in (0.0, 1.0)  # there one side never misses
    width = stats.norm.isf((1 - confidence) / 2)
    assert 2 * stats.norm.sf(0.95 * width) > 1 - confidence + slack


@pytest.mark.parametrize("confidence", LEVELS)
def test_frequency_margins_have_the_declared_confidence(confidence: float) -> None:
    """The farthest frequency within z of its own standard errors, by trying all."""
    (part,) = resolve_records(local_declaration(STORED, "c"))
    (column,) = part.columns
    law = RandomizedResponse(0.7, 2)
    values = pa.chunked_array([pa.array(["a"] * 130 + ["b"] * 270)])
    z = stats.norm.isf((1 - confidence) / 2)
    for row in _frequency_estimates(values, column, law, confidence):
        tried = np.linspace(0.0, 1.0, 200_001)
        q, p = law.false_value_probability, law.true_value_probability
        errors = np.sqrt((tried * p * (1 - p) + (1 - tried) * q * (1 - q)) / 400) / (p - q)
        compatible = tried[np.abs(tried - row.estimate) <= z * errors]
        farthest = max(abs(compatible[[0, -1]] - row.estimate))
        assert row.margin == pytest.approx(farthest, rel=1e-3)


@pytest.mark.parametrize("confidence", LEVELS)
def test_mean_margins_have_the_declared_confidence(confidence: float) -> None:
    (part,) = resolve_records(local_declaration(STORED, "n"))
    (column,) = part.columns
    law = DiscreteLaplace(scale=30.0)
    z = stats.norm.isf((1 - confidence) / 2)
    for n in (10, 400):
        row = _mean_estimate(pa.chunked_array([pa.array(range(n))]), column, law, confidence)
        each = law.standard_deviation / math.sqrt(n)
        usual = z * each if n >= 30 else each / math.sqrt(1 - confidence)
        assert row.margin == pytest.approx(usual, rel=1e-3)
        assert row.margin == MeanNoise.of(law, Fraction(1), n).margin(confidence)
