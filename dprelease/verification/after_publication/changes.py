"""Compare tables of two releases, or cells of one, from published numbers alone.

Correspondence tables say which codes of the old release are which codes of the new one. A record
has one code before and one code after, so codes that were merged or split are compared as sums: of
all old codes that became one new code, or of all new codes that one old code became. Codes of which
only shares correspond to each other can't be compared without the records.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.documents.encoding import NAME
from dprelease.errors import Place, QueryError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.errors.printable import one_line
from dprelease.errors.suggestions import nearest
from dprelease.numerics.lattice import Floats
from dprelease.schema.public_values.key_files import DELIMITERS
from dprelease.system.files import TooLarge, read_file
from dprelease.verification.after_publication.comparison_errors import (
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
from dprelease.verification.after_publication.table_of_cells import (
    Cells,
    TableOfCells,
    comparable_tables,
    refuse,
)

if TYPE_CHECKING:
    import pandas as pd

MOST_BYTES = 1 << 28
OLD, NEW = "old", "new"


@dataclass(frozen=True)
class CodeLinks:
    """For each code of a key, in the old and in the new table, the code of what is compared."""

    old: Mapping[str, str]
    new: Mapping[str, str]


def code_links(key: str, given: object, old: Sequence[str], new: Sequence[str]) -> CodeLinks:
    """Return the links of a correspondence table; codes that it does not name stay the same.

    Parameters
    ----------
    key
        The key whose codes changed.
    given
        The path of a CSV file, a frame or a mapping of columns, with the columns `old` and `new`;
        or a mapping with `file`, and the names of its columns, `old` and `new`.
    old, new
        The codes of the key in both tables.

    Raises
    ------
    QueryError
        DP-COMPARE-004 for a table that can't be read, unknown codes, and codes that are linked such
        that the code of a record does not follow.
    """
    became: dict[str, list[str]] = {}
    came_from: dict[str, list[str]] = {}
    for line, before, after in _rows(key, given):
        for code, codes, which in ((before, old, OLD), (after, new, NEW)):
            if code not in codes:
                reason = f"'{code}' is no code of the {which} table{nearest(code, codes)}"
                _refuse(key, reason, line)
        if after not in became.setdefault(before, []):  # a row may be repeated
            became[before].append(after)
            came_from.setdefault(after, []).append(before)
    for code in {*old} & {*new} & (became.keys() ^ came_from.keys()):
        reason = (
            f"it names '{code}', a code of both tables, only as {NEW if code in came_from else OLD}"
        )
        _refuse(key, f"{reason} code; add the row '{code},{code}' if it has records in both")
    found: tuple[dict[str, str], dict[str, str]] = ({c: c for c in old}, {c: c for c in new})
    for before, codes in became.items():
        for after in codes:
            if all(len(became[code]) == 1 for code in came_from[after]):
                label = after
            elif all(len(came_from[code]) == 1 for code in codes):
                label = before
            else:
                reason = "are linked with further codes, so that no sums of codes correspond"
                _refuse(key, f"the old code '{before}' and the new code '{after}' {reason}")
            found[0][before] = found[1][after] = label
    return CodeLinks(*found)


def _rows(key: str, given: Any) -> Iterable[tuple[int | None, str, str]]:
    """Yield line, old and new code of a CSV file, a frame or a mapping of columns."""
    if isinstance(given, str | Path):
        yield from _rows_of_file(key, Path(given))
        return
    if isinstance(given, Mapping) and isinstance(given.get("file"), str | Path):
        names = str(given.get(OLD, OLD)), str(given.get(NEW, NEW))
        yield from _rows_of_file(key, Path(given["file"]), names)
        return
    try:
        _check_header(key, [str(name) for name in given])
        old, new = ([str(code) for code in given[name]] for name in (OLD, NEW))
    except (TypeError, KeyError):
        _refuse(key, "it is not a file, a frame or a mapping of columns")
    if len(old) != len(new):
        _refuse(key, "its columns have different lengths")
    yield from ((None, *codes) for codes in zip(old, new, strict=True))


def _rows_of_file(
    key: str, path: Path, names: tuple[str, str] = (OLD, NEW)
) -> Iterable[tuple[int | None, str, str]]:
    """Yield line, old and new code of a CSV file, in columns of these names."""
    try:
        text = read_file(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, TooLarge):
        _refuse(key, f"'{one_line(path.name)}' is not a readable UTF-8 text")
    lines = io.StringIO(text, newline=None)  # lines may end with carriage returns alone
    # Both names are known, so the character between them is the delimiter.
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]
    delimiter = next((sign for sign in DELIMITERS if sign in first), ",")
    rows = csv.reader(lines, strict=True, delimiter=delimiter)
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_header(key, header, names)
        places = header.index(names[0]), header.index(names[1])
        for row in rows:
            if row:
                if len(row) != len(header):
                    _refuse(key, "a line has more or fewer cells than the first", rows.line_num)
                yield rows.line_num, row[places[0]].strip(), row[places[1]].strip()
    except csv.Error:
        _refuse(key, f"'{one_line(path.name)}' is no CSV file")


def _check_header(key: str, header: Sequence[str], names: tuple[str, str] = (OLD, NEW)) -> None:
    """Refuse a table without the columns of old and new codes.

    A table in which nobody has named these columns may have no others, such as shares of codes.
    """
    if names != (OLD, NEW):
        for name in names:
            if header.count(name) != 1:
                _refuse(key, f"it does not have exactly one column '{name}'")
        return
    if sorted(header) != [NEW, OLD]:
        reason = "it needs exactly the columns `old` and `new`, or the names of its columns"
        if {OLD, NEW} < {*header}:
            reason += "; shares of codes can't be compared, because a record has a single code"
        _refuse(key, reason)


def _refuse(key: str, reason: str, line: int | None = None) -> NoReturn:
    """Raise DP-COMPARE-004 with a reason."""
    raise QueryError(
        "DP-COMPARE-004", place=Place(f"codes of '{key}'", line), key=key, reason=reason
    )


RESULT_COLUMNS = (
    *("column", "old", "new", "change", "change_lower", "change_upper"),
    *("percent", "percent_lower", "percent_upper", "confidence"),
)
"""The columns of a result after its keys."""

Codes = Mapping[str, object]
"""Correspondence tables by key: how codes of the old table became codes of the new one."""


@checked_arguments
def compare(
    old: str | Path,
    new: str | Path,
    *,
    table: str | None = None,
    old_cells: Mapping[str, object] | None = None,
    new_cells: Mapping[str, object] | None = None,
    codes: Mapping[str, object] | None = None,
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
    codes
        For keys whose codes changed, a correspondence table: a CSV file, a frame or a mapping with
        the columns `old` and `new`; or, for other names, a mapping such as `{"file": "codes.csv",
        "old": "code_2019", "new": "code_2020"}`. Codes that were merged or split are compared as
        sums of cells.

    Raises
    ------
    QueryError
        DP-COMPARE-001 for a table that is not in both releases, 002 for tables whose cells or
        columns do not measure the same, 004 for a correspondence table that does not fit.
    VerificationError
        DP-VERIFY-001 to 004, 007, 009 and 025 for a folder that is not a release of aggregates, or
        was changed since publication.
    """
    check_paths(old, new, *(codes or {}).values())
    older, newer = (read_release_tables(Path(path)) for path in (old, new))
    return changes_between(
        older, newer, table=table, old_cells=old_cells or {}, new_cells=new_cells or {},
        codes=codes or {},
    )  # fmt: skip


