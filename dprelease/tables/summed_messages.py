"""Tables of the messages of parties, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import LIMIT, Floats, Integers
from dprelease.query.resolve import Query
from dprelease.schema.model import free_name
from dprelease.tables.arrays import key_values, take_values, wrap_array

if TYPE_CHECKING:
    import pyarrow as pa

MARGIN = "_moe"
"""Ending of the name of a sum's margin."""


def messages_to_arrow(query: Query, vectors: Mapping[str, Integers]) -> pa.Table:
    """Return keys and messages, one row for each cell in key order."""
    import pyarrow as pa

    arrays = keys_to_arrow(query)
    for name, values in vectors.items():
        arrays[name] = wrap_array(pa.int64(), values)
    return pa.Table.from_arrays(list(arrays.values()), names=list(arrays))


def keys_to_arrow(query: Query) -> dict[str, pa.Array]:
    """Return the keys of every cell, in key order."""
    arrays = {}
    for key, stride in zip(query.keys.keys, query.keys.strides, strict=True):
        codes = np.arange(query.keys.size) // stride % len(key.values)
        arrays[key.column] = take_values(key_values(key), codes)
    return arrays


def margin_names(query: Query) -> dict[str, str]:
    """Return the name of the margin of each sum, different from keys, sums and other margins."""
    columns = [measurement.name for measurement in query.measurements]
    taken_names = {name.casefold() for name in (*columns, *(k.column for k in query.keys.keys))}
    names = {}
    for column in columns:
        names[column] = free_name(f"{column}{MARGIN}", taken_names)
        taken_names.add(names[column].casefold())
    return names


def sum_messages(messages: Iterable[Integers]) -> Integers:
    """Return the sums of all parties' messages modulo 2^64, as signed numbers.

    Nothing else is computed from single messages.
    """
    total = np.zeros(0, dtype=np.uint64)
    for values in messages:
        total = total + values.view(np.uint64) if len(total) else values.view(np.uint64).copy()
    return total.view(np.int64)


def fits(sums: Integers) -> bool:
    """Return whether all sums are in the range where they equal the sums of the integers.

    Outside of it they may be off by a multiple of 2^64. The result depends only on the sum modulo
    2^64, so it reveals no more than the sum.
    """
    return all(abs(value) < LIMIT for value in sums.tolist())  # the lowest int64 has no abs


def in_unit(sums: Integers, unit: Fraction) -> Floats:
    """Return sums in the unit of their column, each the nearest float."""
    return np.array([float(value * unit) for value in sums.tolist()], dtype=np.float64)
