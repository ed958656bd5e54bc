"""Compute sums over custom areas, with exact standard errors, from a release alone.

A custom area consists of leaves: areas of the last level, or shares of them. The sums have no
privacy cost. Estimates of published columns are read from files. Some sums and counts are not
published, because they only serve to compute other columns, such as the sum for a mean. Their
unbiased estimates (layer 1) are computed again from the published measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.estimates import FirstPass, pieces
from dprelease.consistency.variances import Variances
from dprelease.documents.encoding import NAME
from dprelease.errors import Place, QueryError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.numerics.lattice import Floats, Integers
from dprelease.postprocess.consistent.additivity import spans
from dprelease.postprocess.consistent.area_tables import AreaErrors, AreaSum, area_columns
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape, key_texts
from dprelease.postprocess.consistent.invariants import contradictions
from dprelease.postprocess.consistent.normal_equations import PublishedColumn
from dprelease.postprocess.consistent.outputs import lowest_estimated_level, tables_with_estimates
from dprelease.postprocess.consistent.reading import MeasuredColumn, start_on_lattice
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.consistent.values import required_tables
from dprelease.postprocess.families import Family
from dprelease.query.quality import CODES
from dprelease.tables.family_tables import published_table
from dprelease.verification.after_publication.custom_areas import CustomArea, custom_areas
from dprelease.verification.after_publication.release_tables import (
    ReleaseTables,
    read_release_tables,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


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
        wanted = required_tables(shape, step.spec)
        noised = [published_table(table, release.folder) for table in family.tables]
        files = {one.name: partial(release.batches, one.name) for one in family.outputs}
        for agreed in consistent_columns(shape):
            measured = MeasuredColumn(agreed, noised)
            sound = not any(contradictions(measured, non_negative=step.spec.non_negative))
            variances, first = start_on_lattice(measured, wanted, sound=sound)
            published = PublishedColumn(agreed, variances.structure.bits, files)
            yield cls(agreed, measured, variances, wanted, first, published)

    def sums_of_areas(
        self, tables: Sequence[PlacedTable], drawn: Sequence[CustomArea]
    ) -> dict[str, list[AreaSum]]:
        """Return the sums over every area for some tables of leaves, by the names of the tables."""
        cells = {one.name: self._zero_sums(one, drawn) for one in tables}
        for placed, start, held in self._leaf_estimates(tables):
            _add_leaves(cells[placed.name], drawn, start, held)
        tree, known, is_cut = self.agreed.shape.tree, self.variances, self.measured.is_cut
        errors = [AreaErrors.of(known, tree, area.leaves, area.shares) for area in drawn]
        return {
            one.name: [
                AreaSum.of(self.agreed, known, of, one.attributes, some, is_cut=is_cut)
                for of, some in zip(errors, cells[one.name], strict=True)
            ]
            for one in tables
        }

    def _zero_sums(self, placed: PlacedTable, drawn: Sequence[CustomArea]) -> list[Integers]:
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


def _add_leaves(
    sums: Sequence[Integers], drawn: Sequence[CustomArea], start: int, held: Integers
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
        DP-AREA-001 to 003 as in `custom_areas`; 004 for a release without areas.
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
    drawn = custom_areas(districts, shape.areas[-1])
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
    shape: Shape, placed: PlacedTable, area: CustomArea, summed: Mapping[str, AreaSum]
) -> Iterator[Row]:
    """Yield a row for each cell of an area in a table, from the sums of each measurement."""
    called, keys = _area_column_name(shape), [shape.attributes[i] for i in placed.attributes]
    values = [key_texts(key) if key.kind == "boolean" else list(key.values) for key in keys]
    columns = _column_values(shape, summed)
    for at in np.ndindex(next(iter(summed.values())).values.shape):
        row: Row = {called: area.name} | {key.column: None for key in shape.attributes}
        row |= {key.column: held[i] for key, held, i in zip(keys, values, at, strict=True)}
        yield row | {name: cells[at].item() for name, cells in columns.items()}


def _column_values(
    shape: Shape, summed: Mapping[str, AreaSum]
) -> dict[str, Floats | NDArray[np.str_]]:
    """Return the cells of every column in declared order, and their companion columns."""
    cells: dict[str, Floats | NDArray[np.str_]] = {}
    for parts in area_columns(shape, summed).values():
        for name, found in parts.items():
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
