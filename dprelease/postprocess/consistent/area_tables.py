"""Tables of areas that are made of areas of the last level: sums of estimates with exact errors.

The groupings of a family are such areas, and so are the custom areas of readers. Each sum follows
from published estimates, so it costs nothing, and it agrees with every table of the family. Its
standard error is exact, because the covariance of all leaves is known (`consistency.areas`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from dprelease.consistency.algebra import Table, spaces_of
from dprelease.consistency.expected import ErrorRange, ExpectedError, measured_variances
from dprelease.consistency.fixed_point import Whole
from dprelease.consistency.passes import errors_of_gains
from dprelease.consistency.standard_errors import (
    Area,
    area_variances,
    cell_coefficients,
    error_of_cell,
    rounding_error,
    variance_upper_bound,
)
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.numerics.rounding import round_up
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.consistent.outputs import estimates_name, integer_table_name
from dprelease.postprocess.consistent.piece_rows import (
    INTEGERS,
    Column,
    GroupedLeaves,
    NamedBatch,
    Values,
    in_unit,
    with_interval,
)
from dprelease.postprocess.families import Batch
from dprelease.query.quality import Codes, quality_codes

_ROUNDING_FACTOR = 1 + 2.0**-40


@dataclass(frozen=True)
class AreaErrors:
    """What the errors of an area follow from, for one column of a family.

    `variances` has the variance of each residual space. The other fields count the declared areas
    and the leaves that lie in the area.
    """

    variances: dict[Table, float]
    whole_areas_by_level: list[int]
    """For each level, the number of declared areas that lie entirely in the area, without those
    that are part of a larger one."""
    partial_leaves: int
    """The number of leaves that lie partly in the area."""
    group_errors: dict[Table, float]
    """The largest errors of contrasts that measured groupings add, in units of values."""

    @classmethod
    def of(cls, variances: Variances, tree: Tree, leaves: Integers, shares: Floats) -> AreaErrors:
        """Return the errors of an area, from its ascending leaves and their shares."""
        none = [np.empty(0, np.int64)] * (tree.levels - 1)
        no_shares: list[Floats] = [np.empty(0)] * (tree.levels - 1)
        area = Area([*none, leaves], [*no_shares, shares])
        made = [np.empty(0, np.int64)] * tree.levels
        inside = np.zeros(tree.counts[-1], bool)
        inside[leaves[shares == 1]] = True
        for level in range(tree.levels - 1, 0, -1):
            parents, counts = tree.parents[level - 1], tree.fan(level - 1)
            # An area without parts is no sum of leaves: its own measurements are not in the sum.
            whole = (np.bincount(parents[inside], minlength=len(counts)) == counts) & (counts > 0)
            made[level] = np.flatnonzero(inside & ~whole[parents])
            inside = whole
        made[0] = np.flatnonzero(inside)
        found, partial = area_variances(variances, area), int((shares < 1).sum())
        if not partial:
            found |= dict.fromkeys(_exact_spaces(variances, made), 0.0)
        group_errors = {
            space: one.gains.error_of(leaves, shares, errors_of_gains(variances, space))
            for space, one in variances.of.items()
            if one.gains is not None
        }
        return cls(found, list(map(len, made)), partial, group_errors)

    def standard_error(self, variances: Variances, table: Table) -> float:
        """Return the standard error of a cell of a table, in steps, rounded up."""
        coefficients = cell_coefficients(variances.structure.sizes, table)
        final = {space: np.array([f]) for space, f in self.variances.items()}
        variance = variance_upper_bound(variances, coefficients, final.__getitem__)
        return math.sqrt(float(variance[0])) * _ROUNDING_FACTOR

    def max_rounding_error(self, variances: Variances, table: Table) -> float:
        """Return an upper bound, in units of values, of the fixed-point error of a cell."""
        sizes = variances.structure.sizes
        bounds = rounding_error(variances, table, of_tree=True)
        whole = sum(
            number * bounds[level] for level, number in enumerate(self.whole_areas_by_level)
        )
        spaces = {space: self.group_errors.get(space, 0.0) for space in spaces_of(sizes, table)}
        groups = math.ceil(error_of_cell(sizes, table, spaces))
        return round_up(Fraction(whole + self.partial_leaves * (bounds[-1] + 1) + groups))


def _exact_spaces(variances: Variances, areas: Sequence[Integers]) -> Iterator[Table]:
    """Yield the residual spaces in which some areas of each level are exact, by invariants.

    Rounded upwards, the variance of their sum would not be 0.
    """
    levels = variances.structure.noise_moments
    if all(moments.variance for tables in levels for moments in tables.values()):
        return
    for space, one in variances.of.items():
        by_level = (
            one.variances(level, 0, one.tree.counts[level])[some]
            for level, some in enumerate(areas)
            if len(some)
        )
        if not any(each.any() for each in by_level):
            yield space


@dataclass(frozen=True)
class AreaSum:
    """The sums of one measurement over an area, in one table, in units of the measurement.

    `values` and `errors` are the sum and the standard error of each cell. `rounding` is the largest
    possible error of a cell from fixed-point arithmetic.
    """

    values: Floats
    errors: Floats
    rounding: float

    @classmethod
    def of(
        cls, column: FamilyColumn, variances: Variances, errors: AreaErrors, table: Table,
        cells: Integers, *, is_cut: bool,
    ) -> AreaSum:  # fmt: skip
        """Return the sums of an area, whose `cells` are in units of values."""
        step, bits = column.step, variances.structure.bits
        error = math.nan if is_cut else errors.standard_error(variances, table)
        rounding = errors.max_rounding_error(variances, table) / 2.0**bits * float(step)
        each = np.full(cells.shape, error * float(step))
        return cls(in_unit(cells, bits, step), each, rounding)


Cells = Mapping[str, "Floats | Codes"]


def area_columns(shape: Shape, summed: Mapping[str, AreaSum]) -> dict[str, Cells]:
    """Return, by declared column, the cells of its published columns for one area.

    `summed` has the sums of each measurement.
    """
    shown: dict[str, Cells] = {}
    for one in (one for one in consistent_columns(shape) if one.is_shown):
        held, name = summed[one.measurement.name], one.name
        margin = one.quantile * held.errors + held.rounding
        shown[name] = {name: held.values, f"{name}_se": held.errors, f"{name}_moe": margin}
        if one.vector.limits:
            width = one.vector.quality_quantile * held.errors + held.rounding
            ends = held.values - width, held.values + width
            codes = quality_codes(held.values, *ends, one.vector.limits)
            shown[name] = {**shown[name], f"{name}_quality": codes}
    estimates = {name: (one.values, one.errors) for name, one in summed.items()}
    rounding = {name: one.rounding for name, one in summed.items()}
    for derived in derived_columns(shape):
        parts, left = derived.within(estimates, rounding), {f"{derived.name}_moe"}
        left = left if f"{derived.name}_lower" in parts else set()  # it has an interval instead
        shown[derived.name] = {name: parts[name] for name in parts if name not in left}
    declared = shape.placed[0].table.query.columns
    return {column.name: shown[column.name] for column in declared}


def leaves_of_groups(shape: Shape, number: int) -> list[Integers]:
    """Return, for each group of a grouping, its ascending leaves."""
    groups = shape.groupings[number].ancestors.numbers
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(1, shape.groupings[number].size))
    return np.split(order, starts)


def group_errors(shape: Shape, number: int, variances: Variances) -> list[AreaErrors]:
    """Return the errors of each group of a grouping."""
    leaves = leaves_of_groups(shape, number)
    return [AreaErrors.of(variances, shape.tree, some, np.ones(len(some))) for some in leaves]


def expected_group_errors(column: FamilyColumn) -> list[ExpectedError]:
    """Return the expected errors of the tables of groupings, before any data is read."""
    shape, known, rows = column.shape, column.variances, []
    bits = known.structure.bits
    for number, tables in enumerate(shape.grouped):
        groups = group_errors(shape, number, known)
        for placed, _ in tables:
            table, size = placed.attributes, placed.table.query.keys.size
            errors = [one.standard_error(known, table) for one in groups]
            rounding = [math.ldexp(one.max_rounding_error(known, table), -bits) for one in groups]
            margins = [column.quantile * e + r for e, r in zip(errors, rounding, strict=True)]
            ranges = ([e * e for e in errors], errors, margins)
            measured = measured_variances(known.structure, placed.level, table)
            numbers = len(groups), size, *measured
            rows.append(ExpectedError(placed.level, table, *numbers, *map(_range_of, ranges)))
    return rows


def _range_of(numbers: Sequence[float]) -> ErrorRange:
    """Return the least, the median and the greatest of some numbers."""
    rising = sorted(numbers)
    return ErrorRange(rising[0], rising[(len(rising) - 1) // 2], rising[-1])


def grouped_leaves(shape: Shape) -> tuple[GroupedLeaves, ...]:
    """Return how the leaves are summed for each grouping."""
    return tuple(
        GroupedLeaves(key.ancestors, tuple((one.name, one.attributes) for one, _ in tables))
        for key, tables in zip(shape.groupings, shape.grouped, strict=True)
    )


class GroupTables:
    """The tables of all groupings: sums that are collected from the rows of all leaves.

    Parameters
    ----------
    columns
        Every column of the family, with what its rows are made from, and its variances.
    possible
        For each table of a grouping by name, the cells of one area, in the order of the file, that
        are not 0 everywhere.
    """

    def __init__(
        self,
        shape: Shape,
        columns: Sequence[tuple[FamilyColumn, Column, Variances]],
        possible: Mapping[str, Flags],
    ) -> None:
        self._shape, self._columns, self._possible = shape, columns, possible
        tables = [one for tables in shape.grouped for one, _ in tables]
        self._groups = {one.name: one.table.query.keys.keys[0].size for one in tables}
        self._sums: dict[str, dict[str, Integers]] = {name: {} for name in self._groups}

    def collect(self, rows: Iterable[NamedBatch]) -> Iterator[NamedBatch]:
        """Yield all rows but the sums of groups, which are added up."""
        for name, batch in rows:
            if name not in self._sums:
                yield name, batch
                continue
            for column, values in batch.values.items():
                empty = np.zeros((self._groups[name], *values.shape[1:]), np.int64)
                self._sums[name].setdefault(column, empty)[batch.cells] += values.astype(np.int64)

    def rows(self, *, with_integers: bool) -> Iterator[NamedBatch]:
        """Yield the rows of all tables, after all sums were collected."""
        for number, tables in enumerate(self._shape.grouped):
            errors = [group_errors(self._shape, number, known) for _, _, known in self._columns]
            for placed, _ in tables:
                cells = np.arange(placed.table.query.keys.size)
                yield estimates_name(placed.name), Batch(cells, self._estimates(placed, errors))
                if with_integers:
                    yield integer_table_name(placed.name), self._integers(placed, errors)

    def _estimates(self, placed: PlacedTable, errors: Sequence[Sequence[AreaErrors]]) -> Values:
        """Return the published columns of a table of estimates."""
        sums = self._sums[placed.name]
        groups = []
        for i in range(self._groups[placed.name]):
            summed = {
                agreed.measurement.name: AreaSum.of(
                    agreed, known, of[i], placed.attributes, sums[agreed.measurement.name][i],
                    is_cut=column.is_cut,
                )
                for (agreed, column, known), of in zip(self._columns, errors, strict=True)
            }  # fmt: skip
            found = area_columns(self._shape, summed).values()
            groups.append({name: cells for parts in found for name, cells in parts.items()})
        stacked = {name: np.stack([one[name] for one in groups]) for name in groups[0]}
        flat = {name: placed.order.flatten_for_file(cells) for name, cells in stacked.items()}
        return cast("Values", flat)

    def _integers(self, placed: PlacedTable, errors: Sequence[Sequence[AreaErrors]]) -> Batch:
        """Return the rows of an integer table, each with its intervals."""
        sums, values = self._sums[placed.name], Values()
        groups, table = self._groups[placed.name], placed.attributes
        for (_, column, known), of in zip(self._columns, errors, strict=True):
            if not column.cliques:
                continue
            name = column.vector.measurement.name
            estimates, whole = (
                placed.order.flatten_for_file(sums[one]) for one in (name, name + INTEGERS)
            )
            each = len(whole) // groups
            error = np.array([one.standard_error(known, table) for one in of])
            error = np.full(groups, math.nan) if column.is_cut else error
            rounding = np.array([one.max_rounding_error(known, table) for one in of])

            def widths(
                quantile: float, error: Floats = error, rounding: Floats = rounding,
                each: int = each, bits: int = known.structure.bits,
            ) -> Whole:  # fmt: skip
                """Return the margin of each cell, in units of values."""
                units = np.ldexp(quantile * error * _ROUNDING_FACTOR, bits)
                # A sum of exact numbers has no rounding error either.
                units = np.ceil(units) + np.where(error == 0, 0, np.ceil(rounding))
                return np.repeat(np.nan_to_num(units).astype(np.int64), each)

            values |= with_interval(
                column, estimates, whole, widths, known.structure.bits,
                noisy=np.repeat(error != 0.0, each),
                never=np.tile(~self._possible[placed.name], groups),
            )  # fmt: skip
        return Batch(np.arange(placed.table.query.keys.size), values)
