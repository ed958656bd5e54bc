"""Make SDMX identifiers from declared names and values in any script.

The standard admits ASCII letters, digits, `_` and `-` in the identifiers of components, which
begin with a letter, and also `@` and `$` in the identifiers of codes (SDMX 3.0, section 3A,
`NCNameIDType` and `IDType`). Other characters are escaped as SQL/XML escapes names (ISO/IEC
9075-14, 9.1): each becomes `_xHHHH_`, its number in four hexadecimal digits or more, and `_x`
itself becomes `_x005F_x`. So no two names or values share an identifier, and each identifier can be
decoded.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

ESCAPED = re.compile(r"_x([0-9A-F]{4,6})_")
EMPTY = "_x_"
"""The code of an empty text, which differs from all escapes, since they have digits."""

INITIAL = "X_x_"
"""Prefix of the identifier of a component whose name does not begin with a letter."""

RESERVED = frozenset(
    # columns of SDMX-CSV 1 and 2
    {"DATAFLOW", "STRUCTURE", "STRUCTURE_ID", "STRUCTURE_NAME", "ACTION", "SERIES_KEY", "OBS_KEY"}
    # components whose meaning the standard fixes
    | {"TIME_PERIOD", "OBS_VALUE", "REPORTING_YEAR_START_DAY"}
    # components of every cube of a release
    | {"MEASURE", "OBS_STATUS", "CONF_STATUS", "UNIT_MEASURE", "DECIMALS", "CONFIDENCE_LEVEL"}
    | {"MARGIN_OF_ERROR", "STANDARD_ERROR", "LOWER_BOUND", "UPPER_BOUND", "VALUE_LABEL", "ADJUSTED"}
)
"""Names that no key may have, in upper or lower case, because readers of CSV ignore case."""

_IN_CODES = re.compile(r"_(?=x)|[^A-Za-z0-9_@$\-]")
_IN_COMPONENTS = re.compile(r"_(?=x)|[^A-Za-z0-9_\-]")
ISO = r"[0-9]{4}(-[0-9]{2}){0,2}"
_VERSION = re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)?")


def code_id(value: str) -> str:
    """Return the identifier of a value in a code list, unique for each value."""
    return _IN_CODES.sub(_escape_match, value) or EMPTY


def component_id(name: str) -> str:
    """Return the identifier of a column, unique for each name."""
    escaped = _IN_COMPONENTS.sub(_escape_match, name)
    return escaped if re.match("[A-Za-z]", name) else INITIAL + escaped


def decode_id(code: str) -> str:
    """Return the value or name whose identifier `code_id` or `component_id` returned."""
    if code == EMPTY:
        return ""
    return ESCAPED.sub(lambda found: chr(int(found[1], 16)), code.removeprefix(INITIAL))


def _escape_match(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):04X}_"


def cube_id(table: str, column: str = "") -> str:
    """Return the identifier of a table's cube, or of the cube of one column of labels.

    A folder is separated by `-`, and a column by `--`. Neither separator occurs in the name of a
    query or column.
    """
    parts = [component_id(part) for part in table.split("/")]
    return "-".join(parts) + (f"--{component_id(column)}" if column else "")


def agency_id(publisher: str) -> str:
    """Return the identifier of the structures' publisher: its name, with words joined by `_`."""
    words = re.findall("[A-Za-z0-9]+", publisher)
    if not words:
        return "UNSPECIFIED"
    joined = "_".join(words)
    return joined if joined[0].isalpha() else f"A_{joined}"


def version_of(declared: str) -> str:
    """Return the declared version if it is valid in the standard, otherwise 1.0.0."""
    if not _VERSION.fullmatch(declared):
        return "1.0.0"
    return declared if declared.count(".") == 2 else f"{declared}.0"


def time_period(period: str) -> str | None:
    """Return a reference period in the standard's notation; None for a text that is not a period.

    `period`: a year, a month or a day of ISO 8601, or two days with a slash, both within the
    period. A whole year, quarter or month is written as such; other periods are written as first
    day and duration.
    """
    if re.fullmatch(ISO, period):
        return period if _first_and_last_day(period) is not None else None
    ends = [_first_and_last_day(end) for end in period.split("/")]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[1][1] < ends[0][0]:
        return None
    first, last = ends[0][0], ends[1][1]
    for months, written in ((12, "{0.year:04}"), (3, "{0.year:04}-Q{1}"), (1, "{0:%Y-%m}")):
        begins = first.day == 1 and (first.month - 1) % months == 0
        if begins and last == _last_day(first, months):
            return written.format(first, (first.month + 2) // 3)
    return f"{first.isoformat()}/P{(last - first).days + 1}D"


def _first_and_last_day(text: str) -> tuple[date, date] | None:
    """Return the first and the last day of a year, a month or a day; None for any other text."""
    if not re.fullmatch(ISO, text):
        return None
    try:
        first = date.fromisoformat(text + "-01-01"[len(text) - 4 :])
    except ValueError:
        return None
    return first, first if len(text) == 10 else _last_day(first, {4: 12, 7: 1}[len(text)])


def _last_day(first: date, months: int) -> date:
    """Return the last day of a period that begins on a first day and lasts some months."""
    month = first.month - 1 + months
    if first.year + month // 12 > date.max.year:
        return date.max
    return date(first.year + month // 12, month % 12 + 1, 1) - timedelta(days=1)
