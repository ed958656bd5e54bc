"""Convert Python objects to the texts of their values, by one rule that reads the cell alone.

A column of objects holds anything: numbers next to texts, dates next to timestamps. Each cell
becomes the text that its value would have in a column of its own type, and is then read as
declared.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self
from zoneinfo import ZoneInfo

import numpy as np

from dprelease.schema.columns import Column, DateColumn, TimestampColumn
from dprelease.statements.meanings import may_lose_values
from dprelease.statements.values.categories import EXACT
from dprelease.statements.values.spelling import UTC, loses_digits, misreads_iso_dates

WIDEST = 2**13
"""Maximum bits of an integer that is written out; longer ones count as infinite for all readers."""

LONGEST = 40
"""Maximum digits on either side of the point for decimals written without an exponent."""

MICROSECONDS = {"W": 604_800_000_000, "D": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000}
MICROSECONDS |= {"s": 1_000_000, "ms": 1000, "us": 1}
EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the texts of a column will be read, so that dates and timestamps are written accordingly.

    `zone`: the local time zone of timestamps. `is_timely`: dates and timestamps are read from their
    texts, including the offset from UTC. `layout`: a format that would misread ISO 8601 dates as
    others. `by_text`: numbers count as missing, because they have lost their original text.
    `is_exact`: a float that stands for several integers counts as missing. `decodes`: bytes are
    decoded as UTF-8 text.
    """

    zone: str = UTC
    is_timely: bool = False
    layout: str | None = None
    by_text: bool = False
    is_exact: bool = False
    decodes: bool = False

    @classmethod
    def of(cls, column: Column, zone: str) -> Self:
        """Return how texts are read as a declared column."""
        if not isinstance(column, DateColumn | TimestampColumn):
            return cls(zone)
        return cls(zone, True, column.format if misreads_iso_dates(column.format) else None)

    @classmethod
    def of_objects(cls, column: Column, zone: str) -> Self:
        """Return the same for Python objects, where libraries leave texts of files as bytes."""
        return replace(cls.of(column, zone), decodes=True)

    @classmethod
    def of_cells(cls, column: Column, zone: str, *, is_id: bool) -> Self:
        """Return the same for cells that were stored unchanged, independently of other cells."""
        plain = cls.of(column, zone)
        if isinstance(column, DateColumn | TimestampColumn):
            return replace(plain, by_text=loses_digits(column.format))
        return replace(plain, is_exact=is_id or may_lose_values(column, "DOUBLE"))


AS_TEXT = Reading()
"""For a column that is read as text."""


def texts_of(cells: Iterable[object], reading: Reading = AS_TEXT) -> list[str | None]:
    """Return each cell as a text, or None where it has no value; never raises."""
    return [_text(cell, reading) for cell in cells]


def _text(cell: object, reading: Reading) -> str | None:
    """Return the text of a cell; None if it has none, or fails."""
    try:
        text = _telling(cell, reading)
        return text if text is None or _is_unicode(text) else None
    except Exception:  # noqa: BLE001 - classes of the caller's own may fail at anything
        return None


def _telling(value: object, reading: Reading) -> str | None:
    if isinstance(value, np.datetime64):
        return _numpy_instant(value, reading)
    if isinstance(value, np.float16 | np.float32):
        value = float(str(value))  # the number that it prints as, not its 64-bit value
    if isinstance(value, np.generic):
        value = _plain_scalar(value)
    if isinstance(value, bytes):
        value = bytes.decode(value, "utf-8") if reading.decodes else None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "true" if value else "false"  # as the engine writes them
    if isinstance(value, int | float | decimal.Decimal):
        return None if reading.by_text else _number(value, reading)
    if isinstance(value, datetime.date):
        return _day_or_instant(value, reading)
    return uuid.UUID.__str__(value) if isinstance(value, uuid.UUID) else None


def _plain_scalar(value: np.generic) -> object:
    """Return a NumPy scalar as a Python one; None for a duration, which would be an integer."""
    if isinstance(value, np.floating):
        return float(value)
    return None if isinstance(value, np.timedelta64) else value.item()


def _day_or_instant(value: datetime.date, reading: Reading) -> str | None:
    if isinstance(value, datetime.datetime):
        return _instant(value, reading)
    return _day(value, reading)


def _number(value: float | decimal.Decimal, reading: Reading) -> str | None:
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, int):
        return _whole(value)
    return None if reading.is_exact and EXACT <= abs(value) < math.inf else _float(value)


def _whole(value: int) -> str:
    if int.bit_length(value) <= WIDEST:
        return int.__repr__(value)
    return "-inf" if int.__lt__(value, 0) else "inf"


def _float(value: float) -> str | None:
    if math.isnan(value):
        return None
    if abs(value) < 2**127 and float.is_integer(value):
        return int.__repr__(int(value))
    return float.__repr__(value)


def _decimal(value: decimal.Decimal) -> str | None:
    if decimal.Decimal.is_nan(value):
        return None
    digits = decimal.Decimal.as_tuple(value)
    if not isinstance(digits.exponent, int):
        return "-inf" if digits.sign else "inf"
    if max(len(digits.digits), abs(digits.exponent)) > LONGEST:
        return decimal.Decimal.__str__(value)
    text = decimal.Decimal.__format__(value, "f")
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short in ("-0", "") else short


def _instant(value: datetime.datetime, reading: Reading) -> str | None:
    if not datetime.MINYEAR <= value.year <= datetime.MAXYEAR:  # pandas' NaT, whose year is NaN
        return None
    offset = value.utcoffset()
    plain = datetime.datetime(
        value.year, value.month, value.day, value.hour, value.minute, value.second,
        value.microsecond,
    )  # fmt: skip
    return _plain(plain, reading) if offset is None else _local_text(plain - offset, reading)


def _local_text(instant: datetime.datetime, reading: Reading) -> str:
    """Return an instant in UTC as a text in the local time of the column."""
    if reading.zone == UTC:
        return _plain(instant, reading)
    # the engine converts it as it converts columns
    if reading.is_timely and reading.layout is None:
        return f"{instant.isoformat(sep=' ')}+00:00"
    there = instant.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo(reading.zone))
    return _plain(there.replace(tzinfo=None), reading)


def _plain(instant: datetime.datetime, reading: Reading) -> str:
    """Return a timestamp as the engine writes it; at midnight only its date."""
    if reading.layout is not None:
        return instant.strftime(reading.layout)
    text = instant.isoformat(sep=" ").removesuffix(" 00:00:00")
    return text.rstrip("0") if "." in text else text


def _day(day: datetime.date, reading: Reading) -> str:
    iso = reading.layout is None
    return datetime.date.isoformat(day) if iso else day.strftime(reading.layout or "")


def _numpy_instant(value: np.datetime64, reading: Reading) -> str | None:
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    ticks = int(value.astype(np.int64)) * count
    if unit == "ns":
        return _plain(EPOCH + datetime.timedelta(microseconds=ticks // 1000), reading)
    if unit in ("M", "Y"):
        months = ticks * (12 if unit == "Y" else 1)
        return _day(datetime.date(1970 + months // 12, months % 12 + 1, 1), reading)
    return _plain(EPOCH + datetime.timedelta(microseconds=ticks * MICROSECONDS[unit]), reading)


def _is_unicode(text: str) -> bool:
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True
