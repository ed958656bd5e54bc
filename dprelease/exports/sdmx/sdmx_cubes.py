"""Find the SDMX cubes of a release: dimensions, measure and attributes, with their identifiers.

One observation is a number in a cell: the names of a table's numeric columns are the codes of a
dimension `MEASURE`, and `OBS_VALUE` is the number. So each number has its own status, and readers
of SDMX 2.1 can read it. A column of labels, such as a mode, is a separate cube whose `OBS_VALUE` is
a code. Synthetic persons have no cube.

**Identifiers** are made from declared names and values in any script. The standard admits ASCII
letters, digits, `_` and `-` in the identifiers of components, which begin with a letter, and also
`@` and `$` in the identifiers of codes (SDMX 3.0, section 3A, `NCNameIDType` and `IDType`). Other
characters are escaped as SQL/XML escapes names (ISO/IEC 9075-14, 9.1): each becomes `_xHHHH_`, its
number in four hexadecimal digits or more, and `_x` itself becomes `_x005F_x`. So no two names or
values share an identifier, and each identifier can be decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Final

from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, TableMetadata
from dprelease.postprocess.consistent.outputs import RECORDS
from dprelease.query import quality

# Set the status and the confidentiality of an observation.
#
# Codes and meanings come from the cross-domain lists CL_OBS_STATUS 2.2 and CL_CONF_STATUS 1.3 of
# SDMX; only the codes that a release needs are defined.

NORMAL, UNRELIABLE, SUPPRESSED, MISSING = "A", "U", "Q", "O"
FREE, WITHHELD = "F", "N"

OBS_STATUS: Final = {
    NORMAL: ("Normal value", "The noised value, as the release declares it."),
    UNRELIABLE: (
        "Low reliability",
        "The quality is D or at_bound: the value should not be quoted.",
    ),
    SUPPRESSED: (
        "Missing value; suppressed",
        "Left empty by a rule that the release declares, or not defined; the true value decides "
        "nothing.",
    ),
    MISSING: (
        "Missing value",
        "Not defined, such as a mean whose noised count is not clearly above 0.",
    ),
}
"""Name and meaning of each observation status."""

CONF_STATUS: Final = {
    FREE: ("Free (free for publication)", "Published."),
    WITHHELD: (
        "Not for publication, restricted for internal use only",
        "Withheld by the rule that the release declares; no other table may tell it.",
    ),
}
"""Name and meaning of each confidentiality status."""


BY_QUALITY: Final = {
    **dict.fromkeys(quality.RELIABLE, (NORMAL, FREE)),
    **dict.fromkeys(quality.TO_AVOID, (UNRELIABLE, FREE)),
    quality.UNSURE_DIVISOR: (MISSING, FREE),
    quality.SUPPRESSED: (SUPPRESSED, FREE),
    quality.FEW_PEOPLE: (SUPPRESSED, WITHHELD),
    quality.UNDEFINED: (MISSING, FREE),
}
"""Observation status and confidentiality status of every quality code."""


def status_of(value: str | None, code: str | None, may_be_empty: bool) -> tuple[str, str]:
    """Return the observation status and the confidentiality status of an observation.

    `value`: the value as it is written; None if the cell is empty. `code`: its quality; None if the
    release publishes none. `may_be_empty`: whether the release declares that small values of the
    column are suppressed.
    """
    if code is not None:
        return BY_QUALITY[code]
    if value is None:
        return (SUPPRESSED, WITHHELD) if may_be_empty else (MISSING, FREE)
    return NORMAL, FREE


QUALITY = "QUALITY"
"""The attribute with the quality code, which also decides the status of an observation."""

ATTRIBUTES_BY_ROLE = {
    "MARGIN_OF_ERROR": Role.MARGIN,
    "STANDARD_ERROR": Role.STANDARD_ERROR,
    "LOWER_BOUND": Role.LOWER,
    "UPPER_BOUND": Role.UPPER,
    "VALUE_LABEL": Role.LABEL,
    QUALITY: Role.QUALITY,
}
"""The attributes of a value, by the role of the column that holds them."""


@dataclass(frozen=True)
class Cube:
    """A cube: the numeric columns of a table, or one of its columns of labels.

    `time`: the reference period of the whole cube in the standard's notation; None if it is not
    declared.
    """

    table: TableMetadata
    values: tuple[ColumnMetadata, ...]
    labels: bool
    time: str | None

    @property
    def id(self) -> str:
        """Return the identifier of the cube's dataflow and structure."""
        return cube_id(self.table.name, self.values[0].name if self.labels else "")

    @cached_property
    def attribute_columns(self) -> dict[str, dict[str, ColumnMetadata]]:
        """Return, for each attribute, its columns by the name of the value that they describe.

        Attributes without a column are left out.
        """
        found: dict[str, dict[str, ColumnMetadata]] = {}
        for attribute, role in ATTRIBUTES_BY_ROLE.items():
            for value in self.values:
                column = self.table.companion_of(value.name, role)
                if column is not None:
                    found.setdefault(attribute, {})[value.name] = column
        names = {value.name for value in self.values}
        for flag in self.table.of_role(Role.FLAG):
            if flag.of in names:
                attribute = flag.name.removeprefix(f"{flag.of}_").upper()
                found.setdefault(attribute, {})[flag.of] = flag
        return found

    @property
    def quality_columns(self) -> dict[str, ColumnMetadata]:
        """Return the columns of quality by the value that they describe."""
        return self.attribute_columns.get(QUALITY, {})

    @property
    def confidence(self) -> dict[str, str]:
        """Return the confidence level of the attributes, if any."""
        columns = [column for held in self.attribute_columns.values() for column in held.values()]
        return {column.of: column.confidence for column in columns if column.confidence}

    @property
    def has_units(self) -> bool:
        """Return whether any value of the cube has a unit."""
        return any(value.unit for value in self.values)

    @property
    def has_declared_decimals(self) -> bool:
        """Return whether the displayed decimals of any value are declared."""
        return any(value.decimals is not None for value in self.values)


def cubes_of(metadata: Metadata, time: str | None) -> Iterator[Cube]:
    """Yield the cubes of all published tables for readers, in order."""
    for table in metadata.tables_for_readers:
        if table.name.startswith(f"{RECORDS}/"):
            continue  # no key identifies a row of synthetic persons
        numbers = tuple(value for value in table.values if not is_label(value))
        if numbers:
            yield Cube(table, numbers, labels=False, time=time)
        for value in table.values:
            if is_label(value):
                yield Cube(table, (value,), labels=True, time=time)


def is_label(value: ColumnMetadata) -> bool:
    """Return whether the values of a column are labels, whatever their type."""
    return value.codes is not None or not value.is_number


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
