"""Noisy records as Arrow tables, in the random order of the noise, and estimates from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.lattice import LIMIT, Integers
from dprelease.numerics.rounding import decimal_digits, finite
from dprelease.postprocess.record_estimates import FrequencyNoise, MeanNoise
from dprelease.query.local_records import RecordColumn, Records
from dprelease.tables.arrays import key_values, scale_steps, take_values

if TYPE_CHECKING:
    import pyarrow as pa


ARROW_TYPES = {"text": "string", "boolean": "bool", "date": "date32[day]", "integer": "int64"}


def records_to_arrow(noisy: Mapping[str, Integers], columns: Sequence[RecordColumn]) -> pa.Table:
    """Return a table with one row for each record, and one column for each declared column."""
    import pyarrow as pa

    arrays = []
    for column in columns:
        steps = noisy[column.name]
        if column.key is None:
            arrays.append(scale_steps(steps, column.measurement.step))
        else:
            arrays.append(take_values(key_values(column.key), steps))
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def schema_of_records(records: Records) -> list[tuple[str, str]]:
    """Return the name and the Arrow type of every published column."""
    columns = []
    for column in records.columns:
        if column.key is not None:
            kind = ARROW_TYPES[column.key.kind]
        elif column.measurement.step == 1:
            kind = "int64"
        else:
            kind = f"decimal128(38, {decimal_digits(column.measurement.step) or 0})"
        columns.append((column.name, kind))
    return columns


def public_values(column: RecordColumn) -> pa.Array:
    """Return all values that randomized response can publish for a column, in order."""
    if column.key is not None:
        return key_values(column.key)
    steps = np.arange(column.low, column.high + 1, dtype=np.int64)
    return scale_steps(steps, column.measurement.step)


def are_publishable_values(values: pa.ChunkedArray, column: RecordColumn) -> bool:
    """Return whether no value is missing, and every value is one that the column can publish.

    For randomized response these are the declared values, otherwise multiples of the step.
    """
    import pyarrow.compute as pc

    if values.null_count:
        return False
    if column.is_response:
        known = public_values(column)
        return bool(pc.all(pc.is_in(values, value_set=known), min_count=0).as_py())
    step, digits = column.measurement.step, decimal_digits(column.measurement.step) or 0
    if step * 10**digits == 1:
        return True  # the type of the column holds only multiples of the step
    # Fractions of decimals are exact, where a remainder of floats would not be.
    steps = [Fraction(value) / step for value in pc.unique(values).to_pylist()]
    return all(each.denominator == 1 and abs(each) <= LIMIT for each in steps)


# Estimates from noisy records: a mean, or the frequency of each value.


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
