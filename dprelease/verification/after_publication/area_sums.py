"""Compute sums over custom areas, with exact standard errors, from a release alone.

A custom area consists of leaves: areas of the last level, or shares of them. The sums have no
privacy cost. Estimates of published columns are read from files. Some sums and counts are not
published, because they only serve to compute other columns, such as the sum for a mean. Their
unbiased estimates (layer 1) are computed again from the published measurements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.areas import Area, area_variances
from dprelease.consistency.estimates import FirstPass, pieces
from dprelease.consistency.standard_errors import (
    cell_coefficients,
    rounding_error,
    variance_upper_bound,
)
from dprelease.consistency.variances import Variances
from dprelease.documents.encoding import NAME
from dprelease.errors import Place, QueryError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.rounding import round_up
from dprelease.postprocess.consistent.additivity import spans
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape, key_texts
from dprelease.postprocess.consistent.invariants import contradictions
from dprelease.postprocess.consistent.outputs import lowest_estimated_level, tables_with_estimates
from dprelease.postprocess.consistent.piece_rows import in_unit
from dprelease.postprocess.consistent.published import PublishedColumn
from dprelease.postprocess.consistent.reading import MeasuredColumn, start_on_lattice
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.consistent.values import wanted_tables
from dprelease.postprocess.families import Family
from dprelease.query.quality import CODES, Codes, quality_codes
from dprelease.tables.family_tables import published_table
from dprelease.verification.after_publication.drawn_areas import DrawnArea, drawn_areas
from dprelease.verification.after_publication.release_tables import (
    ReleaseTables,
    read_release_tables,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True)
class AreaSum:
    """The sums of one measurement over an area, in one table, in units of the measurement.

    `values` and `errors` are the sum and the standard error of each cell. `rounding` is the largest
    possible error of a cell from fixed-point arithmetic.
    """

    values: Floats
    errors: Floats
    rounding: float


@dataclass(frozen=True)
class Column:
    """The estimates of one measurement at the leaves."""

    agreed: FamilyColumn
    measured: MeasuredColumn
    variances: Variances
    wanted: list[list[Table]]
    first: FirstPass | None
    published: PublishedColumn

    @classmethod
    def measured_columns(
        cls, release: ReleaseTables, family: Family, step: Consistent, shape: Shape
    ) -> Iterator[Column]:
        """Yield every measurement of a family, including those that only other columns use."""
        wanted = wanted_tables(shape, step.spec)
        noised = [published_table(table, release.folder) for table in family.tables]
        files = {one.name: partial(release.batches, one.name) for one in family.outputs}
        for agreed in consistent_columns(shape):
            measured = MeasuredColumn(agreed, noised)
            sound = not any(contradictions(measured, non_negative=step.spec.non_negative))
            variances, first = start_on_lattice(measured, wanted, sound=sound)
            published = PublishedColumn(agreed, variances.structure.bits, files)
            yield cls(agreed, measured, variances, wanted, first, published)

    def sums_of_areas(
        self, tables: Sequence[PlacedTable], drawn: Sequence[DrawnArea]
    ) -> dict[str, list[AreaSum]]:
        """Return the sums over every area for some tables of leaves, by the names of the tables."""
        cells = {one.name: self._zero_sums(one, drawn) for one in tables}
        for placed, start, held in self._leaf_estimates(tables):
            _add_leaves(cells[placed.name], drawn, start, held)
        found = [_AreaErrors.of(self, area) for area in drawn]
        return {one.name: self._area_sums(one, found, cells[one.name]) for one in tables}

    def _zero_sums(self, placed: PlacedTable, drawn: Sequence[DrawnArea]) -> list[Integers]:
        """Return an array of zeros for each area, of the size of the table."""
        sizes = [self.agreed.shape.sizes[i] for i in placed.attributes]
        return [np.zeros(sizes, np.int64) for _ in drawn]

    def _leaf_estimates(
        self, tables: Sequence[PlacedTable]
    ) -> Iterator[tuple[PlacedTable, int, Integers]]:
        """Yield the estimates of consecutive leaves, with their table and the first leaf's number.

        Every leaf of every table is in one of the results.
        """
        if self.agreed.is_shown:
            for placed in tables:
                for start, stop in spans(self.agreed.shape, placed):
                    yield placed, start, self.published.estimates(placed, start, stop)
            return
        last = len(self.agreed.shape.levels) - 1
        for piece in pieces(self.variances, self.measured.read, self.wanted, first=self.first):
            at = last - piece.level
            if at < len(piece.ranges):  # otherwise the entry is the top of the tree
                for placed in tables:
                    yield placed, piece.ranges[at][0], piece.tables[at][placed.attributes]

    def _area_sums(
        self, placed: PlacedTable, found: Sequence[_AreaErrors], sums: Sequence[Integers]
    ) -> list[AreaSum]:
        """Return the sum over each area, with its standard errors and its rounding error."""
        step, bits = self.agreed.step, self.variances.structure.bits
        coefficients = cell_coefficients(self.agreed.shape.sizes, placed.attributes)
        bounds = rounding_error(self.variances, placed.attributes)
        area_sums = []
        for errors, cells in zip(found, sums, strict=True):
            final = {space: np.array([f]) for space, f in errors.variances.items()}
            variance = variance_upper_bound(self.variances, coefficients, final.__getitem__)
            error = math.sqrt(float(variance[0])) * (1 + 2.0**-40)
            error = math.nan if self.measured.is_cut else error
            moved = errors.max_rounding_error(bounds) / 2.0**bits * float(step)
            each = np.full(cells.shape, error * float(step))
            area_sums.append(AreaSum(in_unit(cells, bits, step), each, moved))
        return area_sums


def _add_leaves(
    sums: Sequence[Integers], drawn: Sequence[DrawnArea], start: int, held: Integers
) -> None:
    """Add the cells of some leaves to the sums of the areas that contain these leaves.

    Of a leaf that lies partly in an area, only its share is added.
    """
    for total, area in zip(sums, drawn, strict=True):
        low, high = np.searchsorted(area.leaves, [start, start + len(held)])
        if low == high:
            continue
        cells = held[area.leaves[low:high] - start]
        shares = area.shares[low:high].reshape(-1, *(1,) * (cells.ndim - 1))
        whole = cells if (shares == 1).all() else np.rint(cells * shares).astype(np.int64)
        total += whole.sum(axis=0)


@dataclass(frozen=True)
class _AreaErrors:
    """The data for the errors of one custom area.

    `variances` has the variance of each residual space. The other fields count the declared areas
    and the leaves that lie in the custom area.
    """

    variances: dict[Table, float]
    whole_areas_by_level: list[int]
    """For each level, the number of declared areas that lie entirely in the custom area, without
    those that are part of a larger one."""
    partial_leaves: int
    """The number of leaves that lie partly in the area."""

    @classmethod
    def of(cls, column: Column, area: DrawnArea) -> _AreaErrors:
        """Return the data for the errors of an area, from its leaves and their shares."""
        tree = column.agreed.shape.tree
        none = [np.empty(0, np.int64)] * (tree.levels - 1)
        shares: list[Floats] = [np.empty(0)] * (tree.levels - 1)
        found = Area([*none, area.leaves], [*shares, area.shares])
        made = [0] * tree.levels
        inside = np.zeros(tree.counts[-1], bool)
        inside[area.leaves[area.shares == 1]] = True
        for level in range(tree.levels - 1, 0, -1):
            parents, counts = tree.parents[level - 1], tree.fan(level - 1)
            whole = np.bincount(parents[inside], minlength=len(counts)) == counts
            made[level] = int((inside & ~whole[parents]).sum())
            inside = whole
        made[0] = int(inside.sum())
        variances = area_variances(column.variances, found)
        return cls(variances, made, int((area.shares < 1).sum()))

    def max_rounding_error(self, bounds: Sequence[int]) -> float:
        """Return an upper bound, in units, of the fixed-point error of a cell."""
        whole = sum(
            number * bounds[level] for level, number in enumerate(self.whole_areas_by_level)
        )
        return round_up(Fraction(whole + self.partial_leaves * (bounds[-1] + 1)))


Row = dict[str, Any]


@checked_arguments
def areas(path: str | Path, districts: object, *, query: str | None = None) -> pd.DataFrame:
    """Return the tables of custom areas, from the estimates of a release.

    Only the release is read, and nothing is charged, because the results are sums of published
    estimates. Each row is for an area and a cell. The name of the area is in the column `area`, or
    `drawn_area` if the release has a column `area`. Keys that are summed over are missing. Each
    column is followed by its exact standard error, `_se`, and its margin of error, `_moe`, at the
    confidence that the release declares (95 % if it declares none), and by its quality if the
    release publishes it. Estimates are unbiased, and may be below 0. Means, ratios and centred sums
    are computed from the sums of their parts, as in published tables. Means and ratios have an
    interval, `_lower` and `_upper`, in place of a margin, and no value where a divisor may be 0.

    Parameters
    ----------
    path
        The folder of the release. Its files are compared with the digests in the manifest; `verify`
        checks more.
    districts
        A CSV file, a frame or a mapping with the columns `leaf`, `area` and optionally `share`, the
        share of the leaf that lies in the area. The same share of the leaf's persons is assumed to
        live there.
    query
        The name of the query, if several queries of the release have areas.

    Raises
    ------
    QueryError
        DP-AREA-001 to 003 as in `drawn_areas`; 004 for a release without areas.
    VerificationError
        DP-VERIFY-001 to 004, 007 and 009 for a folder that is not a release, or was changed since
        publication.
    """
    check_paths(path, districts)
    import pandas as pd

    release = read_release_tables(Path(path))
    family, step = _area_family(release, query)
    shape = Shape.of(family.tables)
    if not shape.areas or lowest_estimated_level(shape, step.spec) < len(shape.levels) - 1:
        reason = "it has no hierarchy" if not shape.areas else "its leaves have no estimates"
        _raise_area_error(f"'{family.name}' can't be cut: {reason}")
    drawn = drawn_areas(districts, shape.areas[-1])
    tables = [
        one for one in tables_with_estimates(shape, step.spec) if one.level == len(shape.areas)
    ]
    summed = {
        column.agreed.measurement.name: column.sums_of_areas(tables, drawn)
        for column in Column.measured_columns(release, family, step, shape)
    }
    rows = [
        row
        for placed in tables
        for i, area in enumerate(drawn)
        for row in _area_rows(
            shape, placed, area, {n: one[placed.name][i] for n, one in summed.items()}
        )
    ]
    attributes = [key.column for key in shape.attributes]
    columns = {  # keys may be missing, so their columns get the dtype object
        name: pd.Series([row[name] for row in rows], dtype=object if name in attributes else None)
        for name in rows[0]
    }
    return pd.DataFrame(columns)


def _area_rows(
    shape: Shape, placed: PlacedTable, area: DrawnArea, summed: Mapping[str, AreaSum]
) -> Iterator[Row]:
    """Yield a row for each cell of an area in a table, from the sums of each measurement."""
    called, keys = _area_column_name(shape), [shape.attributes[i] for i in placed.attributes]
    values = [key_texts(key) if key.kind == "boolean" else list(key.values) for key in keys]
    columns = _column_values(shape, summed)
    for at in np.ndindex(next(iter(summed.values())).values.shape):
        row: Row = {called: area.name} | {key.column: None for key in shape.attributes}
        row |= {key.column: held[i] for key, held, i in zip(keys, values, at, strict=True)}
        yield row | {name: cells[at].item() for name, cells in columns.items()}


Cells = Mapping[str, "Floats | NDArray[np.str_]"]


def _column_values(shape: Shape, summed: Mapping[str, AreaSum]) -> Cells:
    """Return the cells of every column in declared order, and their companion columns."""
    shown: dict[str, Mapping[str, Floats | Codes]] = {}
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
    moved = {name: one.rounding for name, one in summed.items()}
    for derived in derived_columns(shape):
        all_parts, left = derived.within(estimates, moved), {f"{derived.name}_moe"}
        left = left if f"{derived.name}_lower" in all_parts else set()  # it has an interval instead
        shown[derived.name] = {name: all_parts[name] for name in all_parts if name not in left}
    declared = shape.placed[0].table.query.columns
    cells: dict[str, Floats | NDArray[np.str_]] = {}
    for name, found in (item for one in declared for item in shown[one.name].items()):
        if name.endswith("_quality") and found.dtype == np.int8:
            cells[name] = np.asarray(np.array(CODES)[found])
        else:
            cells[name] = np.where(np.isfinite(found), found, np.nan)  # as in tables
    return cells


def _area_column_name(shape: Shape) -> str:
    """Return a name for the column of areas that no other column has, ignoring case."""
    columns = [column.name for column in shape.placed[0].table.query.columns]
    endings = ("", "_se", "_moe", "_lower", "_upper", "_quality")
    published = [f"{name}{ending}" for name in columns for ending in endings]
    taken = {name.casefold() for name in (*published, *(key.column for key in shape.attributes))}
    called = "area"
    while called in taken:
        called = f"drawn_{called}"
    return called


def _raise_area_error(reason: str) -> NoReturn:
    """Raise DP-AREA-004 with a reason: there are no sums of areas for this release."""
    raise QueryError("DP-AREA-004", place=Place(NAME), reason=reason)


def _area_family(release: ReleaseTables, query: str | None) -> tuple[Family, Consistent]:
    """Return the family of a release with consistent tables, with the noise from its manifest."""
    fitting = [
        (one, one.step)
        for one in release.families
        if isinstance(one.step, Consistent) and query in (None, one.name)
    ]
    if len(fitting) != 1:
        known = ", ".join(one.name for one in release.families if isinstance(one.step, Consistent))
        _raise_area_error(
            f"name one of its queries with `consistent`: {known}" if known else "it has none"
        )
    family, step = fitting[0]
    release.refuse_changed_files(set(family.published_names))
    return family, step
