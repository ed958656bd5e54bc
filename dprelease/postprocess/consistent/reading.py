"""Read the measurements of one column, and find a lattice on which no sum of them wraps.

`dprelease.consistency` rejects numbers above the declared largest number. Releases don't declare
one, and a step must accept every number that noise can produce: the lattice follows from the
measurements, which are public. With B_l the largest sum, over the tables of level l, of the sizes
of all cells, no contrast of a node's own estimate is above U = sum of B_l, none of the final ones
above (2 L + 1) U with L levels, and no cell above 3^k times that with k attributes. If that leaves
FINE bits after the point the finest such lattice is taken. Otherwise, and if tables of groupings
are measured, whose effect has no such bound, lattices are tried, the finest first. If none fits,
for sums above about 2^50 steps, numbers are cut, the tables of groupings are left out, and then no
errors are published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table
from dprelease.consistency.estimates import (
    FirstPass,
    estimates_fit,
    first_pass,
    pieces,
    with_groups,
)
from dprelease.consistency.fixed_point import FixedPointRangeError, value_bits
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import LIMIT, Integers
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.families import NoisedTable
from dprelease.system.prefetch import Spread, in_threads

MANY = 1 << 20
"""Number of cells from which on absolute values of a table are summed while reading."""

FINEST, FINE = 20, 12
"""Bits after the point of the finest lattice, and of the coarsest one used without a trial."""


class MeasuredColumn:
    """The measured numbers of one column.

    - `agreed`: the column of the family.
    - `noised`: all tables of the family, in declared order.
    """

    def __init__(self, agreed: FamilyColumn, noised: Sequence[NoisedTable]) -> None:
        self.agreed, self.cap = agreed, LIMIT
        self._sizes = agreed.shape.sizes
        by_name = {held.table.query.name: held for held in noised}
        self._slices = {
            (one.level, one.attributes): (one, Slices(_piece_reader(by_name[one.name], agreed)))
            for one in (*agreed.shape.placed, *agreed.shape.grouping_tables)
        }

    def exact_within(self, limit: int) -> bool:
        """Return whether all exactly published numbers are within +-`limit`."""
        return all(
            bool((np.abs(piece) <= limit).all())
            for placed, slices in self._slices.values()
            if self.agreed.is_exact(placed)
            for piece in slices.all()
        )

    @property
    def is_cut(self) -> bool:
        """Return whether numbers are cut when read, so that errors are unknown."""
        return self.cap < LIMIT

    def read(self, level: int, table: Table, start: int, stop: int) -> Integers:
        """Return the measured cells (areas, n_i ...) of a table for some areas of a level.

        Groupings are further levels after the last (`Shape.grouping_tables`).
        """
        placed, slices = self._slices[level, table]
        each = self.agreed.shape.cells(placed)
        held = slices.between(start * each, stop * each)
        cut = np.clip(held, -self.cap, self.cap) if self.is_cut else held
        return np.ascontiguousarray(placed.order.rising(cut, self._sizes))

    def largest_sum(self) -> int:
        """Return the sum over levels of a table's largest absolute sum, including means."""
        found: dict[int, int] = {}
        for placed, slices in self._slices.values():
            mean = abs(self.agreed.moments_of(placed).mean)
            total = math.ceil(mean * placed.table.query.keys.size)
            spread = in_threads if placed.table.query.keys.size >= MANY else map
            total += sum(spread(_absolute_sum, slices.all()))
            found[placed.level] = max(found.get(placed.level, 0), total)
        return sum(found.values())


def _piece_reader(held: NoisedTable, agreed: FamilyColumn) -> Callable[[], Iterator[Integers]]:
    return lambda: held.pieces(agreed.measurement.name)


def _absolute_sum(piece: Integers) -> int:
    """Return the sum of absolute values, which may be beyond 64 bits."""
    sizes = np.abs(piece)
    # A sum of 64-bit numbers may wrap, but sums of their halves cannot for so few cells.
    high, low = sizes >> 32, sizes & 0xFFFFFFFF
    return (int(high.sum()) << 32) + int(low.sum())


