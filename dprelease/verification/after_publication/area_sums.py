"""Any areas made of leaves, from a release alone: sums with exact standard errors, at no price."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.areas import Area, area_variances
from dprelease.consistency.standard_errors import (
    cell_coefficients,
    rounding_error,
    variance_above,
)
from dprelease.consistency.variances import Variances
from dprelease.documents import manifest
from dprelease.documents.listed_files import digests_of
from dprelease.errors import Place, QueryError
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.rounding import round_up
from dprelease.postprocess.consistent.additivity import spans
from dprelease.postprocess.consistent.family_columns import agreed_columns
from dprelease.postprocess.consistent.family_shape import Placed, Shape
from dprelease.postprocess.consistent.outputs import (
    estimate_columns,
    estimated,
    estimates_of,
    lowest,
)
from dprelease.postprocess.consistent.published import PublishedColumn
from dprelease.postprocess.consistent.reading import Measured, on_lattice
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.consistent.values import wanted_tables
from dprelease.postprocess.consistent.zeros import written
from dprelease.postprocess.families import Family
from dprelease.query.resolve import resolve
from dprelease.tables import formats
from dprelease.tables.family_tables import published_table
from dprelease.verification.after_publication.drawn_areas import DrawnArea, drawn_areas
from dprelease.verification.central import recorded_columns, recorded_families
from dprelease.verification.report import Report, resolved_again
from dprelease.verification.sealed import read_sealed

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]


def areas(path: str | Path, districts: object, *, query: str | None = None) -> pd.DataFrame:
    """Return the tables of areas that are drawn by hand, from the estimates of a release.

    Nothing is read but the release, and nothing is charged: sums of published estimates. Each row
    is an area (in the column `area`, or `drawn_area` where the release has one of that name) and a
    cell: keys that are summed up are missing. Beside each column stand its exact
    standard error, `_se`, and its margin, `_moe`, at the confidence that the release declares (95 %
    without one). Estimates are unbiased, and may be below 0.

    Parameters
    ----------
    path
        The folder of the release. Its files have to be those of its manifest; `verify` says more.
    districts
        A CSV file, a frame or a mapping of columns: `leaf`, `area` and maybe `share`, the part of
        the leaf that lies in the area (of which its persons are taken to have the same part).
    query
        The query, where several of the release have areas.

    Raises
    ------
    QueryError
        DP-AREA-001 to 003, as `drawn_areas`; 004 for a release that has no areas.
    VerificationError
        DP-VERIFY-001 to 004, 007 and 009 for what is no release, or not as it was published.
    """
    import pandas as pd

    folder = Path(path)
    family, step = _family(folder, query)
    shape = Shape.of(family.tables)
    if not shape.areas or lowest(shape, step.spec) < len(shape.levels) - 1:
        reason = "it has no hierarchy" if not shape.areas else "its leaves have no estimates"
        _refuse(f"'{family.name}' can't be cut: {reason}")
    drawn = drawn_areas(districts, shape.areas[-1])
    by_key: dict[tuple[Any, ...], Row] = {}
    called, attributes = _called(shape), [key.column for key in shape.attributes]
    for column in _Column.all(folder, family, step, shape):
        for row in column.rows(drawn):
            key = tuple(row[name] for name in [called, *attributes])
            by_key.setdefault(key, {}).update(row)
    rows = list(by_key.values())
    columns = {  # keys may be missing, and stay what they are
        name: pd.Series([row[name] for row in rows], dtype=object if name in attributes else None)
        for name in rows[0]
    }
    return pd.DataFrame(columns)


def _called(shape: Shape) -> str:
    """Return the name of the column of areas, which is no other's, whatever letters' case."""
    shown = [column for column in agreed_columns(shape) if column.is_shown]
    published = {name for column in shown for name in estimate_columns(column)}
    taken = {name.casefold() for name in (*published, *(key.column for key in shape.attributes))}
    called = "area"
    while called in taken:
        called = f"drawn_{called}"
    return called


def _refuse(reason: str) -> NoReturn:
    raise QueryError("DP-AREA-004", place=Place(manifest.NAME), reason=reason)


def _family(folder: Path, query: str | None) -> tuple[Family, Consistent]:
    """Return the family of a release whose tables agree, with the laws of its manifest."""
    report = Report(folder)
    record = read_sealed(folder, manifest.FORMAT)
    resolved = resolved_again(
        report,
        record,
        declares=lambda d: d.spec.mode == "central" and d.spec.federated is None,
        other="it declares another mode",
        resolve=resolve,
    )
    columns = None if resolved is None else recorded_columns(report, record, resolved[1])
    families = None
    if resolved is not None and columns is not None:
        families = recorded_families(report, resolved[0], columns)
    if families is None:
        raise report.findings[0]
    fitting = [
        (one, one.step)
        for one in families
        if isinstance(one.step, Consistent) and query in (None, one.name)
    ]
    if len(fitting) != 1:
        known = ", ".join(one.name for one in families if isinstance(one.step, Consistent))
        _refuse(f"name one of its queries with `consistent`: {known}" if known else "it has none")
    family, step = fitting[0]
    _check_files(report, record, family)
    return family, step


def _check_files(report: Report, record: dict[str, Any], family: Family) -> None:
    """Raise DP-VERIFY-004 for a file of the family that is another one than was published."""
    of_family = {formats.file_of(name) for name in family.published}
    for file in record["files"]:
        if file["name"] not in of_family:
            continue
        for name, digest in digests_of(file).items():
            path = report.path / name
            try:
                same = path.is_file() and manifest.sha256_of(path) == digest
            except OSError:
                same = False
            if not same:
                report.found("DP-VERIFY-004", name=name)
                raise report.findings[0]


@dataclass(frozen=True)
class _Column:
    """One column at the leaves."""

    shape: Shape
    tables: Sequence[Placed]
    published: PublishedColumn
    variances: Variances
    is_cut: bool

    @classmethod
    def all(cls, folder: Path, family: Family, step: Consistent, shape: Shape) -> Iterator[_Column]:
        """Yield every column of a family."""
        wanted = wanted_tables(shape, step.spec)
        noised = [published_table(table, folder) for table in family.tables]
        tables = [one for one in estimated(shape, step.spec) if one.level == len(shape.areas)]
        files = {
            estimates_of(one.name): partial(_batches, folder, estimates_of(one.name))
            for one in tables
        }
        for agreed in (one for one in agreed_columns(shape) if one.is_shown):
            measured = Measured(agreed, noised)
            variances = on_lattice(measured, wanted)
            published = PublishedColumn(agreed, variances.structure.bits, files)
            yield cls(shape, tables, published, variances, measured.is_cut)

    def rows(self, drawn: Sequence[DrawnArea]) -> Iterator[Row]:
        """Yield one row for each area and cell, table after table."""
        found = [_Errors.of(self, area) for area in drawn]
        for placed in self.tables:
            sums = self._sums(placed, drawn)
            coefficients = cell_coefficients(self.shape.sizes, placed.attributes)
            bounds = rounding_error(self.variances, placed.attributes)
            for area, errors, cells in zip(drawn, found, sums, strict=True):
                final = {space: np.array([f]) for space, f in errors.variances.items()}
                variance = variance_above(self.variances, coefficients, final.__getitem__)
                error = math.sqrt(float(variance[0])) * (1 + 2.0**-40)
                error = math.nan if self.is_cut else error
                added = errors.rounding(bounds)
                yield from self._cells(placed, area, cells, error, added)

    def _sums(self, placed: Placed, drawn: Sequence[DrawnArea]) -> list[Integers]:
        """Return the cells of each area in a table, in units, leaves piece after piece."""
        shape = self.shape
        sums = [np.zeros([shape.sizes[i] for i in placed.attributes], np.int64) for _ in drawn]
        for start, stop in spans(shape, placed):
            held = self.published.estimates(placed, start, stop)
            for total, area in zip(sums, drawn, strict=True):
                low, high = np.searchsorted(area.leaves, [start, stop])
                if low == high:
                    continue
                cells = held[area.leaves[low:high] - start]
                shares = area.shares[low:high].reshape(-1, *(1,) * (cells.ndim - 1))
                whole = cells if (shares == 1).all() else np.rint(cells * shares).astype(np.int64)
                total += whole.sum(axis=0)
        return sums

    def _cells(
        self, placed: Placed, area: DrawnArea, cells: Integers, error: float, added: float
    ) -> Iterator[Row]:
        agreed, bits = self.published.column, self.published.bits
        step, name, called = float(agreed.step), agreed.name, _called(self.shape)
        margin = agreed.quantile * error + added / 2.0**bits
        keys = [self.shape.attributes[i] for i in placed.attributes]
        values = [written(key) if key.kind == "boolean" else list(key.values) for key in keys]
        for at in np.ndindex(cells.shape):
            row: Row = {called: area.name} | {key.column: None for key in self.shape.attributes}
            row |= {key.column: held[i] for key, held, i in zip(keys, values, at, strict=True)}
            row[name] = math.ldexp(int(cells[at]), -bits) * step
            row[f"{name}_se"] = error * step
            row[f"{name}_moe"] = margin * step
            yield row


@dataclass(frozen=True)
class _Errors:
    """What is known of an area's errors: F of residual spaces, and whole areas that make it up."""

    variances: dict[Table, float]
    made_of: list[int]
    """Of each level, how many areas lie in it whole, without a larger one that does."""
    shared: int
    """Leaves of which a part lies in it."""

    @classmethod
    def of(cls, column: _Column, area: DrawnArea) -> _Errors:
        tree = column.shape.tree
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

    def rounding(self, bounds: Sequence[int]) -> float:
        """Return by how much fixed point may have moved a cell, in units, rounded up."""
        whole = sum(number * bounds[level] for level, number in enumerate(self.made_of))
        return round_up(Fraction(whole + self.shared * (bounds[-1] + 1)))


def _batches(folder: Path, name: str) -> Iterator[Any]:
    yield from formats.PUBLISHED.batches(folder / formats.file_of(name), None)
