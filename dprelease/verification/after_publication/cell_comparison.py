"""Shares of cells in totals, and changes along a key, of one published table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from dprelease.documents.encoding import NAME
from dprelease.errors import OutputError, Place, QueryError
from dprelease.numerics.lattice import Floats, Integers
from dprelease.postprocess.share_margins import margin_factor, share_estimates
from dprelease.verification.after_publication.changes import (
    Cells,
    TableOfCells,
    changes_between,
    only_table,
)
from dprelease.verification.after_publication.release_tables import ReleaseTables

if TYPE_CHECKING:
    import pandas as pd

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
    frame = side.frame
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
