"""Convert Python objects to the texts of their values; each text depends on its own cell alone.

A column of objects may hold numbers next to texts, and dates next to timestamps. Each cell becomes
the text that its value would have in a column of the value's own type. The text is then read as
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
from dprelease.statements.values.categories import EXACT
from dprelease.statements.values.lossy_types import may_lose_values
from dprelease.statements.values.spelling import UTC, loses_digits, misreads_iso_dates

MOST_INTEGER_BITS = 2**13
"""Maximum bits of an integer that is written out; longer ones count as infinite for all readers."""

MOST_DIGITS = 40
"""Maximum digits, and maximum exponent, of decimals that are written without an exponent."""

MICROSECONDS = {"W": 604_800_000_000, "D": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000}
MICROSECONDS |= {"s": 1_000_000, "ms": 1000, "us": 1}
EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class TextReading:
    """How the texts of a column will be read, which determines how its cells are written as texts.

    `zone`: the local time zone of the column's timestamps. `is_date_or_timestamp`: whether the
    column is declared as dates or timestamps, which are read from texts with or without an offset
    from UTC. `layout`: the declared format of dates, if by that format an ISO 8601 date would be
    read as another date. `drops_numbers`: whether cells that are numbers count as missing, because
    a number has lost the digits of a date as they were written. `drops_inexact_floats`: whether a
    float counts as missing if it may stand for several integers. `decodes_bytes`: whether bytes
    are decoded as UTF-8 texts.
    """

    zone: str = UTC
    is_date_or_timestamp: bool = False
    layout: str | None = None
    drops_numbers: bool = False
    drops_inexact_floats: bool = False
    decodes_bytes: bool = False

    @classmethod
    def of(cls, column: Column, zone: str) -> Self:
        """Return how the texts of a declared column are read."""
        if not isinstance(column, DateColumn | TimestampColumn):
            return cls(zone)
        return cls(zone, True, column.format if misreads_iso_dates(column.format) else None)

    @classmethod
    def of_objects(cls, column: Column, zone: str) -> Self:
        """Return how a column of Python objects is read; libraries may leave its texts as bytes."""
        return replace(cls.of(column, zone), decodes_bytes=True)

    @classmethod
    def of_cells(cls, column: Column, zone: str, *, is_id: bool) -> Self:
        """Return how a column is read whose cells were stored unchanged, each with its own type."""
        plain = cls.of(column, zone)
        if isinstance(column, DateColumn | TimestampColumn):
            return replace(plain, drops_numbers=loses_digits(column.format))
        return replace(plain, drops_inexact_floats=is_id or may_lose_values(column, "DOUBLE"))


AS_TEXT = TextReading()
"""How a column is read that is declared as text."""


def texts_of(cells: Iterable[object], reading: TextReading = AS_TEXT) -> list[str | None]:
    """Return each cell as a text, or None where it has no value; never raises."""
    return [_text(cell, reading) for cell in cells]


def _text(cell: object, reading: TextReading) -> str | None:
    """Return the text of a cell; None if the cell has no text, or if its methods fail."""
    try:
        text = _text_of_value(cell, reading)
        return text if text is None or _is_unicode(text) else None
    except Exception:  # noqa: BLE001 - classes of the caller's own may fail at anything
        return None


def _text_of_value(value: object, reading: TextReading) -> str | None:
    """Return the text of a cell, or None; raises whatever a method of the cell's class raises."""
    if isinstance(value, np.datetime64):
        return _datetime64_text(value, reading)
    if isinstance(value, np.float16 | np.float32):
        value = float(str(value))  # the number that it prints as, not its 64-bit value
    if isinstance(value, np.generic):
        value = _plain_scalar(value)
    if isinstance(value, bytes):
        value = bytes.decode(value, "utf-8") if reading.decodes_bytes else None
    if isinstance(value, str):
        # Here and below, the methods of the built-in class itself are called: those of a class that
        # the caller derived from it could return anything.
        return str.__str__(value)
    # Before the integers, because True is also an instance of `int`.
    if isinstance(value, bool):
        return "true" if value else "false"  # as the engine writes them
    if isinstance(value, int | float | decimal.Decimal):
        return None if reading.drops_numbers else _number_text(value, reading)
    if isinstance(value, datetime.date):
        return _date_or_datetime_text(value, reading)
    return uuid.UUID.__str__(value) if isinstance(value, uuid.UUID) else None


