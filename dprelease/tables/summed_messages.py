"""Tables of the parties' messages in a federated release, and the sums of the messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import LIMIT, Floats, Integers
from dprelease.query.resolve import Query
from dprelease.schema.model import unused_name
from dprelease.tables.arrays import key_values, take_values, wrap_array

if TYPE_CHECKING:
    import pyarrow as pa

MARGIN_ENDING = "_moe"
"""The ending of the name of a sum's margin of error."""


def messages_to_arrow(query: Query, vectors: Mapping[str, Integers]) -> pa.Table:
    """Return a table of keys and messages, with one row for each cell in key order."""
    import pyarrow as pa

    arrays = keys_to_arrow(query)
    for name, values in vectors.items():
        arrays[name] = wrap_array(pa.int64(), values)
    return pa.Table.from_arrays(list(arrays.values()), names=list(arrays))


def keys_to_arrow(query: Query) -> dict[str, pa.Array]:
    """Return the key columns of all cells, in key order."""
    arrays = {}
    for key, stride in zip(query.keys.keys, query.keys.strides, strict=True):
        codes = np.arange(query.keys.size) // stride % len(key.values)
        arrays[key.column] = take_values(key_values(key), codes)
    return arrays


def margin_names(query: Query) -> dict[str, str]:
    """Return the name of each sum's margin of error, which no key, sum or other margin has."""
    columns = [measurement.name for measurement in query.measurements]
    taken_names = {name.casefold() for name in (*columns, *(k.column for k in query.keys.keys))}
    names = {}
    for column in columns:
        names[column] = unused_name(f"{column}{MARGIN_ENDING}", taken_names)
        taken_names.add(names[column].casefold())
    return names


def sum_messages(messages: Iterable[Integers]) -> Integers:
    """Return the sums of all parties' messages modulo 2^64, as signed integers.

    No other function computes anything from single messages.
    """
    total = np.zeros(0, dtype=np.uint64)
    for values in messages:
        # Unsigned, because only for unsigned integers NumPy promises to wrap.
        total = total + values.view(np.uint64) if len(total) else values.view(np.uint64).copy()
    return total.view(np.int64)


def are_exact_sums(sums: Integers) -> bool:
    """Return whether all sums modulo 2^64 lie in the range where they equal the integer sums.

    Outside of this range, a sum may be wrong by a multiple of 2^64. The result depends only on the
    sums modulo 2^64, so it reveals no more than the sums.
    """
    return all(abs(value) < LIMIT for value in sums.tolist())  # np.abs of -2^63 overflows


def sums_in_unit(sums: Integers, unit: Fraction) -> Floats:
    """Return each sum in the unit of its column, as the nearest float."""
    return np.array([float(value * unit) for value in sums.tolist()], dtype=np.float64)
