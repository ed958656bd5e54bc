"""Make the published rows of some areas from both layers, in the task that computes these.

A `RowMaker` identifies tables only by names and orders, so that it is small: it is sent to every
task that works on a subtree, and the keys of a family may be millions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.consistency.algebra import Table, cell_count
from dprelease.consistency.estimates import Piece, subtree_estimates
from dprelease.consistency.family import (
    Cliques,
    IntegerPiece,
    Intervals,
    integer_tables_of_subtree,
    intervals,
    table_of_cliques,
)
from dprelease.consistency.fixed_point import Whole
from dprelease.consistency.integer_tables.decisions import Refinement
from dprelease.consistency.standard_errors import half_widths, standard_errors
from dprelease.consistency.subtrees import PlacedSubtree
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import LIMIT, Flags, Floats, Integers
from dprelease.postprocess.consistent.derived import DerivedColumn
from dprelease.postprocess.consistent.family_columns import Vector
from dprelease.postprocess.consistent.family_shape import Order
from dprelease.postprocess.consistent.synthetic_persons import persons_of_areas
from dprelease.postprocess.families import Batch
from dprelease.query.grouping.group_keys import Places
from dprelease.query.quality import Codes, quality_codes

AT_ONCE = 1 << 20
"""Number of record rows, and of cells of some areas, per batch."""

NamedBatch = tuple[str, Batch]
Values = dict[str, Integers | Floats | Flags | Codes]

INTEGERS = " of integer tables"
"""The end of the name of sums of integer tables; a declared name contains no space."""


@dataclass(frozen=True)
class OutputTable:
    """One table, with the properties that rows need.

    `estimates`, `whole`: the names of its published tables, if any. `is_dense`: whether the integer
    table has a row for every cell. `possible`: the cells of one area, in the order of the file,
    that are not 0 at every area.
    """

    level: int
    order: Order
    estimates: str | None
    whole: str | None
    is_dense: bool
    possible: Flags

    @property
    def attributes(self) -> Table:
        """Return its attributes, in rising order."""
        return self.order.attributes


@dataclass(frozen=True)
class GroupedLeaves:
    """How leaves are summed for a grouping: the group of each leaf, and the tables that are summed.

    `tables`: the name of each table of the grouping, with its attributes in rising order.
    """

    groups: Places
    tables: tuple[tuple[str, Table], ...]


@dataclass(frozen=True)
class Column:
    """One column of a family, with the properties that rows need.

    `cliques`: how its integer tables are computed, if there are any. `is_cut`: whether measurements
    were cut, so that errors are unknown.
    """

    vector: Vector
    cliques: tuple[Refinement, ...]
    is_cut: bool


@dataclass(frozen=True)
class _ColumnAreas:
    """One column at some areas of a level: its estimates, and its integer tables if any."""

    column: Column
    variances: Variances
    level: int
    start: int
    tables: dict[Table, Whole]
    whole: Cliques

    @property
    def separators(self) -> list[tuple[Table, Table | None]]:
        """Return the table of each clique and its separator, in order."""
        return [(how.finest, how.separator) for how in self.column.cliques]

    def of(self, start: int, stop: int) -> _ColumnAreas:
        """Return the part for some of the areas, because the top of a tree may have very many."""
        tables = {table: values[start:stop] for table, values in self.tables.items()}
        whole = {table: values[start:stop] for table, values in self.whole.items()}
        first = self.start + start
        return _ColumnAreas(self.column, self.variances, self.level, first, tables, whole)

    def errors(self, table: Table, areas: int) -> Floats:
        """Return the standard error of a cell of a table in each area; NaN if unknown."""
        if self.column.is_cut:
            return np.full(areas, math.nan)
        return standard_errors(self.variances, table, self.level, self.start, self.start + areas)

    def widths(self, table: Table, areas: int, quantile: float) -> Whole:
        """Return the half width of the margin of a cell of a table in each area, in units."""
        stop = self.start + areas
        return half_widths(self.variances, table, self.level, self.start, stop, quantile)


@dataclass(frozen=True)
class RowMaker:
    """Makes the rows of a family.

    - `sizes`: the number of values of each attribute.
    - `tables`: of each level.
    - `columns`: in declared order.
    - `derived`: columns computed from the estimates of two columns.
    - `wanted`: for each level, the tables with required estimates.
    - `records`: the name of the synthetic persons, if they are published.
    - `groupings`: how leaves are summed. These sums are no rows: `area_tables.GroupTables` collects
      them.
    """

    sizes: tuple[int, ...]
    tables: tuple[tuple[OutputTable, ...], ...]
    columns: tuple[Column, ...]
    derived: tuple[DerivedColumn, ...]
    wanted: list[list[Table]]
    records: str | None
    groupings: tuple[GroupedLeaves, ...] = ()

    def below(self, placed: Sequence[PlacedSubtree]) -> list[NamedBatch]:
        """Return the rows of a subtree, given for each column."""
        tables = [
            _tables_of_subtree(column, one, self.wanted)
            for column, one in zip(self.columns, placed, strict=True)
        ]
        return list(self.rows(tables, [one.subtree.variances for one in placed]))

    def rows(
        self, tables: Sequence[IntegerPiece], variances: Sequence[Variances]
    ) -> Iterator[NamedBatch]:
        """Yield the rows of the same areas of every column.

        `variances`: of the whole tree for its top, otherwise of the subtree.
        """
        piece = tables[0].estimates
        for at in range(0 if piece.top else 1, len(piece.ranges)):
            start, stop = piece.ranges[at]
            parts = [
                _ColumnAreas(column, known, at, 0, one.estimates.tables[at], one.whole[at])
                for column, known, one in zip(self.columns, variances, tables, strict=True)
            ]
            level, last = piece.level + at, len(self.tables) - 1
            largest = max((cell_count(self.sizes, t) for t in self.wanted[level]), default=1)
            # At least one area, because the rows of an area are made together.
            batch_areas = max(1, AT_ONCE // largest)
            for first in range(start, stop, batch_areas):
                end = min(first + batch_areas, stop)
                some = [part.of(first - start, end - start) for part in parts]
                for output in self.tables[level]:
                    yield from self._rows(output, some, first, end)
                if level == last:
                    yield from self._sums_of_groups(some, first, end)
            if self.records is not None and level == last and start < stop:
                for cells in persons_of_areas(parts[0].whole, parts[0].separators, self.sizes):
                    yield self.records, Batch(start * math.prod(self.sizes) + cells, {})

    def _sums_of_groups(
        self, parts: Sequence[_ColumnAreas], start: int, stop: int
    ) -> Iterator[NamedBatch]:
        """Yield the sums over some leaves, by the numbers of the groups, in units of values."""
        for grouping in self.groupings:
            of_leaves = grouping.groups.numbers[start:stop]
            # `reduceat` sums neighbours, so leaves of one group must stand together.
            order = np.argsort(of_leaves, kind="stable")
            groups, starts = np.unique(of_leaves[order], return_index=True)
            for name, table in grouping.tables:
                sums: Values = {}
                for part in parts:
                    measured = part.column.vector.measurement.name
                    sums[measured] = np.add.reduceat(part.tables[table][order], starts)
                    if part.column.cliques:
                        whole = table_of_cliques(part.whole, table)
                        sums[measured + INTEGERS] = np.add.reduceat(whole[order], starts)
                yield name, Batch(groups, sums)

    def _rows(
        self, output: OutputTable, parts: Sequence[_ColumnAreas], start: int, stop: int
    ) -> Iterator[NamedBatch]:
        cells_per_area = cell_count(self.sizes, output.attributes)
        numbers = np.arange(start * cells_per_area, stop * cells_per_area)
        areas = stop - start
        if output.estimates is not None:
            values: Values = {}
            known: dict[str, tuple[Floats, Floats]] = {}
            for part in parts:
                vector = part.column.vector
                value, error = _estimates_and_errors(output, part, areas, cells_per_area)
                known[vector.measurement.name] = value, error
                if vector.is_shown:
                    values |= {vector.name: value, f"{vector.name}_se": error}
                    values |= _estimate_companions(output, part, value, areas, cells_per_area)
            for derived in self.derived:
                values |= derived.values(known)
            yield output.estimates, Batch(numbers, values)
        if output.whole is None:
            return
        shown = [(part, self._whole(output, part)) for part in parts if part.column.cliques]
        rows: slice | Integers = slice(None)
        if not output.is_dense:  # cells that are not listed need no values
            rows = np.flatnonzero(np.logical_or.reduce([whole != 0 for _, whole in shown]))
        values = {}
        for part, whole in shown:
            values |= self._with_interval(output, part, whole, rows, areas)
        yield output.whole, Batch(numbers[rows], values)

    def _whole(self, output: OutputTable, part: _ColumnAreas) -> Integers:
        """Return the cells of an integer table in the order of its file."""
        whole: Integers = output.order.flatten_for_file(
            table_of_cliques(part.whole, output.attributes)
        )
        return whole

    def _with_interval(
        self,
        output: OutputTable,
        part: _ColumnAreas,
        whole: Integers,
        rows: slice | Integers,
        areas: int,
    ) -> Values:
        """Return some rows of an integer table, each with its interval."""
        cells_per_area = cell_count(self.sizes, output.attributes)

        def widths(quantile: float) -> Whole:
            """Return the margin of each row, in units of values."""
            each = np.repeat(part.widths(output.attributes, areas, quantile), cells_per_area)
            return each[rows]

        return with_interval(
            part.column,
            output.order.flatten_for_file(part.tables[output.attributes])[rows],
            whole[rows],
            widths,
            part.variances.structure.bits,
            noisy=np.repeat(part.errors(output.attributes, areas) != 0.0, cells_per_area)[rows],
            never=~np.tile(output.possible, areas)[rows],
        )


def with_interval(
    column: Column,
    estimates: Integers,
    whole: Integers,
    widths: Callable[[float], Whole],
    bits: int,
    *,
    noisy: Flags,
    never: Flags,
) -> Values:
    """Return rows of an integer table, each with its interval.

    Parameters
    ----------
    estimates, whole
        The estimates, in units of values, and the integers of the rows.
    widths
        A function that returns the margins of the rows for a number of standard errors.
    noisy, never
        Whether the estimate of a row has an error, and whether its cell is 0 everywhere.
    """
    vector = column.vector

    def at(quantile: float) -> Intervals:
        """Return the intervals of the rows, so many standard errors wide on either side."""
        found = intervals(estimates, widths(quantile), whole, bits)
        if column.is_cut:
            # Errors of measurements that were cut are unknown, so the interval covers all values.
            found.lower[:], found.upper[:], found.moe[:] = 0, LIMIT, LIMIT
            found.adjusted[:] = False
        found.lower[never] = found.upper[never] = found.moe[never] = 0
        found.adjusted[never] = False
        return found

    name, found = vector.name, at(vector.quantile)
    values: Values = {
        name: whole,
        f"{name}_lower": found.lower,
        f"{name}_upper": found.upper,
        f"{name}_moe": found.moe,
        f"{name}_adjusted": found.adjusted,
    }
    if vector.limits:
        # Intervals of all rows are computed only once where one confidence serves both.
        same = vector.quality_quantile == vector.quantile
        ends = found if same else at(vector.quality_quantile)
        at_bound = (whole == 0) & noisy & ~never  # negative estimates became 0, too
        numbers = (whole, ends.lower, ends.upper)
        value, lower, upper = (part.astype(np.float64) for part in numbers)
        values[f"{name}_quality"] = quality_codes(
            value, lower, upper, vector.limits, at_bound=at_bound
        )
    return values


def _tables_of_subtree(
    column: Column, placed: PlacedSubtree, wanted: list[list[Table]]
) -> IntegerPiece:
    """Return the estimates of a subtree, and its integer tables if they are computed."""
    if column.cliques:
        return integer_tables_of_subtree(placed, column.cliques, wanted)
    return without_whole(subtree_estimates(placed, wanted))


def without_whole(piece: Piece) -> IntegerPiece:
    """Return estimates without integer tables."""
    return IntegerPiece(piece, [{} for _ in piece.ranges])


def in_unit(units: Integers, bits: int, step: Fraction) -> Floats:
    """Return values in units of 2**-bits steps as floats: exact for steps of a power of two."""
    found: Floats = np.ldexp(units.astype(np.float64), -bits) * float(step)
    return found


def _estimates_and_errors(
    output: OutputTable, part: _ColumnAreas, areas: int, cells_per_area: int
) -> tuple[Floats, Floats]:
    """Return the estimates of a table in some areas, and their standard errors; NaN if unknown."""
    bits, step = part.variances.structure.bits, part.column.vector.step
    errors = part.errors(output.attributes, areas)
    units = output.order.flatten_for_file(part.tables[output.attributes])
    return in_unit(units, bits, step), np.repeat(errors * float(step), cells_per_area)


def _estimate_companions(
    output: OutputTable, part: _ColumnAreas, values: Floats, areas: int, cells_per_area: int
) -> Values:
    """Return the margins of error of estimates, and their quality, if they are published."""
    vector, found = part.column.vector, Values()

    def margins(quantile: float) -> Floats:
        """Return the margins of all cells, which are equal in each area; NaN if unknown."""
        if part.column.is_cut:
            return np.full(areas * cells_per_area, math.nan)
        widths = part.widths(output.attributes, areas, quantile)
        unit = in_unit(widths, part.variances.structure.bits, vector.step)
        return np.repeat(unit, cells_per_area)

    if vector.has_margin:
        found[f"{vector.name}_moe"] = margins(vector.quantile)
    if vector.limits:
        width = margins(vector.quality_quantile)
        codes = quality_codes(values, values - width, values + width, vector.limits)
        found[f"{vector.name}_quality"] = codes
    return found
