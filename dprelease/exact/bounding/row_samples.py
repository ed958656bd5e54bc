"""Select some rows of each cell of an id, and of all cells of an id, by the hashes of their places.

The hashes and the order are those of `statements.bounding`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import mask_and_numbers
from dprelease.exact.results.true_table import Integers
from dprelease.statements.bounding import MODULUS, ROUNDS

HASH_BITS = 31
LARGEST_HASH = HASH_MASK = 2**HASH_BITS - 1
"""The largest hash, which is also the mask of the bits of a hash."""


@dataclass(frozen=True, slots=True)
class CellRows:
    """All rows of some cells of ids.

    `values`: the values of the rows; None if the query reads no values, so that all rows of a cell
    are equal. `group`: the number of the cell of an id, by which the rows are sorted. `hashes`: the
    hash of each row's id and cell. `ids` and `cells`: the id and the cell of each row; all rows of
    an id are adjacent.
    """

    values: pa.RecordBatch | None
    group: Integers
    hashes: Integers
    ids: Integers
    cells: Integers

    def sampled_positions(self, most: int, most_in_all: int | None) -> Integers:
        """Return the positions of `most` rows of each cell, each row with the same probability.

        If `most_in_all` is not None, the result has at most so many rows of each id. Limits of rows
        in all cells need all rows of an id.
        """
        # The hash is of a number in this order and not of the values: equal rows would have equal
        # hashes, so one late trip of a person would count as often as nine punctual ones (decision
        # 4).
        by_value = self._order_by_value()
        place = np.arange(len(self.group))
        number = place - np.maximum.accumulate(np.where(change_mask(self.group), place, 0))
        # Rows of a cell, and their hashes, are at the same positions before and after sorting.
        row_hashes = extend_hash(self.hashes, number)
        by_hash = np.argsort(self.group << HASH_BITS | row_hashes, kind="stable")
        sample = by_hash[first_rows_mask(self.group, most)]
        if most_in_all is not None:
            ids = self.ids[sample]
            # Ties of hashes go to the smaller cell and number, as in the engine's window functions.
            order = np.lexsort((number[sample], self.cells[sample], row_hashes[sample], ids))
            sample = sample[order[first_rows_mask(ids[order], most_in_all)]]
        return by_value[sample]

    def _order_by_value(self) -> Integers:
        """Return the positions of the rows of each cell in the order of their values."""
        columns = [self.group]
        for column in () if self.values is None else self.values.columns:
            known, whole = mask_and_numbers(column)
            columns += [known, whole] if column.null_count else [whole]  # missing values first
        return np.lexsort(columns[::-1])  # lexsort: the last key has priority


def hash_residues(values: NDArray[np.integer[Any]]) -> Integers:
    """Return integers modulo `MODULUS`, so that they can be parts of a hash."""
    if values.dtype == np.uint64:
        return (values % np.uint64(MODULUS)).astype(np.int64)
    # NumPy's remainder is never negative; SQL's is, and is corrected in `hash_part_sql`.
    parts: Integers = values.astype(np.int64, copy=False) % MODULUS
    return parts


def extend_hash(start: Integers | None, part: Integers) -> Integers:
    """Return the hashes of `statements.bounding`, each extended by one part.

    `start`: the hashes of the earlier parts; None for the first part.
    """
    hashes = part.copy() if start is None else start + part
    for constant, factor in ROUNDS:
        hashes ^= constant
        hashes *= factor
        hashes %= MODULUS
    return hashes


def change_mask(*columns: Integers) -> NDArray[np.bool_]:
    """Return a mask of the first row and of every row that differs from the row before it."""
    changed = np.ones(len(columns[0]), dtype=np.bool_)
    if len(changed):
        np.not_equal(columns[0][1:], columns[0][:-1], out=changed[1:])
        for column in columns[1:]:
            changed[1:] |= column[1:] != column[:-1]
    return changed


def first_rows_mask(group: Integers, most: int) -> NDArray[np.bool_]:
    """Return a mask of the first `most` rows of each group; rows of a group must be adjacent."""
    among = np.ones(len(group), dtype=np.bool_)
    np.not_equal(group[most:], group[:-most], out=among[most:])
    return among
