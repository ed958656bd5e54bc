"""The declared text form of a source's values: encoding, numbers, dates and time zone."""

from __future__ import annotations

import codecs
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, WithJsonSchema

from dprelease.schema.field_types import refuse, to_text

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

MARKS = (".", ",", "'", "\u2019", "_", *SPACES)
"""The allowed thousands separators."""

Compression = Literal["none", "gzip", "zstd"]
COMPRESSED: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}


def to_encoding(value: object) -> str:
    """Return the canonical name of an encoding: `latin1`, `ISO-8859-1` and `l1` are `iso8859-1`."""
    text = to_text(value)
    try:
        encoding = codecs.lookup(text).name
    except (LookupError, ValueError):
        encoding = ""
    encoding = UTF_8 if encoding == "utf-8-sig" else encoding
    if encoding not in ENCODINGS:
        refuse(
            "DP-DECL-003",
            problem="it must be an encoding such as utf-8, utf-16, latin-1, cp1252 or iso-8859-15",
        )
    return encoding


def to_thousands_separator(value: object) -> str:
    """Return the thousands separator; all kinds of spaces become the same space."""
    text = to_text(value)
    if text not in MARKS:
        refuse("DP-DECL-003", problem="the thousands separator must be . , ' _ or a space")
    return " " if text in SPACES else text


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


_TEXT = WithJsonSchema({"type": "string"})
Encoding = Annotated[str, BeforeValidator(to_encoding), _TEXT]
Thousands = Annotated[
    str,
    BeforeValidator(to_thousands_separator),
    WithJsonSchema({"type": "string", "enum": [*MARKS]}),
]
TimeZone = Annotated[str, BeforeValidator(to_time_zone), _TEXT]
