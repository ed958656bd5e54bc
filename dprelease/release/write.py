"""Noised tables as Parquet: keys from the plan, types from the plan, no statistics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.query.resolve import Query
from dprelease.release.answer import Answer
from dprelease.release.arrays import key_values, wrapped
from dprelease.release.columns import published_arrays, published_types

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 20


def to_arrow(answer: Answer) -> pa.Table:
    """Return keys, published columns and what stands beside them, a row a cell in key order."""
    import pyarrow as pa

    query, noisy = answer.query, answer.noisy
    arrays = _keys(query, noisy.size)
    laws = {column.measure.name: column.mechanism for column in answer.columns}
    for published in query.columns:
        arrays |= published_arrays(query, published, noisy.columns, laws)
    return pa.Table.from_arrays(list(arrays.values()), names=list(arrays))


def _keys(query: Query, size: int) -> dict[str, pa.Array]:
    """Return the key columns, with a value for each cell."""
    import pyarrow as pa

    if query.private is not None:
        return {key.column: key_values(key) for key in query.key_columns}
    arrays = {}
    for key, stride in zip(query.keys.keys, query.keys.strides, strict=True):
        codes = np.arange(size) // stride % len(key.values)
        arrays[key.column] = key_values(key).take(wrapped(pa.int64(), codes))
    return arrays


def schema_of(query: Query) -> list[tuple[str, str]]:
    """Return name and Arrow type of every column that a query publishes."""
    names = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32[day]"}
    found = [(key.column, names[key.kind]) for key in query.key_columns]
    for published in query.columns:
        found += published_types(query, published)
    return found


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
