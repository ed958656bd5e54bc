"""Read published tables of a family, and check that their estimates solve the normal equations.

With measurements y of tables S at areas v, of weight w = 1 / variance each, and estimates x of the
same cells, least squares over the cells of the leaves requires for every one of these
    sum over areas v above the leaf and tables S of w (y - mean - x) = 0,
each at the cell of S that contains it. The sum over published x may be off by the fixed-point
error, `standard_errors.rounding_error`.

With exact tables (invariants) the sum is not 0 but a sum of multipliers, one for each of their
cells: at each leaf, a function of the keys of the exact tables of all levels. The difference of two
leaves of one area, which share all exact tables but their own, is a function of the keys of the
latter. The remainder after projecting out such functions is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.consistency.algebra import Table, subtables
from dprelease.consistency.standard_errors import rounding_error
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.rounding import decimal_digits
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.consistent.invariants import invariant_tables
from dprelease.postprocess.consistent.outputs import estimates_name, integer_table_name
from dprelease.postprocess.consistent.reading import MeasuredColumn, Slices
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
            # Published floats are multiples of the unit up to rounding, so the nearest one is
            # meant.
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
    # The upper half only repeats the sign, so the values fit 64 bits.
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
        # Rows repeat keys, so far fewer values are looked up.
        coded = column.dictionary_encode()
        listed = self._find_positions(self._known, coded.dictionary)
        # Cells rise in the file, so the next batch starts near the last key of this one.
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
            # Growing windows look up little if values are near, and end after few steps if not.
            size *= 4
        return _positions_among(known, values)


def _positions_among(known: pa.Array, values: pa.Array) -> Integers:
    """Return the place of each value among some that are known, -1 for others."""
    import pyarrow.compute as pc

    found = pc.fill_null(pc.index_in(values, value_set=known), -1)
    positions: Integers = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


SAMPLED = 16
"""Number of leaves whose equations are checked."""

MOST_CELLS = 1 << 20
"""Number of checked finest cells of a leaf, because small tables may have very many together."""


def wrong_equations(
    variances: Variances, measured: MeasuredColumn, published: PublishedColumn
) -> Iterator[str]:
    """Yield leaves at which the equations don't hold. Estimates of all levels must be published."""
    shape = published.shape
    leaves = shape.tree.counts[-1]
    sums = _LeafEquations(variances, measured, published)
    exact = invariant_tables(published.column)
    everywhere = {one.attributes for one in exact}
    below = {one.attributes for one in exact if one.level == len(shape.levels) - 1}
    scale = 2.0 ** (len(shape.sizes) + 1) if exact else 1.0
    for leaf in np.unique(np.linspace(0, leaves - 1, min(SAMPLED, leaves)).astype(int)).tolist():
        residual_sums, tolerance = sums.at(leaf)
        wrong = (
            float(np.abs(_remaining_effects(residual_sums, everywhere)).max()) > scale * tolerance
        )
        if exact and leaf + 1 < leaves and _next_is_sibling(shape, leaf):
            other, other_tolerance = sums.at(leaf + 1)
            difference = float(np.abs(_remaining_effects(other - residual_sums, below)).max())
            wrong |= difference > scale * (tolerance + other_tolerance)
        if wrong:
            name = published.column.name
            yield f"the estimates of '{name}' above leaf {leaf} are not least squares"


@dataclass(frozen=True)
class _LeafEquations:
    """The normal equations at the finest cells of a leaf."""

    variances: Variances
    measured: MeasuredColumn
    published: PublishedColumn

    @cached_property
    def _bounds(self) -> dict[Table, list[int]]:
        tables = {one.attributes for one in self.published.shape.placed}
        return {table: rounding_error(self.variances, table) for table in tables}

    @cached_property
    def _indexes(self) -> list[Integers]:
        return _evenly_spaced_indexes(self.published.shape.sizes)

    def at(self, leaf: int) -> tuple[Floats, float]:
        """Return the weighted sums of residuals at the cells of a leaf, and their tolerance."""
        published, shape = self.published, self.published.shape
        residual_sums = np.zeros([len(values) for values in self._indexes])
        tolerance = 0.0
        for placed, area, leaves in self._tables_with(leaf):
            table, moments = placed.attributes, published.column.moments_of(placed)
            # An exact table has no residuals; its multipliers are projected out instead.
            if not moments.variance:
                continue
            y = self.measured.read(placed.level, table, area, area + 1)[0].astype(np.float64)
            x = np.ldexp(
                published.estimates(placed, area, area + 1)[0].astype(float), -published.bits
            )
            weight = 1.0 / float(moments.variance)
            residual_sums += weight * _at_finest_cells(
                y - float(moments.mean) - x, table, self._indexes
            )
            level = min(placed.level, len(shape.levels) - 1)
            # One unit more than the fixed-point error, for the rounding of the published value.
            bound = leaves * (self._bounds[table][level] + 1) / 2.0**published.bits
            tolerance += weight * (bound + 2.0**-40 * float(np.abs(y).max() + np.abs(x).max()))
        return residual_sums, tolerance

    def _tables_with(self, leaf: int) -> Iterator[tuple[PlacedTable, int, int]]:
        """Yield all measured tables with the area or group that contains a leaf.

        The last number is that of the areas of which estimates are sums: the leaves of a group.
        """
        shape, area = self.published.shape, leaf
        for level in reversed(range(len(shape.levels))):
            yield from ((placed, area, 1) for placed in shape.at(level))
            area = int(shape.tree.parents[level - 1][area]) if level else 0
        for level, key in enumerate(shape.groupings, len(shape.levels)):
            groups = key.ancestors.numbers
            group = int(groups[leaf])
            leaves = int((groups == group).sum())
            yield from ((placed, group, leaves) for placed in shape.at(level))


def _next_is_sibling(shape: Shape, leaf: int) -> bool:
    """Return whether a leaf and the next one lie in the same area."""
    parents = shape.tree.parents[-1] if shape.tree.parents else np.zeros(2, np.int64)
    return bool(parents[leaf] == parents[leaf + 1])


def _remaining_effects(residual_sums: Floats, tables: Collection[Table]) -> Floats:
    """Return the remainder of cells after projecting out functions of the keys of some tables."""
    rest = residual_sums
    for space in {space for table in tables for space in subtables(table)}:
        part = residual_sums
        for i in range(residual_sums.ndim):
            mean = part.mean(axis=i, keepdims=True)
            part = part - mean if i in space else mean + np.zeros_like(part)
        rest = rest - part
    return rest


def _evenly_spaced_indexes(sizes: tuple[int, ...]) -> list[Integers]:
    """Return indexes of values of each attribute: all values if there are not too many cells."""
    values_per_attribute = max(sizes, default=0)
    while math.prod(min(n, values_per_attribute) for n in sizes) > MOST_CELLS:
        values_per_attribute = max(1, values_per_attribute * 3 // 4)
    return [
        np.unique(np.linspace(0, n - 1, min(n, values_per_attribute)).astype(np.int64))
        for n in sizes
    ]


def _at_finest_cells(cells: Floats, table: tuple[int, ...], indexes: Sequence[Integers]) -> Floats:
    """Return the cell of a table that contains each finest cell with the values `indexes`."""
    selected = cells[np.ix_(*(indexes[i] for i in table))] if table else cells
    shaped: Floats = selected.reshape([len(v) if i in table else 1 for i, v in enumerate(indexes)])
    return np.broadcast_to(shaped, [len(values) for values in indexes])
