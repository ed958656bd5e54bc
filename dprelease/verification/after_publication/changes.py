"""Compare tables of two releases, or cells of one, from published numbers alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.documents.encoding import NAME
from dprelease.documents.metadata import Role, TableMetadata, code_text
from dprelease.errors import Place, QueryError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.errors.suggestions import nearest
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.common.invariant import Invariant
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.outputs import ESTIMATES, TABLES
from dprelease.postprocess.derived_values import WHOLE, whole_margin
from dprelease.query.measurement import OutputColumn
from dprelease.query.post import NO_POST_PROCESSING
from dprelease.query.quality import CONFIDENCE
from dprelease.query.resolve import Query
from dprelease.verification.after_publication.change_intervals import (
    Change,
    Estimates,
    change_between,
)
from dprelease.verification.after_publication.release_tables import (
    ReleaseTables,
    read_release_tables,
)
from dprelease.verification.after_publication.table_differences import (
    differences_of_rows,
    measures_the_same,
    reasons_against,
)

if TYPE_CHECKING:
    import pandas as pd

ONE_OF_TWO = (1 + CONFIDENCE) / 2
"""The confidence of each of two margins that both hold with probability `CONFIDENCE`."""

RESULT_COLUMNS = (
    *("column", "old", "new", "change", "change_lower", "change_upper"),
    *("percent", "percent_lower", "percent_upper", "confidence"),
)
"""The columns of a result after its keys."""

Cells = Mapping[str, object]
"""Values by key: only the cells with these values are compared."""

NO_NUMBERS = ("string", "bool", "date32[day]", "timestamp[us]")
"""The Arrow types of columns without changes."""


@checked_arguments
def compare(
    old: str | Path,
    new: str | Path,
    *,
    table: str | None = None,
    old_cells: Mapping[str, object] | None = None,
    new_cells: Mapping[str, object] | None = None,
) -> pd.DataFrame:
    """Return the changes between a table of two releases, or between cells of one release.

    Only the two releases are read, and nothing is charged. Each row is for a cell and a column of
    numbers, `column`. It has the keys of the cell, both values (`old` and `new`), their difference
    `change`, and the relative change in percent, `percent`, which is missing where the old value is
    not clearly above 0. `change_lower` and `change_upper`, `percent_lower` and `percent_upper` are
    the ends of their intervals, which cover the change without noise with the probability
    `confidence`. A cell that only one table has is there without a change.
    `attrs["dprelease"]["differences"]` says how the two declarations differ.

    Parameters
    ----------
    old, new
        The folders of two releases, or twice the same folder with different cells.
    table
        The name of the table, if the releases have several tables in common: as in
        `PublishedRelease`, and the folder `estimates/` can be left out.
    old_cells, new_cells
        Values of keys, for instance `{"sex": "f"}`: only the cells with these values are compared,
        and these keys are left out.

    Raises
    ------
    QueryError
        DP-COMPARE-001 for a table that is not in both releases, 002 for tables whose cells or
        columns do not measure the same.
    VerificationError
        DP-VERIFY-001 to 004, 007, 009 and 025 for a folder that is not a release of aggregates, or
        was changed since publication.
    """
    check_paths(old, new)
    older, newer = (read_release_tables(Path(path)) for path in (old, new))
    return changes_between(
        older, newer, table=table, old_cells=old_cells or {}, new_cells=new_cells or {}
    )


def changes_between(
    older: ReleaseTables,
    newer: ReleaseTables,
    *,
    table: str | None,
    old_cells: Cells,
    new_cells: Cells,
) -> pd.DataFrame:
    """Return what `compare` returns, for two releases that are already read."""
    name = _common_table(older, newer, table)
    before, after = TableOfCells(older, name, old_cells), TableOfCells(newer, name, new_cells)
    is_same = older.record.digest == newer.record.digest
    if is_same and before.cells == after.cells:
        _refuse("both are the same cells of one release")
    _refuse_other_measures(before, after)
    return _changes(before, after, is_same=is_same)


def common_tables(old: ReleaseTables, new: ReleaseTables) -> list[str]:
    """Return the names of the tables that two releases have in common, in the order of the new."""
    there = _comparable_tables(old)
    return [name for name in _comparable_tables(new) if name in there]


def _comparable_tables(release: ReleaseTables) -> dict[str, TableMetadata]:
    """Return the tables with margins by name: published queries, and estimates of families.

    Integer tables of families are left out, but not the counts of which summaries are computed.
    """
    queries = {query.name for query in release.queries}
    tables = {table.name: table for table in release.metadata.tables_for_readers}
    found = {}
    for full_name, table in tables.items():
        folder, _, name = full_name.rpartition("/")
        is_integer = f"{ESTIMATES}/{name}" in tables
        if name in queries and (folder in ("", ESTIMATES) or (folder == TABLES and not is_integer)):
            found[full_name] = table
    return found


def _common_table(old: ReleaseTables, new: ReleaseTables, table: str | None) -> str:
    """Return the name of the table to compare; raise DP-COMPARE-001 if it is not one of both."""
    names = common_tables(old, new)
    fitting = [name for name in names if table in (None, name, name.rpartition("/")[2])]
    if len(fitting) == 1:
        return fitting[0]
    problem = "no table was named" if table is None else f"'{table}' is not in both"
    raise QueryError(
        "DP-COMPARE-001",
        place=Place(NAME),
        problem=problem,
        names=", ".join(names) or "none",
    )


def only_table(release: ReleaseTables, table: str | None) -> str:
    """Return the name of a table with margins; raise DP-COMPARE-001 if there is no such table."""
    return _common_table(release, release, table)


def _refuse(reason: str) -> NoReturn:
    """Raise DP-COMPARE-002 with a reason."""
    raise QueryError("DP-COMPARE-002", place=Place(NAME), reason=reason)


class TableOfCells:
    """A published table, or its cells with some values of keys: keys, columns and their noise."""

    def __init__(self, release: ReleaseTables, name: str, cells: Cells) -> None:
        self.release, self.cells = release, {key: _code(value) for key, value in cells.items()}
        self.table = _comparable_tables(release)[name]
        query_name = name.rpartition("/")[2]
        self.query: Query = next(one for one in release.queries if one.name == query_name)
        known = [key.name for key in self.table.keys]
        for key in cells:
            if key not in known:
                _refuse(f"'{key}' is not one of its keys ({', '.join(known) or 'it has none'})")
        self.keys = [key for key in known if key not in cells]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows of the selected cells."""
        import pyarrow as pa

        self.release.refuse_changed_files({self.table.name})
        frame: pd.DataFrame = pa.Table.from_batches(
            list(self.release.batches(self.table.name))
        ).to_pandas()
        for key, value in self.cells.items():
            codes = frame[key].map(_code)
            frame = frame[codes == value]
            if frame.empty:
                close = nearest(value, codes)
                _refuse(f"no cell has the value '{value}' of '{key}'{close}")
        return frame.drop(columns=list(self.cells)).reset_index(drop=True)

    def values_of(self, key: str) -> list[object]:
        """Return the values of a key of these cells; raise DP-COMPARE-002 unless it has several."""
        if key not in self.keys:
            _refuse(f"'{key}' is not one of its keys ({', '.join(self.keys) or 'it has none'})")
        values = self.frame[key].drop_duplicates().tolist()
        if len(values) < 2:
            _refuse(f"'{key}' has a single value")
        return values

    @property
    def condition(self) -> str:
        """The declared condition of the table, as a phrase."""
        spec = self.release.declaration.spec
        where = spec.queries[spec.query_of_table[self.query.name]].where
        return "all rows" if where is None else f"rows with {where}"

    @cached_property
    def columns(self) -> dict[str, OutputColumn]:
        """The columns of numbers by name."""
        published = {column.name for column in self.table.values if column.kind not in NO_NUMBERS}
        return {one.name: one for one in self.query.columns if one.name in published}

    @cached_property
    def noise(self) -> dict[str, Randomizer]:
        """The noise of each measurement of the query, by name."""
        columns = (one for one in self.release.columns if one.query.name == self.query.name)
        return {one.measurement.name: one.mechanism for one in columns}

    @cached_property
    def quantiles(self) -> dict[str, float]:
        """The number of standard errors of a margin, by column of consistent tables."""
        family = next(
            one for one in self.release.families if self.query in [t.query for t in one.tables]
        )
        shape = Shape.of(family.tables)
        found = {one.name: one.at(CONFIDENCE).quantile for one in consistent_columns(shape)}
        return {one.name: one.quantile for one in derived_columns(shape)} | found

    def estimates(self, name: str, frame: pd.DataFrame, suffix: str) -> Estimates:
        """Return the values of a column in a frame that has this suffix after its columns."""
        column = self.columns[name]

        def companion(role: Role) -> Floats | None:
            """Return the values of a companion column; None if there is none."""
            found = self.table.companion_of(name, role)
            return None if found is None else _floats(frame[found.name + suffix])

        values = _floats(frame[name + suffix])
        lower, upper = companion(Role.LOWER), companion(Role.UPPER)
        errors = companion(Role.STANDARD_ERROR)
        if lower is not None and upper is not None:
            confidence = Fraction(self._confidence(name))
            return Estimates(values, lower, upper, confidence)
        if errors is not None:
            quantile = self.quantiles[name]
            width = quantile * errors
            return Estimates(
                values,
                values - width,
                values + width,
                CONFIDENCE,
                errors=errors,
                quantile=quantile,
            )
        return self._measured(column, values)

    def _confidence(self, name: str) -> str:
        """Return the confidence of the interval of a column, as a decimal text."""
        end = self.table.companion_of(name, Role.LOWER)
        return (end.confidence if end is not None else "") or str(float(CONFIDENCE))

    def _measured(self, column: OutputColumn, values: Floats) -> Estimates:
        """Return the values of a count or sum, with margins that follow from its noise."""
        step, post = float(column.step or 1), column.post
        noise = self.noise[column.parts[0].name]
        width = self._half_width(column) * step + float(post.round_to or 0) / 2
        lower, upper = values - width, values + width
        if post.bottom_code is not None:  # the value before coding may be any number below
            lower = np.where(values <= float(post.bottom_code), -np.inf, lower)
        if post.non_negative and column.parts[0].aggregate.lowest < 0:
            lower = np.where(values <= 0, -np.inf, lower)
        if post.top_code is not None:
            upper = np.where(values >= float(post.top_code), np.inf, upper)
        found = Estimates(values, lower, upper, ONE_OF_TWO, step=step)
        is_plain = column.form not in WHOLE and column.post == NO_POST_PROCESSING
        if is_plain and isinstance(noise, Mechanism) and not isinstance(noise, Invariant):
            return replace(found, noise=noise)
        return found

    def _half_width(self, column: OutputColumn) -> float:
        """Return a margin in steps that holds together with another one."""
        if column.form in WHOLE:
            return whole_margin(column, self.noise, float(ONE_OF_TWO))
        return self.noise[column.parts[0].name].half_width(float(ONE_OF_TWO))


def _code(value: Any) -> str:
    """Return a value of a key as text; values of NumPy are those of Python.

    A timestamp at midnight is its date.
    """
    if isinstance(value, np.datetime64):  # the item of nanoseconds would be an integer
        value = value.astype("M8[us]")
    text = code_text(value.item() if isinstance(value, np.generic) else value)
    return text.removesuffix(" 00:00:00")


def _floats(values: Any) -> Floats:
    """Return a column of numbers as floats (n,); NaN for missing values."""
    floats: Floats = values.astype("float64").to_numpy()
    return floats


def _refuse_other_measures(old: TableOfCells, new: TableOfCells) -> None:
    """Raise DP-COMPARE-002 unless both tables have the same keys and measure the same."""
    if old.keys != new.keys:
        both = [", ".join(side.keys) or "none" for side in (old, new)]
        _refuse(f"the keys are {both[0]} in the old table, and {both[1]} in the new one")
    for reason in reasons_against(old.query, new.query, (old.table.keys, new.table.keys)):
        _refuse(reason)
    names = [name for name in new.columns if name in old.columns]
    if not names:
        _refuse("they have no column of numbers in common")
    for name in names:
        both_columns = old.columns[name], new.columns[name]
        if not measures_the_same(old.query, new.query, both_columns):
            _refuse(f"'{name}' is computed in another way, with other bounds or in another unit")


def _changes(old: TableOfCells, new: TableOfCells, *, is_same: bool) -> pd.DataFrame:
    """Return the changes of all columns and cells, in the order of the new table."""
    import pandas as pd

    (merged, keys), found = _merged_cells(old, new), []
    for name in (name for name in new.columns if name in old.columns):
        before, after = (
            side.estimates(name, merged, end) for side, end in ((old, "_old"), (new, "_new"))
        )
        change = change_between(before, after, is_same=is_same)
        numbers = pd.DataFrame(dict(_change_columns(before, after, change)))
        found.append(pd.concat([keys.assign(column=name), numbers], axis="columns"))
    frame = pd.concat(found, ignore_index=True)
    frame.attrs["dprelease"] = {
        "table": new.table.name,
        "differences": list(_declared_differences(old, new)),
    }
    return frame


def _merged_cells(old: TableOfCells, new: TableOfCells) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the cells of both tables, and their keys; columns of cells end with `_old` or `_new`.

    The cells of the new table come first, in its order.
    """
    import pandas as pd

    for name in RESULT_COLUMNS:
        if name in new.keys:
            _refuse(f"a key has the name '{name}', which the result needs")
    frames = [side.frame.set_index(new.keys) if new.keys else side.frame for side in (old, new)]
    cells = frames[1].index.append(frames[0].index.difference(frames[1].index, sort=False))
    both = [
        frame.reindex(cells).add_suffix(end)
        for end, frame in zip(("_old", "_new"), frames, strict=True)
    ]
    values = pd.concat(both, axis="columns")
    return values, cells.to_frame(index=False) if new.keys else pd.DataFrame(index=cells)


def _change_columns(
    before: Estimates, after: Estimates, change: Change
) -> Iterator[tuple[str, Floats]]:
    """Yield the numbers of a change by the names of their columns."""
    yield "old", before.values
    yield "new", after.values
    for ending, found in zip(("", "_lower", "_upper"), change.difference, strict=True):
        yield f"change{ending}", np.where(np.isfinite(found), found, np.nan)
    for ending, found in zip(("", "_lower", "_upper"), change.ratio, strict=True):
        percent = 100.0 * (found - 1.0)
        yield f"percent{ending}", np.where(np.isfinite(percent), percent, np.nan)
    yield "confidence", np.full(len(before.values), float(change.confidence))


def _declared_differences(old: TableOfCells, new: TableOfCells) -> Iterator[str]:
    """Yield sentences on what differs between the declarations of two tables."""
    if old.condition != new.condition:
        yield (f"The old table is about {old.condition}, and the new table about {new.condition}.")
    yield from differences_of_rows(old.query, new.query, (old.table.keys, new.table.keys))
    for name in (name for name in new.columns if name in old.columns):
        posts = [side.columns[name].post for side in (old, new)]
        if posts[0] != posts[1]:
            yield f"The values of '{name}' were rounded, coded or left empty by different rules."
