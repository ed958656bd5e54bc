"""Give ids small numbers, so that data about ids can be stored in arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import to_numpy
from dprelease.exact.bounding.row_samples import extend_hash, hash_residues
from dprelease.exact.results.true_table import Integers
from dprelease.statements.bounding import hash_part_sql

MOST_RANGE_PER_ROW = 2
"""Maximum range of integer ids, per row, for which ids are not replaced by other numbers."""

DISTINCT_IDS = "dp_distinct"
"""Name of a temporary table of ids."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NumberedIds:
    """The numbered ids of rows in batches, and the hash of the id of each number."""

    ids: list[NDArray[np.integer[Any]]]
    """For each batch, an integer for the id of each row: the id's number plus `low`."""
    low: int
    hashes: Integers

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return sum(map(len, self.ids))


def number_ids(link: duckdb.DuckDBPyConnection, ids: pa.ChunkedArray) -> NumberedIds:
    """Return numbers for the ids of rows, which arrive in chunks."""
    if not len(ids):
        none = np.zeros(0, dtype=np.int64)
        return NumberedIds([none] * ids.num_chunks, 0, none)
    if not is_text_type(ids.type):
        own = _use_integer_ids([to_numpy(chunk) for chunk in ids.chunks])
        if own is not None:
            return own
    chunks = ids.dictionary_encode().chunks
    # All chunks share one dictionary, which only grows, so the longest has all ids.
    last = max((chunk.dictionary for chunk in chunks), key=len)
    joined = np.concatenate([to_numpy(chunk.indices) for chunk in chunks])
    codes = np.split(joined, np.cumsum([len(chunk) for chunk in ids.chunks])[:-1])
    if not is_text_type(ids.type):
        return NumberedIds(codes, 0, extend_hash(None, hash_residues(to_numpy(last))))
    link.register(DISTINCT_IDS, pa.table({"id": last}))
    asked = f"SELECT {hash_part_sql('id', text=True)} AS part FROM {DISTINCT_IDS}"
    part = link.sql(asked).fetchnumpy()["part"]  # in order, like everything without ORDER BY here
    link.unregister(DISTINCT_IDS)
    return NumberedIds(codes, 0, extend_hash(None, np.asarray(part)))


def _use_integer_ids(chunks: list[NDArray[np.integer[Any]]]) -> NumberedIds | None:
    """Return the result of `number_ids` for integer ids that are close together; None otherwise.

    The integers are not copied: copying many of them would take longer than all other steps.
    """
    some = [chunk for chunk in chunks if len(chunk)]
    low, high = min(int(chunk.min()) for chunk in some), max(int(chunk.max()) for chunk in some)
    if high - low + 1 > MOST_RANGE_PER_ROW * sum(map(len, some)):
        return None
    return NumberedIds(chunks, low, hashes_between(low, high, some[0].dtype))


def hashes_between(low: int, high: int, kind: Any) -> Integers:
    """Return the hashes of all ids from the least to the largest one."""
    wide = np.dtype(np.uint64 if kind == np.uint64 else np.int64)
    return extend_hash(None, hash_residues(np.arange(high - low + 1).astype(wide) + wide.type(low)))


def is_text_type(kind: pa.DataType) -> bool:
    """Return whether ids of an Arrow type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
