"""Correspondence tables: which codes of an old release are which codes of a new one.

A record has one code before and one code after, so codes that were merged or split are compared as
sums: of all old codes that became one new code, or of all new codes that one old code became. Codes
of which only shares correspond to each other can't be compared without the records.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from dprelease.errors import Place, QueryError
from dprelease.errors.printable import one_line
from dprelease.errors.suggestions import nearest
from dprelease.schema.public_values.key_files import DELIMITERS
from dprelease.system.files import TooLarge, read_file

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
        The path of a CSV file, a frame or a mapping of columns, with the columns `old` and `new`.
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
    try:
        _check_header(key, [str(name) for name in given])
        old, new = ([str(code) for code in given[name]] for name in (OLD, NEW))
    except (TypeError, KeyError):
        _refuse(key, "it is not a file, a frame or a mapping of columns")
    if len(old) != len(new):
        _refuse(key, "its columns have different lengths")
    yield from ((None, *codes) for codes in zip(old, new, strict=True))


def _rows_of_file(key: str, path: Path) -> Iterable[tuple[int | None, str, str]]:
    """Yield line, old and new code of a CSV file."""
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
        _check_header(key, header)
        places = header.index(OLD), header.index(NEW)
        for row in rows:
            if row:
                if len(row) != len(header):
                    _refuse(key, "a line has more or fewer cells than the first", rows.line_num)
                yield rows.line_num, row[places[0]].strip(), row[places[1]].strip()
    except csv.Error:
        _refuse(key, f"'{one_line(path.name)}' is no CSV file")


def _check_header(key: str, names: Sequence[str]) -> None:
    """Refuse a table without the columns `old` and `new`, or with more."""
    if sorted(names) != [NEW, OLD]:
        reason = "it needs exactly the columns `old` and `new`"
        if {OLD, NEW} < {*names}:
            reason += "; shares of codes can't be compared, because a record has a single code"
        _refuse(key, reason)


def _refuse(key: str, reason: str, line: int | None = None) -> NoReturn:
    """Raise DP-COMPARE-004 with a reason."""
    raise QueryError(
        "DP-COMPARE-004", place=Place(f"codes of '{key}'", line), key=key, reason=reason
    )
