"""Comparisons of the cells of a published release: shares, differences, ratios, changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.encoding import NAME
from dprelease.errors import Place, QueryError, UsageError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.verification.after_publication.cell_comparison import (
    Library,
    changes_along,
    in_library,
    shares_of,
)
from dprelease.verification.after_publication.changes import RESULT_COLUMNS, changes_between
from dprelease.verification.after_publication.release_tables import (
    ReleaseTables,
    read_release_tables,
)

if TYPE_CHECKING:
    import pandas as pd

EITHER = "an earlier release, or else `along`, the name of a key"


class ComparableRelease:
    """A release that is read from its folder, whose cells can be compared."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @checked_arguments
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

    @checked_arguments
    def difference(
        self,
        other: str | Path | ComparableRelease | None = None,
        *,
        table: str | None = None,
        cells: Mapping[str, object] | None = None,
        other_cells: Mapping[str, object] | None = None,
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
        check_paths(other)
        found = self._changes_from(other, table, cells, other_cells)
        kept = {"new": "value", "old": "other", "change": "difference"}
        kept |= {"change_lower": "lower", "change_upper": "upper"}
        return in_library(_with_names(found, kept), library)

    @checked_arguments
    def ratio(
        self,
        other: str | Path | ComparableRelease | None = None,
        *,
        table: str | None = None,
        cells: Mapping[str, object] | None = None,
        other_cells: Mapping[str, object] | None = None,
        library: Library = "pandas",
    ) -> Any:
        """Return the values of cells divided by those of other cells, with intervals.

        A frame as that of `difference`, with `ratio` instead. Arguments and errors are the same. A
        ratio is missing where the divisor is not clearly above 0.
        """
        check_paths(other)
        found = self._changes_from(other, table, cells, other_cells)
        ends = {"percent": "ratio", "percent_lower": "lower", "percent_upper": "upper"}
        for name in ends:
            found[name] = 1.0 + found[name] / 100.0
        return in_library(_with_names(found, {"new": "value", "old": "other", **ends}), library)

    @checked_arguments
    def change(
        self,
        since: str | Path | ComparableRelease | None = None,
        *,
        along: str | None = None,
        table: str | None = None,
        cells: Mapping[str, object] | None = None,
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
        table, cells, library
            As in `difference`.

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
            check_paths(since)
            found = self._changes_from(since, table, cells, cells)
        return in_library(found, library)

    def _changes_from(
        self,
        other: str | Path | ComparableRelease | None,
        table: str | None,
        cells: Mapping[str, object] | None,
        other_cells: Mapping[str, object] | None,
    ) -> pd.DataFrame:
        """Return the changes from other cells, or another release, to cells of this one."""
        earlier = self if other is None else other
        if not isinstance(earlier, ComparableRelease):
            earlier = type(self)(earlier)
        return changes_between(
            earlier._release, self._release,
            table=table, old_cells=other_cells or {}, new_cells=cells or {},
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
