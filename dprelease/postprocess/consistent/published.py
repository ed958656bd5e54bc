"""Read published tables of a family for the second check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.rounding import decimal_digits
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.consistent.outputs import estimates_name, integer_table_name
from dprelease.postprocess.consistent.reading import Slices
from dprelease.postprocess.consistent.values import is_dense
from dprelease.query.grouping.group_keys import Key, KeySpace

if TYPE_CHECKING:
    import pyarrow as pa

Files = Mapping[str, Callable[[], Iterator[Any]]]

AT_ONCE = 1 << 18
"""Number of cells of a table in memory at a time."""

AT_ONCE_KNOWN = 1 << 14
"""Number of declared values of a key per look-up of a batch."""


class PublishedColumn:
    """One column of a family as read from its files, tables by level and attributes.

    - `column`: the column.
    - `bits`: bits after the point of the lattice of its estimates.
    - `files`: the Arrow batches of every output, by name.
    """

    def __init__(self, column: FamilyColumn, bits: int, files: Files) -> None:
        self.column, self.bits, self._files = column, bits, files
        self.shape: Shape = column.shape
        self._open: dict[tuple[str, int, Table], Slices] = {}

    def estimates(self, placed: PlacedTable, start: int, stop: int) -> Integers:
        """Return (areas, n_i ...) estimates, in units of the lattice."""
        unit = float(self.column.step) / 2.0**self.bits
        read = partial(self._estimate_units, placed, unit)  # opened at first use
        found: Integers = self._read("estimates", placed, start, stop, read)
        return found

    def errors(self, placed: PlacedTable, start: int, stop: int) -> Floats:
        """Return (areas, n_i ...) standard errors, in steps."""
        step = float(self.column.step)
        read = partial(self._errors, placed, step)
        found: Floats = self._read("errors", placed, start, stop, read)
        return found

    def whole(self, placed: PlacedTable, start: int, stop: int) -> Integers:
        """Return the integers (areas, n_i ...) of an integer table, in steps."""
        read = partial(self._integers, placed)
        found: Integers = self._read("whole", placed, start, stop, read)
        return found

    def _read(
        self,
        kind: str,
        placed: PlacedTable,
        start: int,
        stop: int,
        pieces: Callable[[], Iterator[Any]],
    ) -> Any:
        at = kind, placed.level, placed.attributes
        slices = self._open.setdefault(at, Slices(pieces))
        each = self.shape.cells(placed)
        return placed.order.rising(slices.between(start * each, stop * each), self.shape.sizes)

    def _estimate_units(self, placed: PlacedTable, unit: float) -> Iterator[Integers]:
        for batch in self._files[estimates_name(placed.name)]():
            values = batch.column(self.column.name).to_numpy(zero_copy_only=False)
            yield np.rint(values / unit).astype(np.int64)

    def _errors(self, placed: PlacedTable, step: float) -> Iterator[Floats]:
        for batch in self._files[estimates_name(placed.name)]():
            yield batch.column(f"{self.column.name}_se").to_numpy(zero_copy_only=False) / step

    def _integers(self, placed: PlacedTable) -> Iterator[Integers]:
        batches = self._files[integer_table_name(placed.name)]()
        if is_dense(placed):
            yield from (
                steps_of(batch.column(self.column.name), self.column.step) for batch in batches
            )
            return
        keys = placed.table.query.keys
        cells_of = CellNumbers(keys).of
        held = (
            (cells_of(b), steps_of(b.column(self.column.name), self.column.step)) for b in batches
        )
        yield from _dense_cells(held, keys.size)


def _dense_cells(held: Iterator[tuple[Integers, Integers]], size: int) -> Iterator[Integers]:
    """Yield all cells of a table whose file lists only the cells that are not 0."""
    cells, values = np.empty(0, np.int64), np.empty(0, np.int64)
    for start in range(0, size, AT_ONCE):
        stop = min(start + AT_ONCE, size)
        while not len(cells) or cells[-1] < stop:
            more = next(held, None)
            if more is None:
                break
            cells, values = np.concatenate((cells, more[0])), np.concatenate((values, more[1]))
        here = int(np.searchsorted(cells, stop))
        out = np.zeros(stop - start, np.int64)
        out[cells[:here] - start] = values[:here]
        cells, values = cells[here:], values[here:]
        yield out


def steps_of(column: pa.Array, step: Fraction) -> Integers:
    """Return lattice steps of a published column: whole numbers, or decimals."""
    found: Integers
    if step == 1:
        found = column.to_numpy(zero_copy_only=False)
        return found
    unit = int(step * 10 ** (decimal_digits(step) or 0))
    raw = np.frombuffer(column.buffers()[1], dtype="<i8").reshape(-1, 2)
    raw = raw[column.offset : column.offset + len(column)]
    low, high = raw[:, 0], raw[:, 1]
    if (high == low >> 63).all():
        narrow: Integers = low // unit
        return narrow
    wide = high.astype(object) * 2**64 + (low.astype(object) % 2**64)
    found = (wide // unit).astype(np.int64)
    return found


class CellNumbers:
    """The numbers of the cells of rows, batch after batch of a file whose cells rise."""

    def __init__(self, keys: KeySpace) -> None:
        self._keys = [
            (key.column, stride, _KeyPositions(key))
            for key, stride in zip(keys.keys, keys.strides, strict=True)
        ]

    def of(self, batch: pa.RecordBatch) -> Integers:
        """Return the numbers of the cells of the rows of the next batch."""
        found = np.zeros(batch.num_rows, np.int64)
        for name, stride, positions in self._keys:
            found += positions.of(batch.column(name)) * stride
        return found


class _KeyPositions:
    """Positions of values of a key among the declared ones, of which there may be many.

    Few of these occur in a batch, and areas of ascending cells ascend: the search starts where the
    previous values were found.
    """

    def __init__(self, key: Key) -> None:
        self._key, self._search_start = key, 0
        self._known: pa.Array | None = None

    def of(self, column: pa.Array) -> Integers:
        """Return the place of each value."""
        import pyarrow as pa

        if self._known is None:
            self._known = pa.array(self._key.values, type=column.type)
        if len(self._known) <= AT_ONCE_KNOWN or not len(column):
            return _positions_among(self._known, column)
        coded = column.dictionary_encode()
        listed = self._find_positions(self._known, coded.dictionary)
        self._search_start = int(listed[-1])
        positions: Integers = listed[coded.indices.to_numpy(zero_copy_only=False)]
        return positions

    def _find_positions(self, known: pa.Array, values: pa.Array) -> Integers:
        """Return the places of different values: in the first window that has all of them."""
        size = max(AT_ONCE_KNOWN, 2 * len(values))
        while self._search_start + size < len(known):
            found = _positions_among(known.slice(self._search_start, size), values)
            if (found >= 0).all():
                return found + self._search_start
            size *= 4
        return _positions_among(known, values)


def _positions_among(known: pa.Array, values: pa.Array) -> Integers:
    """Return the place of each value among some that are known, -1 for others."""
    import pyarrow.compute as pc

    found = pc.fill_null(pc.index_in(values, value_set=known), -1)
    positions: Integers = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions
