"""Comparisons of the cells of a published release: shares, differences, ratios, changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from dprelease.documents.encoding import NAME
from dprelease.errors import OutputError, Place, QueryError, UsageError
from dprelease.errors.argument_types import checked_methods
from dprelease.errors.local_paths import check_paths
from dprelease.numerics.lattice import Floats, Integers
from dprelease.postprocess.margins import margin_factor, share_estimates
from dprelease.verification.after_publication.changes import (
    RESULT_COLUMNS,
    changes_between,
    only_table,
)
from dprelease.verification.after_publication.release_tables import (
    ReleaseTables,
    read_release_tables,
)
from dprelease.verification.after_publication.table_of_cells import Cells, TableOfCells

if TYPE_CHECKING:
    import pandas as pd


# Shares of cells in totals, and changes along a key, of one published table.

Library = Literal["pandas", "polars", "pyarrow"]
"""The library whose frames are returned."""

SHARE_COLUMNS = ("share", "lower", "upper")


def shares_of(
    release: ReleaseTables,
    column: str | None,
    within: Sequence[str],
    *,
    table: str | None,
    cells: Mapping[str, object],
) -> pd.DataFrame:
    """Return the share of each cell in the total of the cells with the same values of some keys.

    Raises QueryError: DP-COMPARE-001 without such a table, 003 for a column without shares.
    """
    import pandas as pd

    side = TableOfCells(release, only_table(release, table), cells)
    name = _column_of_shares(side, column)
    for key in within:
        if key not in side.keys:
            _refuse(f"'{key}' is not one of the keys ({', '.join(side.keys) or 'none'})")
    frame = side.linked_frame
    found = side.estimates(name, frame, "")
    if found.noise is None:
        _refuse(f"'{name}' is not a single noisy number in each cell")
    if side.columns[name].parts[0].aggregate.lowest < 0:
        _refuse(f"the values of '{name}' may be negative")
    is_selected = side.query.private is not None  # noise of selected cells has another distribution
    factor = math.inf if is_selected else margin_factor(found.noise) * found.step
    groups: Integers = np.zeros(len(frame), dtype=np.int64)
    if within:
        numbered = frame.groupby(list(within), sort=False, dropna=False).ngroup()
        groups = np.asarray(numbered, dtype=np.int64)
    shares = share_estimates(found.values, groups, factor)
    ends: tuple[Floats, ...] = (shares.values, shares.lower, shares.upper)
    numbers = pd.DataFrame(dict(zip(SHARE_COLUMNS, ends, strict=True)), index=frame.index)
    keys = [key for key in side.keys if key not in SHARE_COLUMNS]
    if len(keys) < len(side.keys):
        _refuse("a key has the name of a column of the result")
    return pd.concat([frame[keys], numbers], axis="columns")


def changes_along(
    release: ReleaseTables, key: str, *, table: str | None, cells: Cells
) -> pd.DataFrame:
    """Return the changes from each value of a key to the next one, in the order of the table.

    The columns are those of `changes_between`, after the later value of the key.

    Raises QueryError: DP-COMPARE-001 without such a table, 002 for a key with a single value, or
    none of its keys.
    """
    import pandas as pd

    name = only_table(release, table)
    side = TableOfCells(release, name, cells)
    values: list[Any] = side.values_of(key)
    parts = []
    for old, new in pairwise(values):
        found = changes_between(
            release,
            release,
            table=name,
            old_cells={**cells, key: old},
            new_cells={**cells, key: new},
        )
        found.insert(0, key, new)
        parts.append(found)
    frame = pd.concat(parts, ignore_index=True)
    frame.attrs = parts[0].attrs
    return frame


def in_library(frame: pd.DataFrame, library: Library) -> object:
    """Return a frame as a frame of pandas or polars, or as an Arrow table.

    Raises OutputError: DP-OUTPUT-021 if polars is not installed.
    """
    if library == "pandas":
        return frame
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    if library == "pyarrow":
        return table
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise OutputError("DP-OUTPUT-021", package="polars") from None
    return pl.DataFrame(table)


def _column_of_shares(side: TableOfCells, column: str | None) -> str:
    """Return the name of a column of numbers, or of the only one."""
    names = list(side.columns)
    if column is None and len(names) == 1:
        return names[0]
    if column is None or column not in side.columns:
        problem = "no column is named" if column is None else f"'{column}' is no column of numbers"
        _refuse(f"{problem}: the table has {', '.join(names) or 'none'}")
    return column


def _refuse(reason: str) -> NoReturn:
    """Raise DP-COMPARE-003 with a reason."""
    raise QueryError("DP-COMPARE-003", place=Place(NAME), reason=reason)


EITHER = "an earlier release, or else `along`, the name of a key"
OTHER = 'values of keys, such as {"sex": "F"}, or else `other`, another release'


@checked_methods
class ComparableRelease:
    """A release that is read from its folder, whose cells can be compared."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def share(
        self,
        column: str | None = None,
        *,
        within: str | Sequence[str] = (),
        table: str | None = None,
        cells: Mapping[str, object] | None = None,
        library: Library = "pandas",
    ) -> Any:
        """Return the share of each cell in the total of the table, with its 95 % interval.

        A frame with the keys, `share`, `lower` and `upper`. A share is missing where the total is
        not clearly above 0. Shares are computed from the noisy values, of which those below 0 count
        as 0.

        Parameters
        ----------
        column
            The column; it may be left out if there is only one column of numbers.
        within
            Keys: the total is that of the cells with the same values of these keys.
        table
            The name of the table, which may be left out if there is only one.
        cells
            Values of keys: only the cells with these values count.
        library
            The library of the frame: `pandas`, `polars` or `pyarrow`.

        Raises
        ------
        QueryError
            DP-COMPARE-001 without such a table, 003 for a column without shares.
        """
        keys = [within] if isinstance(within, str) else list(within)
        found = shares_of(self._release, column, keys, table=table, cells=cells or {})
        return in_library(found, library)

    def difference(
        self,
        other: str | Path | ComparableRelease | None = None,
        *,
        table: str | None = None,
        cells: Mapping[str, object] | None = None,
        other_cells: Mapping[str, object] | None = None,
        codes: Mapping[str, object] | None = None,
        library: Library = "pandas",
    ) -> Any:
        """Return the values of cells minus those of other cells, with intervals.

        A frame with the keys, `column`, `value`, `other`, `difference`, `lower`, `upper`, and the
        `confidence` of the intervals, as in `dprelease compare`.

        Parameters
        ----------
        other
            Another release, or its folder; by default, other cells of this release.
        table
            The name of the table, which may be left out if there is only one.
        cells, other_cells
            Values of keys: only the cells with these values are compared, without these keys.
        codes
            Correspondence tables by key, from codes of the other release to codes of this one, as
            in `dprelease.compare`.
        library
            The library of the frame: `pandas`, `polars` or `pyarrow`.

        Raises
        ------
        QueryError
            DP-COMPARE-001 for a table that is not in both releases, 002 for values that do not
            measure the same.
        VerificationError
            DP-VERIFY-001 to 004, 007, 009 and 025, as in `dprelease compare`.
        """
        check_paths(other, *(codes or {}).values())
        found = self._changes_from(other, table, cells, other_cells, codes)
        names = {"new": "value", "old": "other", "change": "difference"}
        names |= {"change_lower": "lower", "change_upper": "upper"}
        return in_library(_with_names(found, names), library)

    def ratio(
        self,
        other: str | Path | ComparableRelease | None = None,
        *,
        table: str | None = None,
        cells: Mapping[str, object] | None = None,
        other_cells: Mapping[str, object] | None = None,
        codes: Mapping[str, object] | None = None,
        library: Library = "pandas",
    ) -> Any:
        """Return the values of cells divided by those of other cells, with intervals.

        A frame as that of `difference`, with `ratio` instead. Arguments and errors are the same. A
        ratio is missing where the divisor is not clearly above 0.
        """
        check_paths(other, *(codes or {}).values())
        found = self._changes_from(other, table, cells, other_cells, codes)
        ends = {"percent": "ratio", "percent_lower": "lower", "percent_upper": "upper"}
        for name in ends:
            found[name] = 1.0 + found[name] / 100.0
        return in_library(_with_names(found, {"new": "value", "old": "other", **ends}), library)

    def change(
        self,
        since: str | Path | ComparableRelease | None = None,
        *,
        along: str | None = None,
        table: str | None = None,
        cells: Mapping[str, object] | None = None,
        codes: Mapping[str, object] | None = None,
        library: Library = "pandas",
    ) -> Any:
        """Return the changes since an earlier release, or from each value of a key to the next.

        A frame with the keys, `column`, `old`, `new`, `change` and `percent` with their intervals,
        and their `confidence`, as in `dprelease compare`.

        Parameters
        ----------
        since
            The earlier release, or its folder.
        along
            A key such as the year: each row has the change from the value before.
        table, cells, codes, library
            As in `difference`; `codes` only with `since`.

        Raises
        ------
        UsageError
            DP-SESSION-016 unless either `since` or `along` is given.
        QueryError, VerificationError
            As in `difference`.
        """
        if (since is None) == (along is None):
            raise UsageError("DP-SESSION-016", name="since", wanted=EITHER, kind="both or neither")
        if along is not None:
            found = changes_along(self._release, along, table=table, cells=cells or {})
        else:
            check_paths(since, *(codes or {}).values())
            found = self._changes_from(since, table, cells, cells, codes)
        return in_library(found, library)

    def _changes_from(
        self,
        other: str | Path | ComparableRelease | None,
        table: str | None,
        cells: Mapping[str, object] | None,
        other_cells: Mapping[str, object] | None,
        codes: Mapping[str, object] | None,
    ) -> pd.DataFrame:
        """Return the changes from other cells, or another release, to cells of this one."""
        if other is None and not other_cells:
            raise UsageError("DP-SESSION-016", name="other_cells", wanted=OTHER, kind="nothing")
        earlier = self if other is None else other
        if not isinstance(earlier, ComparableRelease):
            earlier = type(self)(earlier)
        return changes_between(
            earlier._release, self._release,
            table=table, old_cells=other_cells or {}, new_cells=cells or {}, codes=codes,
        )  # fmt: skip

    @cached_property
    def _release(self) -> ReleaseTables:
        """The tables with their declaration and their noise."""
        return read_release_tables(self.path)


def _with_names(changes: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Return changes with some of their columns, which get other names."""
    keys = [name for name in changes.columns if name not in RESULT_COLUMNS]
    for name in names.values():
        if name in keys:
            reason = f"a key has the name '{name}', which the result needs"
            raise QueryError("DP-COMPARE-002", place=Place(NAME), reason=reason)
    found = changes[[*keys, "column", *names, "confidence"]].rename(columns=dict(names))
    found.attrs = changes.attrs
    return found
