"""Errors of estimates from n noisy records: of sums, means and frequencies.

The estimates are about the n true records as declared (clamped, on the lattice, missing values
replaced), not about a larger population.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.numerics import stable
from dprelease.numerics.normal_tail import normal_quantile
from dprelease.numerics.rounding import finite

FEW_RECORDS = 30
"""Number of records up to which a margin uses Chebyshev's inequality, not a normal distribution."""

QUANTILE_ERROR_FACTOR = 1.0 + 1e-6
"""Bound on the error of the quantiles here."""

STABLE_TEXT = (
    "Noise before rounding is stable: that of the sum of n records has the scale n^(1/alpha) times "
    "that of one, that of the mean n^(1/alpha - 1). Rounding to the lattice moves each record by "
    "at most half a step, so it moves the mean by at most half a step; margins include that."
)
FINITE_TEXT = (
    "The mean of n records, less the bias, has the expected value of the true mean and the "
    "standard deviation of one record's noise over sqrt(n). The margin is that of a normal law; "
    "below 30 records that of Chebyshev's inequality."
)
RESPONSE_TEXT = (
    "With c of n records answering a value, (c / n - q) / (p - q) has the expected value of its "
    "true frequency; p: the chance that a record's value is kept, q: that of each other value."
)


@dataclass(frozen=True, slots=True)
class MeanNoise:
    """The noise in the mean of n >= 1 records, in the unit of the column."""

    standard_deviation: float
    scale: float | None
    """Scale of stable noise before rounding; None for noise with a standard deviation."""
    mechanism: Mechanism
    step: Fraction
    records: int

    @classmethod
    def of(cls, mechanism: Mechanism, step: Fraction, records: int) -> MeanNoise:
        """Return the noise in the mean of so many records."""
        scale = None
        if isinstance(mechanism, SymmetricAlphaStable):
            scale = mechanism.scale * float(step) * records ** (1.0 / mechanism.alpha - 1.0)
        deviation = mechanism.standard_deviation * float(step) / math.sqrt(records)
        return cls(deviation, scale, mechanism, step, records)

    def margin(self, confidence: float) -> float:
        """Return the margin of error of the mean at a confidence."""
        miss = (1.0 - confidence) / 2
        if isinstance(self.mechanism, SymmetricAlphaStable) and self.scale is not None:
            width = float(stable.quantile(self.mechanism.alpha, np.array([miss]))[0])
            return (width * self.scale + float(self.step) / 2) * QUANTILE_ERROR_FACTOR
        if self.records < FEW_RECORDS:
            return self.standard_deviation / math.sqrt(1.0 - confidence)
        return _normal_quantile(miss) * self.standard_deviation * QUANTILE_ERROR_FACTOR

    def to_json(self) -> dict[str, Any]:
        """Return its size and margins as JSON values, for the sum too."""
        n = self.records
        return {
            "mean_standard_deviation": finite(self.standard_deviation),
            "mean_scale": self.scale,
            "mean_margin_95": self.margin(0.95),
            "sum_standard_deviation": finite(self.standard_deviation * n),
            "sum_scale": None if self.scale is None else self.scale * n,
            "sum_margin_95": self.margin(0.95) * n,
            "words": FINITE_TEXT if self.scale is None else STABLE_TEXT,
        }


@dataclass(frozen=True, slots=True)
class FrequencyNoise:
    """The noise in an estimated frequency of n >= 1 records."""

    mechanism: RandomizedResponse
    records: int

    def estimate(self, count: int) -> float:
        """Return the unbiased estimate of a value's frequency; it may lie outside 0..1."""
        p, q = self.mechanism.true_value_probability, self.mechanism.false_value_probability
        return (count / self.records - q) / (p - q)

    def standard_error(self, frequency: float) -> float:
        """Return the standard error at a true frequency f: n f records have the value."""
        p, q = self.mechanism.true_value_probability, self.mechanism.false_value_probability
        f = min(1.0, max(0.0, frequency))
        return math.sqrt((f * p * (1 - p) + (1 - f) * q * (1 - q)) / self.records) / (p - q)

    def margin(self, estimate: float, confidence: float) -> float:
        """Return the distance from the estimate to the farther end of the score interval.

        It holds the frequencies whose distance to the estimate is at most z standard errors *at
        that frequency*: a quadratic inequality, since the squared error is a straight line.
        """
        p, q = self.mechanism.true_value_probability, self.mechanism.false_value_probability
        z = _normal_quantile((1.0 - confidence) / 2)
        factor = z * z / (self.records * (p - q) ** 2)
        start, slope = q * (1 - q), p * (1 - p) - q * (1 - q)
        inside = min(1.0, max(0.0, estimate))
        half = abs(slope) * factor
        root = math.sqrt(half * half + 4 * factor * (start + slope * inside))
        return (half + root) / 2 * QUANTILE_ERROR_FACTOR + abs(estimate - inside)

    def to_json(self) -> dict[str, Any]:
        """Return its largest standard error as JSON values."""
        worst = max(self.standard_error(0.0), self.standard_error(1.0))
        return {"standard_error_at_most": worst, "words": RESPONSE_TEXT}


def estimates_json(mechanism: Mechanism, step: Fraction, records: int) -> dict[str, Any] | None:
    """Return the noise in a column's estimates as JSON values; None without any record."""
    if records == 0:
        return None
    if isinstance(mechanism, RandomizedResponse):
        return FrequencyNoise(mechanism, records).to_json()
    return MeanNoise.of(mechanism, step, records).to_json()


def _normal_quantile(miss: float) -> float:
    """Return z with P(Z > z) = miss."""
    return float(-normal_quantile(np.array([miss]))[0])
