"""Any areas made of leaves, from a release alone: sums with exact standard errors, at no price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.documents import manifest
from dprelease.documents.listed_files import digests_of
from dprelease.errors import Place, QueryError
from dprelease.errors.local_paths import check_paths
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import agreed_columns
from dprelease.postprocess.consistent.family_shape import Placed, Shape
from dprelease.postprocess.consistent.outputs import lowest, tables_with_estimates
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.consistent.zeros import key_texts
from dprelease.postprocess.families import Family
from dprelease.query.resolve import resolve
from dprelease.tables import formats
from dprelease.verification.after_publication.drawn_areas import DrawnArea, drawn_areas
from dprelease.verification.after_publication.leaf_sums import AreaSum, Column
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
    without one). Estimates are unbiased, and may be below 0. Means, ratios and centred sums are
    computed from the sums of their parts, as in tables; where a divisor may be 0 they are missing.

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
    check_paths(path, districts)
    import pandas as pd

    folder = Path(path)
    family, step = _family(folder, query)
    shape = Shape.of(family.tables)
    if not shape.areas or lowest(shape, step.spec) < len(shape.levels) - 1:
        reason = "it has no hierarchy" if not shape.areas else "its leaves have no estimates"
        _refuse(f"'{family.name}' can't be cut: {reason}")
    drawn = drawn_areas(districts, shape.areas[-1])
    tables = [
        one for one in tables_with_estimates(shape, step.spec) if one.level == len(shape.areas)
    ]
    summed = {
        column.agreed.measurement.name: column.sums_of_areas(tables, drawn)
        for column in Column.all(folder, family, step, shape)
    }
    rows = [
        row
        for placed in tables
        for i, area in enumerate(drawn)
        for row in _rows(shape, placed, area, {n: one[placed.name][i] for n, one in summed.items()})
    ]
    attributes = [key.column for key in shape.attributes]
    columns = {  # keys may be missing, and stay what they are
        name: pd.Series([row[name] for row in rows], dtype=object if name in attributes else None)
        for name in rows[0]
    }
    return pd.DataFrame(columns)


def _rows(
    shape: Shape, placed: Placed, area: DrawnArea, summed: Mapping[str, AreaSum]
) -> Iterator[Row]:
    """Yield a row for each cell of an area in a table; `summed`: of each measurement."""
    called, keys = _area_column_name(shape), [shape.attributes[i] for i in placed.attributes]
    values = [key_texts(key) if key.kind == "boolean" else list(key.values) for key in keys]
    columns = _columns(shape, summed)
    for at in np.ndindex(next(iter(summed.values())).values.shape):
        row: Row = {called: area.name} | {key.column: None for key in shape.attributes}
        row |= {key.column: held[i] for key, held, i in zip(keys, values, at, strict=True)}
        yield row | {name: float(cells[at]) for name, cells in columns.items()}


def _columns(shape: Shape, summed: Mapping[str, AreaSum]) -> dict[str, Floats]:
    """Return the cells of every column in declared order, and what stands beside them."""
    shown: dict[str, dict[str, Floats]] = {}
    for one in (one for one in agreed_columns(shape) if one.is_shown):
        held, name = summed[one.measurement.name], one.name
        margin = one.quantile * held.errors + held.rounding
        shown[name] = {name: held.values, f"{name}_se": held.errors, f"{name}_moe": margin}
    estimates = {name: (one.values, one.errors) for name, one in summed.items()}
    moved = {name: one.rounding for name, one in summed.items()}
    shown |= {one.name: one.within(estimates, moved) for one in derived_columns(shape)}
    declared = shape.placed[0].table.query.columns
    return {name: cells for one in declared for name, cells in shown[one.name].items()}


def _area_column_name(shape: Shape) -> str:
    """Return the name of the column of areas, which is no other's, whatever letters' case."""
    columns = [column.name for column in shape.placed[0].table.query.columns]
    published = [f"{name}{ending}" for name in columns for ending in ("", "_se", "_moe")]
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
    of_family = {formats.file_of(name) for name in family.published_names}
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
                report.add_finding("DP-VERIFY-004", name=name)
                raise report.findings[0]
