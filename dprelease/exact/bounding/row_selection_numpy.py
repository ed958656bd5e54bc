"""Select the kept rows of each id, by the rule of `statements.bounding`, in one pass.

Each row has a key, a 64-bit integer: the number of its id, followed by the hash of its cell. Keys
give the order in which cells are kept. Rows of cells that can no longer be among the kept cells of
their id are dropped as they arrive, so memory depends on the number of kept rows and not on the
size of the table. NumPy's long loops release the interpreter's lock, so as many threads as the
engine has can work on batches of arriving rows, and on ranges of ids of the held rows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import to_arrow_array
from dprelease.exact.bounding.id_ranges import Range, key_ranges, positions_in_range
from dprelease.exact.bounding.row_samples import (
    HASH_BITS,
    HASH_MASK,
    LARGEST_HASH,
    CellRows,
    change_mask,
    extend_hash,
    first_rows_mask,
    hash_residues,
)
from dprelease.exact.results.true_table import Integers
from dprelease.privacy.unit import PrivacyUnit
from dprelease.statements.bounding import MODULUS

HASHED_AT_ONCE = 2**16
"""Rows whose hashes are computed together, and stay in the cache."""

LEAST_NEW_ROWS = 2**20
"""The number of new rows after which the held rows are searched for rows to drop."""

PART_MARGIN = 1.25
"""The factor by which there are more parts of ids than necessary, because parts differ in size."""


@dataclass(frozen=True, slots=True)
class IdRows:
    """Rows of a query: the id and the cell of each row, and its values, if the query has any."""

    ids: NDArray[np.integer[Any]]
    low: int
    """The least id; the number of an id is the id minus `low`."""
    cells: NDArray[np.integer[Any]]
    values: pa.RecordBatch | None


@dataclass(frozen=True, slots=True)
class SelectionLimits:
    """The contribution limits of each id, and the resources with which rows are selected.

    `unit`: the privacy unit, which has the limits. `cells`: the number of cells of the table.
    `most_rows`: the maximum number of rows held in memory. `threads`: the number of threads.
    """

    unit: PrivacyUnit
    cells: int
    most_rows: int
    threads: int

    @property
    def chooses_cells(self) -> bool:
        """Return whether an id can have rows in more cells than its limit allows."""
        return self.unit.limits_groups(self.cells)

    @property
    def most_in_all(self) -> int | None:
        """Return the maximum number of rows of an id in all cells; None if it limits nothing."""
        return self.unit.max_rows if self.unit.limits_all_rows(self.cells) else None


class NoRoomError(Exception):
    """The kept rows do not fit in memory; those of one part of the ids, of `parts`, may fit."""

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self.parts = max(2, math.ceil(PART_MARGIN / share))


def select_kept_rows(
    blocks: Iterable[IdRows], total: int, hashes: Integers, bounds: SelectionLimits
) -> pa.Table:
    """Return the kept rows as a table of `id`, `cell` and the values.

    `id` is the number of an id. If the rows have no values, the table has one row for each id and
    cell, with `n`, the number of kept rows. `blocks`: all rows, in batches. `total`: the number of
    all rows. `hashes`: the hash of each id, by the number of the id.

    Raises NoRoomError if the kept rows do not fit in memory.
    """
    # At first, any cell of an id may be among those that are kept.
    held = _Candidates(hashes | LARGEST_HASH << HASH_BITS, bounds)
    seen = 0
    with ThreadPoolExecutor(bounds.threads) as pool:
        coming: deque[Future[_KeyedRows]] = deque()

        def hold_finished_rows(left: int) -> None:
            """Hold the results of the threads until at most `left` results are pending."""
            while len(coming) > left:
                held.add(coming.popleft().result())

        for block in blocks:
            seen += len(block.ids)
            coming.append(pool.submit(held.candidate_rows, block))
            # Without this limit, a fast engine would fill the memory with batches that wait for a
            # thread.
            hold_finished_rows(bounds.threads)
            if held.is_due:
                # Threads read the limits that `drop` writes, so none of them may be at work.
                hold_finished_rows(0)
                full = held.size > bounds.most_rows
                held.drop(pool.map)
                if full and not held.pack(pool.map):
                    # Of the rows to come, at most the same share is kept as of those that came.
                    raise NoRoomError(seen / total)
        hold_finished_rows(0)
        return held.table(pool.map)


ParallelMap = Callable[..., Iterable[Any]]
"""A function like `map`, which may use threads."""


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """Rows, each with its key, its cell and its values."""

    keys: Integers
    cells: Integers
    values: pa.RecordBatch | None

    def rows_at(self, places: Integers) -> _KeyedRows:
        if len(places) == len(self.keys):
            return self
        values = None if self.values is None else self.values.take(to_arrow_array(places))
        return _KeyedRows(self.keys[places], self.cells[places], values)


@dataclass
class _Candidates:
    """The held rows, which may be kept, and what is known about the cells of each id."""

    known: Integers
    """For each id: in the higher bits, the largest hash that a kept cell of the id can have, as far
    as known; in the lower bits, the hash of the id. Looking up one number takes half the time of
    looking up two."""
    bounds: SelectionLimits
    blocks: list[_KeyedRows] = field(default_factory=list)
    size: int = 0
    settled: int = 0
    """The number of rows that were still held when rows were last dropped."""

    @property
    def is_due(self) -> bool:
        """Return whether enough rows are new to search all held rows for rows to drop."""
        new = self.size - self.settled
        return self.size > self.bounds.most_rows or (
            self.bounds.chooses_cells and new > max(LEAST_NEW_ROWS, self.settled)
        )

    def candidate_rows(self, rows: IdRows) -> _KeyedRows:
        """Return the rows of a batch that may be kept; several threads may call this at a time."""
        parts: list[tuple[Integers, Integers, Integers]] = []
        for start in range(0, max(len(rows.ids), 1), HASHED_AT_ONCE):
            block = slice(start, start + HASHED_AT_ONCE)
            numbers = subtract_least_id(rows.ids[block], rows.low).astype(np.int64, copy=False)
            cells = rows.cells[block].astype(np.int64, copy=False)
            known = self.known[numbers]
            order = (
                self._hashes(known, cells) if self.bounds.chooses_cells else np.zeros_like(cells)
            )
            inside = np.flatnonzero(order <= known >> HASH_BITS)
            keys = numbers[inside] << HASH_BITS | order[inside]
            parts.append((keys, cells[inside], inside + start))
        keys, cells, places = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        if rows.values is None or len(places) == len(rows.ids):
            return _KeyedRows(keys, cells, rows.values)
        return _KeyedRows(keys, cells, rows.values.take(to_arrow_array(places)))

    def _hashes(self, known: Integers, cells: Integers) -> Integers:
        """Return the hash of each row's id and cell; `known`: the id's entry in `self.known`."""
        # Cell numbers are not negative; most tables have fewer of them than the modulus.
        part = cells if self.bounds.cells <= MODULUS else hash_residues(cells)
        return extend_hash(known & HASH_MASK, part)

    def add(self, block: _KeyedRows) -> None:
        """Hold a batch of rows."""
        self.blocks.append(block)
        self.size += len(block.keys)

    def drop(self, in_threads: ParallelMap) -> None:
        """Drop rows of cells that are not among the first cells of their ids."""
        if self.bounds.chooses_cells and self.blocks:
            spans = key_ranges([b.keys for b in self.blocks], HASH_BITS, self.bounds.threads)
            list(in_threads(self._record_last_hashes, spans))
            self.blocks = list(in_threads(self._rows_within_limits, self.blocks))
        self.size = self.settled = sum(len(block.keys) for block in self.blocks)

    def pack(self, in_threads: ParallelMap) -> bool:
        """Return whether more rows fit; if necessary, drop all rows that are not kept.

        Rows with values are dropped only after the last row has arrived, because all rows of an id
        in a cell decide which of them are kept. Under `max_rows`, this holds for all rows.
        """
        enough = self.bounds.most_rows * 3 // 4
        are_equal = self.blocks[0].values is None and self.bounds.most_in_all is None
        if self.size > enough and are_equal:
            self.blocks = [self._select_sorted(in_threads)]
            self.size = self.settled = len(self.blocks[0].keys)
        return self.size <= enough

    def _record_last_hashes(self, span: Range) -> None:
        """Record, for each id of a range, the hash of the last cell that can be kept."""
        held = np.concatenate([b.keys[positions_in_range(b.keys, span)] for b in self.blocks])
        last = _nth_smallest_keys(held, self.bounds.unit.max_groups)
        ids = last >> HASH_BITS
        self.known[ids] = self.known[ids] & HASH_MASK | (last & HASH_MASK) << HASH_BITS

    def _rows_within_limits(self, block: _KeyedRows) -> _KeyedRows:
        """Return the rows of a batch whose cells can still be kept."""
        limits = self.known[block.keys >> HASH_BITS] >> HASH_BITS
        return block.rows_at(np.flatnonzero(block.keys & HASH_MASK <= limits))

    def _remove_all_blocks(self) -> _KeyedRows:
        blocks, self.blocks = self.blocks, []
        return _concatenate_blocks(blocks)

    def _select_sorted(self, in_threads: ParallelMap) -> _KeyedRows:
        """Return the kept rows, sorted by id and cell; afterwards no rows are held."""
        rows = self._remove_all_blocks()

        def select_range(span: Range) -> _KeyedRows:
            own = rows.rows_at(positions_in_range(rows.keys, span))
            return own.rows_at(self._kept_positions(own))

        return _concatenate_blocks(
            list(in_threads(select_range, key_ranges([rows.keys], HASH_BITS, self.bounds.threads)))
        )

    def _kept_positions(self, rows: _KeyedRows) -> Integers:
        """Return the positions of the kept rows, sorted by id and cell.

        `rows` must contain all held rows of each id.
        """
        order, keys, new = _order_by_cell(rows.keys, rows.cells)
        if self.bounds.chooses_cells:
            few = first_rows_mask(keys[new] >> HASH_BITS, self.bounds.unit.max_groups)
            if not few.all():  # only where cells of an id have the same hash
                order, keys, new = _order_by_hash(rows.keys, rows.cells)
                few = first_rows_mask(keys[new] >> HASH_BITS, self.bounds.unit.max_groups)
                inside = few[np.cumsum(new) - 1]
                order, keys, new = order[inside], keys[inside], new[inside]
        group = np.cumsum(new) - 1
        most, most_in_all = self.bounds.unit.max_rows_per_group, self.bounds.most_in_all
        if rows.values is None and most_in_all is None:
            places: Integers = order[first_rows_mask(group, most)]
            return places
        sizes = np.bincount(group)
        above = sizes > most
        if most_in_all is not None:
            person = np.cumsum(change_mask(keys[new] >> HASH_BITS)) - 1
            totals = np.bincount(person, np.minimum(sizes, most))
            above |= (totals > most_in_all)[person]
        full = above[group]
        if not full.any():
            return order
        some, places = order[full], np.flatnonzero(full)
        ids, cells = rows.keys[some] >> HASH_BITS, rows.cells[some]
        values = None if rows.values is None else rows.values.take(to_arrow_array(some))
        full_rows = CellRows(values, group[full], self._hashes(self.known[ids], cells), ids, cells)
        sample = full_rows.sampled_positions(most, most_in_all)
        kept: Integers = np.sort(np.concatenate([np.flatnonzero(~full), places[sample]]))
        return np.asarray(order[kept], dtype=np.int64)

    def table(self, in_threads: ParallelMap) -> pa.Table:
        """Return the kept rows, selected from all rows that were added."""
        self.drop(in_threads)
        rows = self._select_sorted(in_threads)
        if rows.values is not None:
            columns = [
                to_arrow_array(rows.keys >> HASH_BITS),
                to_arrow_array(rows.cells),
                *rows.values.columns,
            ]
            return pa.table(columns, names=["id", "cell", *rows.values.schema.names])
        first = np.flatnonzero(change_mask(rows.keys, rows.cells))
        counts = np.diff(first, append=len(rows.keys))
        columns = [rows.keys[first] >> HASH_BITS, rows.cells[first], counts]
        return pa.table([to_arrow_array(column) for column in columns], names=["id", "cell", "n"])


def _concatenate_blocks(blocks: Sequence[_KeyedRows]) -> _KeyedRows:
    if not blocks:
        return _KeyedRows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), None)
    values = [block.values for block in blocks if block.values is not None]
    return _KeyedRows(
        np.concatenate([block.keys for block in blocks]),
        np.concatenate([block.cells for block in blocks]),
        pa.concat_batches(values) if values else None,
    )


def subtract_least_id(ids: NDArray[np.integer[Any]], low: int) -> NDArray[np.integer[Any]]:
    """Return ids minus the least id, which are small numbers."""
    wide: NDArray[np.integer[Any]] = (
        ids if ids.dtype == np.uint64 else ids.astype(np.int64, copy=False)
    )
    return wide - wide.dtype.type(low) if low else wide


def _nth_smallest_keys(keys: Integers, most: int) -> Integers:
    """Return, for each id with at least `most` different keys, its `most`-th smallest key."""
    ordered = np.sort(keys)
    ordered = ordered[change_mask(ordered)]
    ids = ordered >> HASH_BITS
    place = most - 1  # of the last key that may count, from the first one of its id
    first = np.flatnonzero(change_mask(ids))
    return ordered[(first + place)[np.diff(first, append=len(ids)) > place]]


Order = tuple[Integers, Integers, NDArray[np.bool_]]
"""Positions of rows in an order, their keys in it, and where each cell of an id begins."""


def _order_by_cell(keys: Integers, cells: Integers) -> Order:
    """Return the order of rows by id and cell.

    Sorting numbers that contain their positions is several times faster than sorting positions by
    other numbers.
    """
    ids = keys >> HASH_BITS
    low = int(ids.min()) if len(ids) else 0
    place, cell = len(keys).bit_length(), int(cells.max(initial=0)).bit_length()
    # A signed integer of 64 bits has room for 63, and id, cell and position share them.
    if (int(ids.max(initial=0)) - low).bit_length() + cell + place >= 63:
        return _order_by_hash(keys, cells)
    packed = (((ids - low) << cell) | cells) << place | np.arange(len(keys))
    packed.sort()
    order = packed & ((1 << place) - 1)
    return order, keys[order], change_mask(packed >> place)


def _order_by_hash(keys: Integers, cells: Integers) -> Order:
    """Return the order of rows by id, hash and cell."""
    order = np.argsort(keys)
    ordered, at = keys[order], cells[order]
    if np.any((ordered[1:] == ordered[:-1]) & (at[1:] != at[:-1])):
        # Two cells of one id have the same hash, once in about a billion pairs.
        order = np.lexsort((cells, keys))
        ordered, at = keys[order], cells[order]
    return order, ordered, change_mask(ordered, at)
