"""The declared text form of a source's values: encoding, numbers, dates and time zone."""

from __future__ import annotations

import codecs
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, WithJsonSchema

from dprelease.schema.field_types import Text, Whole, refuse, to_int, to_text

UTF_8, UTC = "utf-8", "UTC"

ENCODINGS = frozenset(
    {"ascii", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "tis-620", UTF_8}
    | {f"cp125{i}" for i in range(9)}
    | {f"cp{page}" for page in (437, 720, 737, 775, 850, 852, 855, 857, 858, 874, 932, 949, 950)}
    | {f"cp{page}" for page in (860, 861, 862, 863, 864, 865, 866, 869)}
    | {f"iso8859-{part}" for part in range(1, 17) if part != 12}
    | {f"mac-{script}" for script in ("roman", "latin2", "cyrillic", "greek", "turkish")}
    | {"shift_jis", "euc_jp", "euc_kr", "gb2312", "gbk", "gb18030", "big5", "big5hkscs"}
)
"""The encodings, by their names in Python, whose line ends are unambiguous bytes."""

SPACES = "\u0020\u00a0\u2009\u202f"
"""The spaces that may separate thousands; a declared space matches any of these."""

APOSTROPHES = "'\u2019"
"""The apostrophes that may separate thousands; a declared one matches both."""

MARKS = (".", ",", "'", "\u2019", "_", *SPACES)
"""The allowed thousands separators."""

Compression = Literal["none", "gzip", "zstd", "bz2", "zip"]
COMPRESSED: dict[str, Compression] = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".bz2": "bz2",
    ".zip": "zip",
}

MOST_HEADER_LINE, MOST_HEADER_LINES = 1 << 20, 5

MOST_LINES = 1000
"""Maximum number of lines that are left out above or below the rows of a text file."""


def to_encoding(value: object) -> str:
    """Return the canonical name of an encoding: `latin1`, `ISO-8859-1` and `l1` are `iso8859-1`."""
    text = to_text(value)
    try:
        encoding = codecs.lookup(text).name
    except (LookupError, ValueError):
        encoding = ""
    # UTF-8 is read with and without a byte order mark.
    encoding = UTF_8 if encoding == "utf-8-sig" else encoding
    if encoding not in ENCODINGS:
        refuse(
            "DP-DECL-003",
            problem="it must be an encoding such as utf-8, utf-16, latin-1, cp1252 or iso-8859-15",
        )
    return encoding


def to_thousands_separator(value: object) -> str:
    """Return the thousands separator; all kinds of spaces, and of apostrophes, become the same."""
    text = to_text(value)
    if text not in MARKS:
        refuse("DP-DECL-003", problem="the thousands separator must be . , ' _ or a space")
    return " " if text in SPACES else "'" if text in APOSTROPHES else text


def to_time_zone(value: object) -> str:
    """Return the name of a time zone in the IANA database."""
    text = to_text(value)
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        text = "localtime"
    if text == "localtime":  # it differs between machines
        refuse("DP-DECL-003", problem="it must be a time zone such as Europe/Vienna")
    return text


def to_line_numbers(value: object) -> object:
    """Return the numbers of lines; a single number means that many lines from the first one on."""
    if isinstance(value, list | tuple):
        return value
    number = to_int(value)
    if not 0 <= number <= MOST_LINES:
        refuse("DP-DECL-003", problem=f"it must be a number of lines up to {MOST_LINES:,}")
    return range(1, number + 1)


def to_header(value: object) -> int | str:
    """Return the number of the header's line, or a name that only the header has."""
    text = to_text(value)
    # `isdecimal` is also true for digits of other scripts, which may be the name of a column.
    if not text.isascii() or not text.isdecimal():
        return text
    number = to_int(text)
    if not 1 <= number <= MOST_HEADER_LINE:
        refuse("DP-DECL-003", problem="it must be the number of a line, from 1 on, or a name")
    return number


def to_header_place(value: object) -> HeaderRows:
    """Return the place of a header: as `to_header`, or the numbers of several lines."""
    if not isinstance(value, list | tuple):
        return to_header(value)
    lines = [to_header(one) for one in value]
    numbers = tuple(one for one in lines if isinstance(one, int))
    if not 2 <= len(numbers) == len(lines) <= MOST_HEADER_LINES or sorted({*numbers}) != lines:
        problem = f"two to {MOST_HEADER_LINES} numbers of lines are needed, such as [4, 5]"
        refuse("DP-DECL-003", problem=problem)
    return numbers


def to_beginnings(value: object) -> object:
    """Return a list of texts, none of which is empty; a single text needs no list."""
    texts = value if isinstance(value, list | tuple) else [value]
    if not all(to_text(text) for text in texts):
        refuse("DP-DECL-003", problem="it must be a text that is not empty, such as '#'")
    return texts


_TEXT = WithJsonSchema({"type": "string"})
_NUMBER = {"type": ["integer", "string"]}
Encoding = Annotated[str, BeforeValidator(to_encoding), _TEXT]
Thousands = Annotated[
    str,
    BeforeValidator(to_thousands_separator),
    WithJsonSchema({"type": "string", "enum": [*MARKS]}),
]
TimeZone = Annotated[str, BeforeValidator(to_time_zone), _TEXT]

LineNumbers = Annotated[
    tuple[Annotated[Whole, Field(ge=1, le=MOST_HEADER_LINE)], ...],
    BeforeValidator(to_line_numbers),
    WithJsonSchema({"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER}]}),
]
HeaderRows = int | str | tuple[int, ...]
"""The number of the row or line of a header, or of its rows, or one of its names."""

HeaderPlace = Annotated[
    HeaderRows,
    BeforeValidator(to_header_place),
    WithJsonSchema({"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER}]}),
]
LAST_PLACE = 1 << 20
Places = Annotated[
    dict[Text, tuple[Whole, Whole] | Text | None],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2},
                    {"type": ["string", "integer", "null"]},
                ]
            },
        }
    ),
]
"""The places of the first and the last character of columns, or their names in the file."""
Beginnings = Annotated[
    tuple[Text, ...],
    BeforeValidator(to_beginnings),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
