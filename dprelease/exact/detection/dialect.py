"""Detect the format of a CSV file from its first bytes: proposals for a schema, no values.

Only `init` uses it, and the owner of the data confirms its proposals. A run uses the declaration
and detects nothing.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Literal

from dprelease.exact.detection.cell_signs import likely_codes, without_signs
from dprelease.exact.detection.csv_layout import NULL_TEXTS, KeyValue
from dprelease.exact.reading.plain import BYTE_ORDER_MARK, TextDecoding, open_file
from dprelease.schema.field_types import has_two_digit_years
from dprelease.schema.source_texts import APOSTROPHES, SPACES, UTF_8, Compression
from dprelease.schema.source_types.source import Source
from dprelease.statements.values.spelling import ISO_TEXT
from dprelease.statements.values.written_texts import number_pattern, plain_number

FIRST_BYTES = 1 << 20
MOST_ROWS = 500
ZIP_MAGIC = b"PK\x03\x04"
MAGIC_BYTES: dict[bytes, Compression] = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    ZIP_MAGIC: "zip",
}
SEPARATORS_POINT_FIRST = (
    (".", None),
    (".", ","),
    (",", None),
    (",", "."),
    (".", " "),
    (",", " "),
    (".", "'"),
    (",", "'"),
)
SEPARATORS_COMMA_FIRST = (
    (",", "."),
    (",", None),
    (",", " "),
    (".", None),
    (".", ","),
    (".", " "),
    (".", "'"),
    (",", "'"),
)
DATE_FORMATS = (
    "%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d",
    "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y",
    "%d%b%Y",
)  # fmt: skip
TIME_FORMATS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S", " %H:%M:%S.%f")
BASIC_DAY = re.compile("(19|20)[0-9]{6}")
"""Days without separators, in the years of living people."""
MOST_FEW = 6
"""At most so many different numbers, each of which occurs twice on average, may be codes."""
DAY_AND_MONTH = (("%d/%m", "%m/%d"), ("%d-%m", "%m-%d"))


@dataclass(frozen=True, slots=True)
class ApparentType:
    """The apparent type of a column, detected from its first cells.

    `layout`: the format of dates and timestamps; None for ISO 8601. `is_unsure`: whether day and
    month may be exchanged. For texts, `is_code`: whether all cells are digits, some of them with
    leading zeros; `is_mixed`: whether more than half of the cells are numbers.
    """

    name: str
    layout: str | None = None
    is_unsure: bool = False
    is_code: bool = False
    is_mixed: bool = False
    codes: tuple[int | str, ...] = ()
    """Numbers, and in JSON also texts, that look like codes for missing values."""
    refusal: str = ""
    """The reason why the column can't be used; empty if it can be used."""
    strip: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    """The signs around numbers, all from a fixed list, and the forms of negative numbers."""
    has_numbers: bool = False
    """For texts, whether some cells are numbers."""
    are_few: bool = False
    """Whether the cells are few different small numbers, which may be codes, such as 1, 2 and 9."""


@dataclass(frozen=True, slots=True)
class DetectedFormat:
    """The format of a text file: the keys of `source`, and the apparent types of its columns."""

    source: dict[str, KeyValue] = field(default_factory=dict)
    columns: dict[str, ApparentType] = field(default_factory=dict)
    encoding_is_unknown: bool = False
    """Whether all bytes that were read are ASCII, and the file has more bytes."""
    names: tuple[str, ...] = ()
    """The names in the header, in order; a name may occur twice."""
    shadowed: tuple[str, ...] = ()
    """Text columns in which one of the proposed `nulls` also occurs."""
    rows: int | None = None
    """How many of the first rows fit the header, as a run reads them; None if it is not known."""
    has_equal_lines: bool = False
    """Whether no delimiter was found in lines of the same length, which may have a fixed width."""
    has_units: bool = False
    """Whether the first row has texts alone, and columns below it would be numbers."""
    has_misfits: bool = False
    """Whether a run would leave out some of the first lines, because they don't fit the header."""
    names_below: int | None = None
    """The number of the first row if it looks like a second row of names below merged cells, or 0
    if its number is not known."""


