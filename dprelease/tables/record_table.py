"""Noisy records as Arrow tables: only the declared columns, in the random order of the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import LIMIT, Integers
from dprelease.numerics.rounding import decimal_digits
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
    steps = [Fraction(value) / step for value in pc.unique(values).to_pylist()]
    return all(each.denominator == 1 and abs(each) <= LIMIT for each in steps)
