"""Check that the keys of a published file are the declared ones, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.query.resolve import Query
from dprelease.tables import formats
from dprelease.tables.key_columns import KeyArrays

if TYPE_CHECKING:
    import pyarrow as pa


def has_keys(path: Path, query: Query) -> bool:
    """Return whether a file with the required columns has the keys of its query.

    With public keys, there must be a row for every cell, in order. With keys that are not public,
    the selected keys must be in ascending order, each once.
    """
    import pyarrow as pa

    if not query.key_columns:
        return True
    try:
        if query.private is not None:
            return _keys_ascend(path, query)
        wanted, done = KeyArrays(query), 0
        for held in _key_batches(path, query):
            arrays = wanted.of(done, done + held.num_rows)
            if any(not held.column(name).equals(array) for name, array in arrays.items()):
                return False
            done += held.num_rows
    except (OSError, pa.ArrowException):
        return False
    return done == query.keys.size


def has_nulls(path: Path, columns: Sequence[str] | None = None) -> bool:
    """Return whether a file has missing values in the named columns.

    If no columns are named, all columns of the file are searched.
    """
    import pyarrow as pa

    try:
        return any(
            column.null_count
            for batch in formats.PUBLISHED_FORMAT.batches(path, columns)
            for column in batch.columns
        )
    except (OSError, pa.ArrowException):
        return True


def _key_batches(path: Path, query: Query) -> Iterator[pa.RecordBatch]:
    yield from formats.PUBLISHED_FORMAT.batches(path, [key.column for key in query.key_columns])


def _keys_ascend(path: Path, query: Query) -> bool:
    """Return whether rows are in strictly ascending order of their keys, and no key is missing."""
    before: tuple[Any, ...] | None = None
    for held in _key_batches(path, query):
        columns = [held.column(key.column) for key in query.key_columns]
        if any(column.null_count for column in columns):
            return False
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            if before is not None and not before < row:
                return False
            before = row
    return True