def detect_csv_format(
    keys: dict[str, KeyValue],
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    source: Source,
    encoding_is_unknown: bool,
) -> DetectedFormat:
    """Return the apparent format of a CSV file.

    `keys`: the keys of `source` that were found so far. `names`: the names in the header. `rows`:
    the cells of the first rows that fit.
    """
    cells = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    cell_form, columns = detect_cell_formats(cells, semicolons=source.separator == ";")
    marks = _null_texts(cells, columns)
    source_keys = {k: v for k, v in ({**keys, "nulls": marks} | cell_form).items() if v}
    shadowed = [
        name
        for name, kind in columns.items()
        if kind.name == "text" and not {cell.strip() for cell in cells[name]}.isdisjoint(marks[1:])
    ]
    below = {name: values[1:] for name, values in cells.items()}
    _, others = detect_cell_formats(below, semicolons=source.separator == ";")
    has_units = not any(map(str.isdigit, "".join(rows[0] if rows else []))) and any(
        columns[name].name == "text" and others[name].name in ("integer", "number")
        for name in cells
    )
    return DetectedFormat(
        source_keys,
        columns,
        encoding_is_unknown,
        tuple(names),
        tuple(shadowed),
        len(rows),
        has_units=has_units,
    )


def read_first_lines(
    file: Path, kind: Literal["csv", "json_lines"]
) -> tuple[dict[str, KeyValue], str, bool]:
    """Return the compression and encoding for `source`, and the first complete lines of a file.

    The third result is `DetectedFormat.encoding_is_unknown`.

    Raises
    ------
    OSError, ValueError
        If the first bytes can't be decompressed, or are no text.
    """
    compression = _detect_compression(file)
    data, is_whole = _read_first_bytes(file, compression)
    if data.startswith(ZIP_MAGIC):
        raise ValueError("the text is a ZIP archive, such as a workbook")
    encoding = _detect_encoding(data, is_whole=is_whole)
    text = _decode(data, encoding)
    if kind == "csv":
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not is_whole:
        # The last line may end in the middle of a value.
        text = text[: text.rfind("\n") + 1]
    by_default = Source(path=file.name, format=kind)
    packing: dict[str, KeyValue] = {
        "compression": compression if compression != by_default.effective_compression else "",
        "encoding": encoding if encoding != UTF_8 else "",
    }
    return packing, text, encoding == UTF_8 and not is_whole and data.isascii()


def detect_cell_formats(
    written: dict[str, list[str]], *, semicolons: bool
) -> tuple[dict[str, KeyValue], dict[str, ApparentType]]:
    """Return the formats of numbers and dates for `source`, and the apparent types of columns.

    `written`: the first cells of each column, as written. `semicolons`: whether the delimiter of
    the file is a semicolon, so that a comma is more likely a decimal separator.
    """
    cells = {name: _nonmissing_values(values) for name, values in written.items()}
    signed = {name: without_signs(values) for name, values in cells.items()}
    plain = {name: one.cells for name, one in signed.items()}
    marks = _likely_separators(
        plain, SEPARATORS_COMMA_FIRST if semicolons else SEPARATORS_POINT_FIRST
    )
    decimal, thousands = _separators_to_declare(plain, marks)
    columns = {}
    for name, values in cells.items():
        kind = _apparent_type(values, *marks)
        if kind.name == "text" and not kind.is_code and _is_number(plain[name], *marks):
            values, one = plain[name], signed[name]
            found = _apparent_type(values, *marks)
            if found.name in ("integer", "number"):
                kind = replace(found, strip=one.signs, negative=one.negative)
        elif kind.name == "text" and not kind.is_code:
            is_mixed = kind.is_mixed or _apparent_type(plain[name], *marks).is_mixed
            kind = replace(kind, is_mixed=is_mixed)
        columns[name] = _with_codes(kind, values, *marks)
    common = {kind: _common_format(columns, kind) for kind in ("date", "timestamp")}
    source: dict[str, KeyValue] = {"decimal": decimal, "thousands": thousands}
    source |= {f"{kind}_format": layout for kind, layout in common.items()}
    if any(has_two_digit_years(kind.layout or "") for kind in columns.values()):
        source["pivot"] = date.today().year
    return source, columns