def changes_between(
    older: ReleaseTables,
    newer: ReleaseTables,
    *,
    table: str | None,
    old_cells: Cells,
    new_cells: Cells,
    codes: Codes | None = None,
) -> pd.DataFrame:
    """Return what `compare` returns, for two releases that are already read."""
    name = _common_table(older, newer, table)
    before, after = TableOfCells(older, name, old_cells), TableOfCells(newer, name, new_cells)
    is_same = older.record.digest == newer.record.digest
    if is_same and before.cells == after.cells:
        refuse("both are the same cells of one release")
    _refuse_other_measures(before, after)
    for key, given in (codes or {}).items():
        links = code_links(key, given, before.codes_of(key), after.codes_of(key))
        before.link(key, links.old)
        after.link(key, links.new)
    return _changes(before, after, is_same=is_same)


def common_tables(old: ReleaseTables, new: ReleaseTables) -> list[str]:
    """Return the names of the tables that two releases have in common, in the order of the new."""
    there = comparable_tables(old)
    return [name for name in comparable_tables(new) if name in there]


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


def _refuse_other_measures(old: TableOfCells, new: TableOfCells) -> None:
    """Raise DP-COMPARE-002 unless both tables have the same keys and measure the same."""
    if old.keys != new.keys:
        both = [", ".join(side.keys) or "none" for side in (old, new)]
        refuse(f"the keys are {both[0]} in the old table, and {both[1]} in the new one")
    for reason in reasons_against(old.query, new.query, (old.table.keys, new.table.keys)):
        refuse(reason)
    names = [name for name in new.columns if name in old.columns]
    if not names:
        refuse("they have no column of numbers in common")
    for name in names:
        both_columns = old.columns[name], new.columns[name]
        if not measures_the_same(old.query, new.query, both_columns):
            refuse(f"'{name}' is computed in another way, with other bounds or in another unit")


def _changes(old: TableOfCells, new: TableOfCells, *, is_same: bool) -> pd.DataFrame:
    """Return the changes of all columns and cells, in the order of the new table."""
    import pandas as pd

    (merged, keys), found = _merged_cells(old, new), []
    for name in (name for name in new.columns if name in old.columns):
        before, after = (
            side.estimates(name, merged, end) for side, end in ((old, "_old"), (new, "_new"))
        )
        joint = new.errors_of_differences(name, old, keys) if is_same else None
        change = change_between(before, after, is_same=is_same, joint=joint)
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
            refuse(f"a key has the name '{name}', which the result needs")
    sides = [side.linked_frame for side in (old, new)]
    frames = [one.set_index(new.keys) if new.keys else one for one in sides]
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
    if new.adds_up_persons:
        yield (
            "Cells were added up by a correspondence table. A person counts in each of them, up to "
            "the contribution limits, so persons in several of these cells count several times."
        )
    yield from differences_of_rows(old.query, new.query, (old.table.keys, new.table.keys))
    for name in (name for name in new.columns if name in old.columns):
        posts = [side.columns[name].post for side in (old, new)]
        if posts[0] != posts[1]:
            yield f"The values of '{name}' were rounded, coded or left empty by different rules."