def _plain_scalar(value: np.generic) -> object:
    """Return a NumPy scalar as a Python object; None for a duration, which would be an integer."""
    if isinstance(value, np.floating):
        return float(value)
    return None if isinstance(value, np.timedelta64) else value.item()


def _date_or_datetime_text(value: datetime.date, reading: TextReading) -> str | None:
    """Return the text of a date, or of a date with a time; None for a missing value."""
    if isinstance(value, datetime.datetime):
        return _datetime_text(value, reading)
    return _date_text(value, reading)


def _number_text(value: float | decimal.Decimal, reading: TextReading) -> str | None:
    """Return the text of a number; None if it is missing or too inexact for this column."""
    if isinstance(value, decimal.Decimal):
        return _decimal_text(value)
    if isinstance(value, int):
        return _integer_text(value)
    if reading.drops_inexact_floats and EXACT <= abs(value) < math.inf:
        return None
    return _float_text(value)


def _integer_text(value: int) -> str:
    """Return the digits of an integer; "inf" or "-inf" if it has too many bits."""
    if int.bit_length(value) <= MOST_INTEGER_BITS:
        return int.__repr__(value)
    return "-inf" if int.__lt__(value, 0) else "inf"


def _float_text(value: float) -> str | None:
    """Return the text of a float, without a point if it is whole; None for NaN."""
    if math.isnan(value):
        return None
    # Larger numbers fit no integer type of the engine.
    if abs(value) < 2**127 and float.is_integer(value):
        return int.__repr__(int(value))
    return float.__repr__(value)


def _decimal_text(value: decimal.Decimal) -> str | None:
    """Return the text of a decimal number; None for NaN."""
    if decimal.Decimal.is_nan(value):
        return None
    digits = decimal.Decimal.as_tuple(value)
    if not isinstance(digits.exponent, int):
        return "-inf" if digits.sign else "inf"
    if max(len(digits.digits), abs(digits.exponent)) > MOST_DIGITS:
        return decimal.Decimal.__str__(value)
    text = decimal.Decimal.__format__(value, "f")
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short in ("-0", "") else short


def _datetime_text(value: datetime.datetime, reading: TextReading) -> str | None:
    """Return the text of a date with a time, in local time if it has an offset."""
    if not datetime.MINYEAR <= value.year <= datetime.MAXYEAR:  # pandas' NaT, whose year is NaN
        return None
    offset = value.utcoffset()
    # A pandas Timestamp would write its nanoseconds, too, which columns of timestamps lose.
    plain = datetime.datetime(
        value.year, value.month, value.day, value.hour, value.minute, value.second,
        value.microsecond,
    )  # fmt: skip
    return (
        _timestamp_text(plain, reading) if offset is None else _local_text(plain - offset, reading)
    )


def _local_text(instant: datetime.datetime, reading: TextReading) -> str:
    """Return the text of an instant, which is in UTC, in the local time of the column."""
    if reading.zone == UTC:
        return _timestamp_text(instant, reading)
    # The engine converts this text to local time in the same way as a column of timestamps.
    if reading.is_date_or_timestamp and reading.layout is None:
        return f"{instant.isoformat(sep=' ')}+00:00"
    there = instant.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo(reading.zone))
    return _timestamp_text(there.replace(tzinfo=None), reading)


def _timestamp_text(instant: datetime.datetime, reading: TextReading) -> str:
    """Return the text of a timestamp as the engine writes it; at midnight only the date."""
    if reading.layout is not None:
        return instant.strftime(reading.layout)
    text = instant.isoformat(sep=" ").removesuffix(" 00:00:00")
    return text.rstrip("0") if "." in text else text


def _date_text(day: datetime.date, reading: TextReading) -> str:
    """Return the text of a day, in ISO format or in the declared format."""
    iso = reading.layout is None
    return datetime.date.isoformat(day) if iso else day.strftime(reading.layout or "")


def _datetime64_text(value: np.datetime64, reading: TextReading) -> str | None:
    """Return the text of a numpy date; None for a missing value."""
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    ticks = int(value.astype(np.int64)) * count
    if unit == "ns":
        return _timestamp_text(EPOCH + datetime.timedelta(microseconds=ticks // 1000), reading)
    if unit in ("M", "Y"):
        months = ticks * (12 if unit == "Y" else 1)
        return _date_text(datetime.date(1970 + months // 12, months % 12 + 1, 1), reading)
    return _timestamp_text(
        EPOCH + datetime.timedelta(microseconds=ticks * MICROSECONDS[unit]), reading
    )


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8."""
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True