def _with_codes(
    kind: ApparentType, values: list[str], decimal: str, thousands: str | None
) -> ApparentType:
    """Return the apparent type of a column with the codes that its numbers seem to have."""
    if kind.name not in ("integer", "number"):
        return kind
    numbers = [float(plain_number(value, decimal, thousands)) for value in values]
    codes = tuple(likely_codes(numbers))
    others = {*numbers} - {*codes}
    are_few = kind.name == "integer" and 2 * len(others) <= min(len(numbers), 2 * MOST_FEW)
    return replace(kind, codes=codes, are_few=are_few and all(0 <= one < 100 for one in others))


def _null_texts(written: dict[str, list[str]], columns: dict[str, ApparentType]) -> list[str]:
    """Return the texts that appear to stand for missing values, all from a fixed list.

    Only texts in columns of numbers (including codes with leading zeros), dates or booleans are
    returned. Any other text is somebody's value, and is not reported.
    """
    typed = [written[name] for name, kind in columns.items() if _is_typed(kind)]
    marks = null_texts_of(itertools.chain.from_iterable(typed))
    return ["", *marks] if marks else []


def null_texts_of(cells: Iterable[str]) -> list[str]:
    """Return the texts of a fixed list that stand for missing values among cells, sorted."""
    seen = {cell.strip() for cell in cells}
    return sorted(cell for cell in seen if cell and _is_null_text(cell))


def _is_typed(kind: ApparentType) -> bool:
    """Return whether most of a column's cells are numbers, dates or booleans."""
    return kind.name != "text" or kind.is_code or kind.is_mixed


def _is_null_text(cell: str) -> bool:
    """Return whether a text is in `NULL_TEXTS`, in lower case, upper case or capitalized."""
    spellings = {cell.lower(), cell.upper(), cell.capitalize()} | {
        "NaN", "N/a", "k.A.", "k. A.", "keine Angabe", "Keine Angabe",
    }  # fmt: skip
    return cell.lower() in NULL_TEXTS and cell in spellings


def _detect_compression(file: Path) -> Compression:
    """Return the compression that the first bytes of a file tell."""
    with file.open("rb") as raw:
        head = raw.read(4)
    return next((kind for magic, kind in MAGIC_BYTES.items() if head.startswith(magic)), "none")


def _read_first_bytes(file: Path, compression: Compression) -> tuple[bytes, bool]:
    """Return the first bytes of a file, decompressed, and whether these are the whole file."""
    data = b""
    with open_file(file) as raw:
        for chunk in TextDecoding(UTF_8, compression).chunks(raw):
            data += chunk
            if len(data) > FIRST_BYTES:
                return data[:FIRST_BYTES], False
    return data, True


