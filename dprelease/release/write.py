"""Noised tables as Parquet: keys from the plan, types from the plan, no statistics."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import decimal_digits, plain_text
from dprelease.query.keys import Key
from dprelease.query.resolve import Query
from dprelease.release.perturb import NoisyTable
from dprelease.release.plan import PlannedColumn

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 20
WIDEST_STEP = 17
"""Digits of a step: with 20 digits of a 64-bit number they fill a 128-bit decimal."""


def to_arrow(noisy: NoisyTable, columns: Sequence[PlannedColumn]) -> pa.Table:
    """Return keys, noised columns and declared margins, one row for each cell in key order."""
    import pyarrow as pa

    query = columns[0].query
    arrays: dict[str, pa.Array] = {}
    for key, stride in zip(query.keys.keys, query.keys.strides, strict=True):
        codes = np.arange(noisy.size) // stride % len(key.values)
        arrays[key.column] = _key_values(key).take(pa.array(codes))
    for column in columns:
        name, step = column.measure.name, column.measure.step
        arrays[name] = _scaled(noisy.columns[name], step)
        if column.measure.margin is not None:
            width = column.mechanism.half_width(float(column.measure.margin))
            arrays[f"{name}_moe"] = _scaled(np.full(noisy.size, width), step)
    return pa.table(arrays)


def schema_of(query: Query) -> list[tuple[str, str]]:
    """Return name and Arrow type of every column that a query publishes."""
    names = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32[day]"}
    found = [(key.column, names[key.kind]) for key in query.keys.keys]
    for measure in query.measures:
        digits = decimal_digits(measure.step) or 0
        kind = "int64" if measure.step == 1 else f"decimal128(38, {digits})"
        found.append((measure.name, kind))
        if measure.margin is not None:
            found.append((f"{measure.name}_moe", kind))
    return found


def _key_values(key: Key) -> pa.Array:
    import pyarrow as pa

    kinds = {"text": pa.string(), "integer": pa.int64(), "boolean": pa.bool_(), "date": pa.date32()}
    return pa.array(list(key.values), type=kinds[key.kind])


def _scaled(steps: Integers, step: Fraction) -> pa.Array:
    """Return steps * step exactly: 64-bit integers for step one, else decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.array(steps, type=pa.int64())
    if step == 1:
        return found
    digits = decimal_digits(step) or 0
    unit = pa.scalar(Decimal(plain_text(step)), type=pa.decimal128(WIDEST_STEP, digits))
    wide = pc.multiply(found.cast(pa.decimal128(20, 0)), unit)
    return wide.cast(pa.decimal128(38, digits))


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table with nothing in the file that the noised table does not say."""
    import pyarrow.parquet as pq

    pq.write_table(
        table,
        path,
        compression="zstd",
        write_statistics=False,
        store_schema=False,
        row_group_size=ROW_GROUP,
    )
