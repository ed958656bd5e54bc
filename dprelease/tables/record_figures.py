"""Estimates from noisy records: a mean, or the frequency of each value."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.rounding import finite
from dprelease.postprocess.record_estimates import FrequencyNoise, MeanNoise
from dprelease.query.local_records import RecordColumn
from dprelease.tables.record_table import public_values

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Estimate:
    """One estimate: a mean (`value` is None), or the frequency of one value.

    `standard_error` is None if the noise has no finite variance. The true mean or frequency of the
    n records differs from the estimate by at most `margin`, with the requested confidence.
    """

    value: object
    estimate: float
    standard_error: float | None
    margin: float

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return {
            "value": self.value if self.value is None else str(self.value),
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "margin": self.margin,
        }


def record_estimates(
    values: pa.ChunkedArray, column: RecordColumn, law: Mechanism, confidence: float
) -> tuple[Estimate, ...]:
    """Return the estimates from the published values of a column with at least one record."""
    if isinstance(law, RandomizedResponse):
        return _frequency_estimates(values, column, law, confidence)
    return (_mean_estimate(values, column, law, confidence),)


def _mean_estimate(
    values: pa.ChunkedArray, column: RecordColumn, law: Mechanism, confidence: float
) -> Estimate:
    """Return the estimated mean of a column of noisy numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    step = column.measurement.step
    noise = MeanNoise.of(law, step, len(values))
    # The sum of 64-bit integers is exact in 128-bit decimals.
    wide = values if pa.types.is_decimal(values.type) else values.cast(pa.decimal128(38, 0))
    mean = float(Fraction(pc.sum(wide).as_py()) / len(values)) - law.mean * float(step)
    return Estimate(None, mean, finite(noise.standard_deviation), noise.margin(confidence))


def _frequency_estimates(
    values: pa.ChunkedArray, column: RecordColumn, law: RandomizedResponse, confidence: float
) -> tuple[Estimate, ...]:
    """Return the estimated number of records with each public value."""
    import pyarrow.compute as pc

    known = public_values(column)
    places = pc.index_in(values, value_set=known).to_numpy()
    counts = np.bincount(places[~np.isnan(places)].astype(np.int64), minlength=len(known))
    noise = FrequencyNoise(law, len(values))
    estimates = []
    for value, count in zip(known.to_pylist(), counts.tolist(), strict=True):
        estimate = noise.estimate(count)
        margin = noise.margin(estimate, confidence)
        estimates.append(Estimate(value, estimate, noise.standard_error(estimate), margin))
    return tuple(estimates)