def _detect_encoding(data: bytes, *, is_whole: bool) -> str:
    """Return the apparent encoding of the first bytes of a file."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in data:
        return "utf-16-be" if data[::2].count(0) > data[1::2].count(0) else "utf-16-le"
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(data, final=is_whole)
    except UnicodeDecodeError:
        controls = re.search(rb"[\x80-\x9f]", data)  # latin-1 has no letters there
        unknown = re.search(rb"[\x81\x8d\x8f\x90\x9d]", data)
        return "cp1252" if controls and not unknown else "latin-1"
    return UTF_8


def _decode(data: bytes, encoding: str) -> str:
    """Return the text of these bytes without a byte order mark; invalid bytes are replaced."""
    return data.decode(encoding, "replace").removeprefix(BYTE_ORDER_MARK)


def _nonmissing_values(cells: Iterable[str]) -> list[str]:
    """Return the stripped values, without values that usually mean a missing value."""
    values = [cell.strip() for cell in cells]
    return [value for value in values if value.lower() not in NULL_TEXTS]


def _is_number(values: list[str], decimal: str, thousands: str | None) -> bool:
    """Return whether there are values, and all are numbers written with these separators."""
    shape = re.compile(number_pattern(decimal, thousands))
    return bool(values) and all(
        shape.fullmatch(value) and any(c.isdigit() for c in value.lower().partition("e")[0])
        for value in values
    )


def _likely_separators(
    cells: dict[str, list[str]], forms: tuple[tuple[str, str | None], ...]
) -> tuple[str, str | None]:
    """Return the decimal and thousands separators by which most columns are numbers.

    `forms`: the pairs of separators to try; of equally good pairs the first one is returned.
    """

    def numeric_column_count(marks: tuple[str, str | None]) -> int:
        """Return the number of columns whose values are all numbers with these separators."""
        return sum(_is_number(values, *marks) for values in cells.values() if values)

    return max(forms, key=numeric_column_count)


def _separators_to_declare(
    cells: dict[str, list[str]], marks: tuple[str, str | None]
) -> tuple[str, str]:
    """Return the separators that a source must declare because numbers contain them.

    A separator is empty if the source need not declare it.
    """
    decimal, thousands = marks
    numbers = "".join(
        value for values in cells.values() if _is_number(values, *marks) for value in values
    )
    alike = {" ": SPACES, "'": APOSTROPHES}.get(thousands or "", thousands or "")
    is_between = any(mark in numbers for mark in alike)
    is_decimal = decimal != "." and (decimal in numbers or (is_between and thousands == "."))
    return decimal if is_decimal else "", thousands or "" if is_between else ""


def _apparent_type(values: list[str], decimal: str, thousands: str | None) -> ApparentType:
    if not values:
        return ApparentType("text")
    if _is_number(values, decimal, thousands):
        if all(BASIC_DAY.fullmatch(value) for value in values):
            day = ApparentType("date", "%Y%m%d")
            return day if _all_match_format(values, "%Y%m%d") else ApparentType("integer")
        if any(re.match(r"[+-]?0[0-9]", value) for value in values):
            return ApparentType("text", is_code=True)  # as a number it would lose its zeros
        whole = not any(decimal in value or "e" in value.lower() for value in values)
        return ApparentType("integer" if whole else "number")
    if {value.lower() for value in values} <= {"true", "false"}:
        return ApparentType("boolean")
    kind = _apparent_date_type(values)
    numbers = sum(_is_number([value], decimal, thousands) for value in values)
    if kind.name != "text":
        return kind
    return ApparentType("text", is_mixed=2 * numbers > len(values), has_numbers=numbers > 0)


def _apparent_date_type(values: list[str]) -> ApparentType:
    """Return the type of dates or timestamps, with the format, that fits all texts; else text."""
    if all(re.fullmatch(ISO_TEXT, value) for value in values):
        return ApparentType("timestamp" if any(":" in value for value in values) else "date")
    for time in TIME_FORMATS:
        fitting = [day for day in DATE_FORMATS if _all_match_format(values, day + time)]
        if fitting:
            pairs = [{a, b} for a, b in DAY_AND_MONTH]
            unsure = any(pair <= {day[:5] for day in fitting} for pair in pairs)
            return ApparentType("timestamp" if time else "date", fitting[0] + time, unsure)
    return ApparentType("text")


def _all_match_format(values: list[str], layout: str) -> bool:
    try:
        for value in values:
            datetime.strptime(value, layout)
    except ValueError:
        return False
    return True


def _common_format(columns: dict[str, ApparentType], name: str) -> str:
    """Return the common format of all columns of a type; empty for ISO 8601, or if they differ."""
    layouts = {kind.layout for kind in columns.values() if kind.name == name}
    (layout,) = layouts if len(layouts) == 1 else (None,)
    return layout or ""