class Slices:
    """Slices of a vector that is read in pieces: one ascending pass, which may be repeated."""

    def __init__(self, pieces: Callable[[], Iterator[Any]]) -> None:
        self._piece_reader = pieces
        self._coming: Iterator[Any] = iter(())
        self._held: NDArray[Any] = np.empty(0, np.int64)
        self._first: int | None = None  # the position of the first value that is held

    def all(self) -> Iterator[Any]:
        """Yield all pieces, from the first on."""
        return self._piece_reader()

    def between(self, start: int, stop: int) -> NDArray[Any]:
        """Return the values from start to stop; earlier values are dropped."""
        # A file can only be read forwards, so an earlier area means reading it again.
        if self._first is None or start < self._first:
            self._coming, self._held, self._first = self._piece_reader(), np.empty(0, np.int64), 0
        parts, have = [], self._first + len(self._held)
        if start < have:
            parts.append(self._held[start - self._first :])
        while have < stop:
            piece = next(self._coming)
            have += len(piece)
            if have > start:
                parts.append(piece[max(0, start - (have - len(piece))) :])
        self._held = np.concatenate(parts) if parts else np.empty(0, np.int64)
        self._first = start
        taken = self._held[: stop - start]
        self._held, self._first = self._held[stop - start :], stop
        return taken


def on_lattice(
    measured: MeasuredColumn, wanted: Sequence[Sequence[Table]], *, sound: bool = True
) -> Variances:
    """Return the variances on a lattice on which the estimates of `wanted` are computed.

    If no lattice fits, numbers are cut when read from then on. All numbers are read as 0 if this
    would cut exact ones, or if exact ones contradict each other (not `sound`).
    """
    return start_on_lattice(measured, wanted, sound=sound)[0]


def start_on_lattice(
    measured: MeasuredColumn,
    wanted: Sequence[Sequence[Table]],
    *,
    sound: bool = True,
    spread: Spread = map,
) -> tuple[Variances, FirstPass | None]:
    """Return the result of `on_lattice`, and the results of the first pass if it was run.

    `spread`: the map function for subtrees.
    """
    agreed = measured.agreed
    sizes, levels = agreed.shape.sizes, len(agreed.shape.levels)
    if not sound:
        measured.cap = 0
        return agreed.variances.with_largest(_largest_number(sizes, 0)), None
    factor = 3 ** len(sizes) * (2 * levels + 2)
    needed = factor * max(1, measured.largest_sum())
    has_groups = bool(agreed.shape.grouping_tables)
    # Without groupings the bound decides, and no trial is needed.
    for bits in () if has_groups else range(FINEST, FINE - 1, -1):
        if bits in _possible_bits(sizes) and needed <= _largest_number(sizes, bits):
            return agreed.variances.with_largest(_largest_number(sizes, bits)), None
    for bits in range(FINEST if has_groups else FINE, -1, -4):
        if bits in _possible_bits(sizes):
            found = agreed.variances.with_largest(_largest_number(sizes, bits))
            try:
                found = with_groups(found, measured.read)
                first = first_pass(found, measured.read, spread=spread)
            except FixedPointRangeError:
                continue
            if estimates_fit(found, first) or _can_compute_estimates(
                measured, found, wanted, first
            ):
                return found, first
    tree = agreed.shape.tree
    fan = max(tree.most_children(level) for level in range(levels))
    most = min(_largest_number(sizes, 0), (1 << 60) // (fan * math.prod(sizes)))
    cells = sum(one.table.query.keys.size for one in agreed.shape.placed)
    cap = max(1, most // (factor * cells))
    # Exact tables must not be cut, because others are computed from them. Then all numbers are 0.
    measured.cap = cap if measured.exact_within(cap) else 0
    return agreed.variances.with_largest(_largest_number(sizes, 0)), None


def _possible_bits(sizes: tuple[int, ...]) -> range:
    """Return the possible numbers of bits after the point."""
    return range(value_bits(sizes, 2) + 1)


def _largest_number(sizes: tuple[int, ...], bits: int) -> int:
    """Return the largest number for which values have so many bits after the point."""
    lengths = range(1, 54)
    return max(1 << n for n in lengths if value_bits(sizes, 1 << n) >= bits)


def _can_compute_estimates(
    measured: MeasuredColumn, found: Variances, wanted: Sequence[Sequence[Table]], first: FirstPass
) -> bool:
    try:
        for _piece in pieces(found, measured.read, wanted, first=first):
            pass
    except FixedPointRangeError:
        return False
    return True
