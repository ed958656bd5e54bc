"""Both layers of a family, written area after area in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.estimates import Piece, pieces
from dprelease.consistency.family import Refinement, refinement, whole_pieces
from dprelease.consistency.fixed_point import Whole
from dprelease.consistency.intervals import intervals
from dprelease.consistency.standard_errors import half_widths, standard_errors
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import LIMIT, Flags, Floats, Integers
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import Agreed
from dprelease.postprocess.consistent.family_shape import Placed, Shape
from dprelease.postprocess.consistent.invariants import contradictions
from dprelease.postprocess.consistent.outputs import (
    estimates_of,
    lowest,
    records_of,
    whole_of,
)
from dprelease.postprocess.consistent.reading import Measured, begun_on_lattice
from dprelease.postprocess.consistent.zeros import zeros_of
from dprelease.postprocess.families import Batch, NoisedTable
from dprelease.schema.release_parts.consistent import ConsistentSpec
from dprelease.system.ahead import ahead

DENSE = 10_000_000
"""Cells up to which a whole table has all of them; above, those that are not 0."""

MOST_RECORDS = 1 << 31
"""Invented persons up to which they are written."""

AT_ONCE = 1 << 20
"""Rows of records that are made at a time, and cells of some areas."""

Numbered = tuple[str, Batch]

Made = tuple[Piece, list[Whole], Variances, bool]
"""Estimates of one column at some areas, its whole tables there, and whether numbers were cut."""


def is_dense(placed: Placed) -> bool:
    """Return whether a whole table has a row for every cell."""
    return placed.table.query.keys.size <= DENSE


@dataclass(frozen=True)
class _Part:
    """One column at some areas: its estimates, and its whole tables if there are any."""

    column: Agreed
    variances: Variances
    tables: dict[Table, Whole]
    whole: Whole
    is_cut: bool
    """Whether measurements were cut, so that nothing is known of errors."""
    never: Flags
    """Which finest cells are 0 everywhere; so is what is published of them."""

    def of(self, start: int, stop: int) -> _Part:
        """Return it at some of the areas: the top of a tree may have very many."""
        tables = {table: values[start:stop] for table, values in self.tables.items()}
        return replace(self, tables=tables, whole=self.whole[start:stop])


def wanted_tables(shape: Shape, spec: ConsistentSpec) -> list[list[Table]]:
    """Return for each level the tables whose estimates are needed there."""
    last = len(shape.levels) - 1 if spec.non_negative else lowest(shape, spec)
    made: set[Table] = {shape.everything} if spec.non_negative else set()  # what these sum up
    found: list[list[Table]] = []
    for level in reversed(range(len(shape.levels))):
        here = made | {one.attributes for one in shape.at(level)} if level <= last else set()
        found.append(sorted(here | set(found[-1] if found else ()), key=lambda t: (len(t), t)))
    return found[::-1]


def refinement_of(column: Agreed, spec: ConsistentSpec) -> Refinement:
    """Return how layer 2 is made of a column."""
    zeros = zeros_of(column.shape, spec.zeros)
    composition = spec.composition is not None
    return refinement(column.variances, column.shape.everything, zeros, composition=composition)


def family_values(
    family: str, columns: Sequence[Agreed], spec: ConsistentSpec, noised: Sequence[NoisedTable]
) -> Iterator[Numbered]:
    """Yield rows of all outputs of a family."""
    shape = columns[0].shape
    wanted = wanted_tables(shape, spec)
    parts = [_parts(column, spec, Measured(column, noised), wanted) for column in columns]
    never = zeros_of(shape, spec.zeros)
    records = _Records(records_of(family)) if spec.publish.records else None
    few = sum(one.table.query.keys.size for one in shape.placed) < AT_ONCE
    together = zip(*parts, strict=True)  # the same areas of every column
    with ahead(together, "dprelease-layer-2", few=few) as coming:
        for made in coming:
            piece = made[0][0]
            if piece.top and int(made[0][1][0].sum()) > MOST_RECORDS:
                records = None
            for level, start, stop, here in _levels(made, columns, never):
                per = max(1, AT_ONCE // max(1, math.prod(shape.sizes)))
                for first in range(start, stop, per):
                    last = min(first + per, stop)
                    some = [part.of(first - start, last - start) for part in here]
                    for placed in shape.at(level):
                        yield from _rows(placed, some, spec, first, last)
                if records is not None and level == len(shape.levels) - 1:
                    yield from records.of(here[0].whole, start)


def _levels(
    made: Sequence[Made], columns: Sequence[Agreed], never: Flags
) -> Iterator[tuple[int, int, int, list[_Part]]]:
    """Yield each level of a piece that has areas there, with these and with all columns."""
    piece = made[0][0]
    for at in range(0 if piece.top else 1, len(piece.ranges)):
        start, stop = piece.ranges[at]
        if start < stop:
            here = [
                _Part(column, variances, estimates.tables[at], whole[at], is_cut, never)
                for column, (estimates, whole, variances, is_cut) in zip(columns, made, strict=True)
            ]
            yield piece.level + at, start, stop, here


def _parts(
    column: Agreed, spec: ConsistentSpec, measured: Measured, wanted: list[list[Table]]
) -> Iterator[Made]:
    sound = not any(contradictions(measured, non_negative=spec.non_negative))
    variances, first = begun_on_lattice(measured, wanted, sound=sound)
    if not (spec.non_negative and column.is_shown):
        for piece in pieces(variances, measured.read, wanted, first=first):
            none = [np.empty(0, np.int64)] * len(piece.ranges)
            yield piece, none, variances, measured.is_cut
        return
    how = refinement_of(column, spec)
    for both in whole_pieces(variances, measured.read, how, wanted, first=first):
        yield both.estimates, both.whole, variances, measured.is_cut


def _rows(
    placed: Placed, parts: Sequence[_Part], spec: ConsistentSpec, start: int, stop: int
) -> Iterator[Numbered]:
    """Yield the rows of one table for some areas of its level."""
    shape = parts[0].column.shape
    each = shape.cells(placed)
    cells = np.arange(start * each, stop * each)
    if placed.level <= lowest(shape, spec):
        values: dict[str, Integers | Floats | Flags] = {}
        known: dict[str, tuple[Floats, Floats]] = {}
        for part in parts:
            made = _estimated(placed, part, start, stop, each)
            name = part.column.name
            known[part.column.measurement.name] = made[name], made[f"{name}_se"]
            values |= made if part.column.is_shown else {}
        for derived in derived_columns(shape):
            values |= derived.values(known)
        yield estimates_of(placed.name), Batch(cells, values)
    if not spec.non_negative:
        return
    shown = [(part, _whole(placed, part)) for part in parts if part.column.is_shown]
    rows: slice | Integers = slice(None)
    if not is_dense(placed):  # nothing is computed of what is not listed
        rows = np.flatnonzero(np.logical_or.reduce([whole != 0 for _, whole in shown]))
    values = {}
    for part, whole in shown:
        values |= _with_interval(placed, part, whole, rows, start, stop)
    yield whole_of(placed.name), Batch(cells[rows], values)


def in_unit(units: Integers, bits: int, step: Fraction) -> Floats:
    """Return values in units of 2**-bits steps as floats: exact for steps of a power of two."""
    found: Floats = np.ldexp(units.astype(np.float64), -bits) * float(step)
    return found


def _estimated(placed: Placed, part: _Part, start: int, stop: int, each: int) -> dict[str, Floats]:
    column, name = part.column, part.column.name
    bits, step = part.variances.structure.bits, part.column.step
    errors = standard_errors(part.variances, placed.attributes, placed.level, start, stop)
    if part.is_cut:
        errors = np.full(len(errors), math.nan)
    values = {
        name: in_unit(placed.filed(part.tables[placed.attributes]), bits, step),
        f"{name}_se": np.repeat(errors * float(step), each),
    }
    if column.column.margin is not None:
        widths = in_unit(_widths(placed, part, start, stop), bits, step)
        values[f"{name}_moe"] = np.repeat(np.where(np.isnan(errors), math.nan, widths), each)
    return values


def _widths(placed: Placed, part: _Part, start: int, stop: int) -> Whole:
    table, level = placed.attributes, placed.level
    return half_widths(part.variances, table, level, start, stop, part.column.quantile)


def _whole(placed: Placed, part: _Part) -> Integers:
    """Return the cells of a whole table as they stand in its file."""
    finest = part.column.shape.everything
    left = tuple(1 + i for i in finest if i not in placed.attributes)
    whole: Integers = placed.filed(part.whole.sum(axis=left) if left else part.whole)
    return whole


def _with_interval(
    placed: Placed, part: _Part, whole: Integers, rows: slice | Integers, start: int, stop: int
) -> dict[str, Integers | Floats | Flags]:
    """Return some rows of a whole table, each with its interval."""
    name, shape = part.column.name, part.column.shape
    each = shape.cells(placed)
    widths = np.repeat(_widths(placed, part, start, stop), each)[rows]
    estimates = placed.filed(part.tables[placed.attributes])[rows]
    found = intervals(estimates, widths, whole[rows], part.variances.structure.bits)
    if part.is_cut:
        found.lower[:], found.upper[:], found.moe[:], found.adjusted[:] = 0, LIMIT, LIMIT, False
    left = tuple(i for i in shape.everything if i not in placed.attributes)
    possible = placed.filed((~part.never).sum(axis=left)[np.newaxis] > 0)
    never = ~np.tile(possible, stop - start)[rows]
    found.lower[never] = found.upper[never] = found.moe[never] = 0
    found.adjusted[never] = False
    return {
        name: whole[rows],
        f"{name}_lower": found.lower,
        f"{name}_upper": found.upper,
        f"{name}_moe": found.moe,
        f"{name}_adjusted": found.adjusted,
    }


class _Records:
    """The finest cells as invented persons, one row each, sorted by cell."""

    def __init__(self, name: str) -> None:
        self._name = name

    def of(self, whole: Whole, start: int) -> Iterator[Numbered]:
        """Yield the persons of some leaves."""
        counts = whole.reshape(-1)
        first = start * (len(counts) // len(whole))
        ends = np.cumsum(counts)
        for low in range(0, int(ends[-1]), AT_ONCE):
            persons = np.arange(low, min(low + AT_ONCE, int(ends[-1])))
            yield self._name, Batch(first + np.searchsorted(ends, persons, side="right"), {})
