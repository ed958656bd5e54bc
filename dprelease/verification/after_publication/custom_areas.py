"""Read custom areas: the leaves that lie in each area, and the share of each leaf."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from dprelease.errors import Place, QueryError
from dprelease.errors.printable import one_line
from dprelease.errors.suggestions import nearest
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.rounding import exact
from dprelease.postprocess.consistent.family_shape import key_texts
from dprelease.query.grouping.group_keys import Key
from dprelease.system.files import TooLarge, read_file

MOST_BYTES = 1 << 30
LEAF, AREA, SHARE = "leaf", "area", "share"


@dataclass(frozen=True)
class CustomArea:
    """A custom area: its name, its leaves in ascending order, and the share of each leaf."""

    name: str
    leaves: Integers
    shares: Floats


@dataclass(frozen=True)
class _AreaRow:
    """A row of the given file or frame: a leaf, its area, and the share of the leaf as a text."""

    line: int | None
    leaf: str
    area: str
    share: str


def custom_areas(given: object, key: Key) -> list[CustomArea]:
    """Return the areas in a CSV file or a frame, in the order in which they first appear.

    - `given`: the path of a CSV file, or a frame or a mapping, with the columns `leaf` (or the name
      of the key), `area` and optionally `share`.
    - `key`: the key whose values are the leaves: the last level of areas.

    Raises QueryError: DP-AREA-001 for input that can't be read or has no areas, 002 for unknown
    leaves, 003 for leaves whose shares sum to more than 1.
    """
    name = one_line(Path(given).name) if isinstance(given, str | Path) else "areas"
    rows = (
        _rows_of_file(Path(given), name, key)
        if isinstance(given, str | Path)
        else _rows_of_frame(given, key)
    )
    places = {value: place for place, value in enumerate(key_texts(key))}
    left: dict[int, Fraction] = {}
    found: dict[str, dict[int, Fraction]] = {}
    for row in rows:
        where = Place(name, row.line)
        if row.leaf not in places:
            near = nearest(row.leaf, places)
            raise QueryError(
                "DP-AREA-002", place=where, leaf=row.leaf, column=key.column, nearest=near
            )
        leaf = places[row.leaf]
        share = _parsed_share(row, where)
        parts = found.setdefault(row.area, {})
        if leaf in parts:
            _raise_row_error(row, where, "it is listed twice")
        left[leaf] = left.get(leaf, Fraction(1)) - share
        if left[leaf] < 0:
            shared = (
                "its shares sum to more than 1"
                if row.share
                else "it already belongs to another area"
            )
            _raise_row_error(row, where, shared)
        parts[leaf] = share
    if not found:
        raise QueryError("DP-AREA-001", place=Place(name), reason="no row names a leaf")
    return [_custom_area(name, parts) for name, parts in found.items()]


def _custom_area(name: str, parts: Mapping[int, Fraction]) -> CustomArea:
    """Return the custom area with a name, from the share of each of its leaves."""
    leaves = sorted(parts)
    shares = np.array([float(parts[leaf]) for leaf in leaves])
    return CustomArea(name, np.array(leaves, np.int64), shares)


def _raise_row_error(row: _AreaRow, where: Place, reason: str) -> NoReturn:
    """Raise DP-AREA-003 with the leaf and the area of a row, and a reason."""
    raise QueryError("DP-AREA-003", place=where, leaf=row.leaf, area=row.area, reason=reason)


def _parsed_share(row: _AreaRow, where: Place) -> Fraction:
    """Return the share in a row, 1 if it is empty; raise DP-AREA-003 if it is invalid."""
    if not row.share:
        return Fraction(1)
    try:
        share = exact(row.share)
    except ValueError:
        share = Fraction(0)
    if not 0 < share <= 1:
        _raise_row_error(row, where, f"'{row.share}' is not a share above 0 and at most 1")
    return share


def _rows_of_file(path: Path, name: str, key: Key) -> Iterator[_AreaRow]:
    """Yield the rows of a CSV file; raise DP-AREA-001 for wrong columns or an unreadable file."""
    try:
        # Spreadsheets write a byte order mark, which would become a part of the first name.
        text = read_file(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, TooLarge) as problem:
        reason = getattr(problem, "strerror", None) or "it is not a UTF-8 text of at most 1 GiB"
        raise QueryError("DP-AREA-001", place=Place(name), reason=reason) from None
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = _column_positions(next(rows, []), name, key)
        for row in rows:
            if row:
                line = rows.line_num
                if max(columns) >= len(row):
                    raise QueryError(
                        "DP-AREA-001", place=Place(name, line), reason="the line is too short"
                    )
                held = [row[place].strip() for place in columns]
                yield _area_row(line, name, held)
    except csv.Error:
        raise QueryError("DP-AREA-001", place=Place(name), reason="it is no CSV file") from None


def _area_row(line: int | None, name: str, held: Sequence[str]) -> _AreaRow:
    """Return a row from the texts of its columns; raise DP-AREA-001 if its area has no name."""
    if not held[1]:
        raise QueryError("DP-AREA-001", place=Place(name, line), reason="an area has no name")
    return _AreaRow(line, held[0], held[1], held[2] if len(held) > 2 else "")


def _column_positions(header: Sequence[str], name: str, key: Key) -> list[int]:
    """Return the positions of the columns for leaf, area and, if there is one, share."""
    names = [column.strip() for column in header]
    leaf = LEAF if LEAF in names else key.column
    wanted = [leaf, AREA, *([SHARE] if SHARE in names else [])]
    for column in wanted:
        if names.count(column) != 1:
            named = f"`{LEAF}` (or '{key.column}')" if column == leaf else f"`{column}`"
            many = "more than one column" if column in names else "no column"
            raise QueryError("DP-AREA-001", place=Place(name), reason=f"there is {many} {named}")
    return [names.index(column) for column in wanted]


def _rows_of_frame(given: Any, key: Key) -> Iterator[_AreaRow]:
    """Yield the rows of a frame or of a mapping of columns; raise DP-AREA-001 for anything else."""
    try:
        header = [str(column) for column in given]
        places = _column_positions(header, "areas", key)
        columns = [list(map(_cell_text, given[header[place]])) for place in places]
    except (TypeError, KeyError):
        reason = "it is not a file, a frame or a mapping of columns"
        raise QueryError("DP-AREA-001", place=Place("areas"), reason=reason) from None
    if len({*map(len, columns)}) > 1:
        reason = "the columns have different lengths"
        raise QueryError("DP-AREA-001", place=Place("areas"), reason=reason)
    for row in zip(*columns, strict=True):
        yield _area_row(None, "areas", row)


def _cell_text(value: object) -> str:
    """Return the text of a cell of a frame, which is empty for None and NaN."""
    return "" if value is None or value != value else str(value)  # NaN differs from itself
