"""Python objects as the texts that are their values: one rule, which looks at the cell alone.

A column of objects holds whatever it holds: numbers beside texts, days beside instants. Each cell
becomes the text that its value is in a column of its own kind, and is read by what is declared.
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
from dprelease.statements.meanings import loses
from dprelease.statements.values.categories import EXACT
from dprelease.statements.values.spelling import UTC, is_other_order, loses_numbers

WIDEST = 2**13
"""Bits of an integer that is written out; what is longer is as good as infinite to all readers."""

LONGEST = 40
"""Digits of a decimal on either side of its point that are written without an exponent."""

MICROSECONDS = {"W": 604_800_000_000, "D": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000}
MICROSECONDS |= {"s": 1_000_000, "ms": 1000, "us": 1}
EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the texts of a column will be read, so that days and instants are written likewise.

    `zone`: where instants are local. `is_timely`: by their texts, days and instants are told, how
    far they are from Greenwich included. `layout`: a format by which texts of ISO 8601 would be
    read as other days. `by_text`: no number says what is asked, for its text has lost it.
    `is_exact`: a float that stands for several whole numbers says none of them. `decodes`: bytes
    are the text that they are in UTF-8.
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
        return cls(zone, True, column.format if is_other_order(column.format) else None)

    @classmethod
    def of_objects(cls, column: Column, zone: str) -> Self:
        """Return the same for Python objects, where libraries leave texts of files as bytes."""
        return replace(cls.of(column, zone), decodes=True)

    @classmethod
    def of_cells(cls, column: Column, zone: str, *, is_id: bool) -> Self:
        """Return the same where each cell was stored as it is, and not for the sake of others."""
        plain = cls.of(column, zone)
        if isinstance(column, DateColumn | TimestampColumn):
            return replace(plain, by_text=loses_numbers(column.format))
        return replace(plain, is_exact=is_id or loses(column, "DOUBLE"))


AS_TEXT = Reading()
"""Of a column that is read as the text it is."""


def texts_of(cells: Iterable[object], reading: Reading = AS_TEXT) -> list[str | None]:
    """Return each cell as a text, or None where it has no value; never raises."""
    return [_text(cell, reading) for cell in cells]


def _text(cell: object, reading: Reading) -> str | None:
    """Return what a cell says; None if it says nothing, or can't be asked."""
    try:
        text = _telling(cell, reading)
        return text if text is None or _is_unicode(text) else None
    except Exception:  # noqa: BLE001 - classes of the caller's own may fail at anything
        return None


def _telling(value: object, reading: Reading) -> str | None:
    if isinstance(value, np.datetime64):
        return _numpy_instant(value, reading)
    if isinstance(value, np.float16 | np.float32):
        value = float(str(value))  # the number that it says, not the one that it is as 64 bits
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
    """Return one of NumPy's scalars as Python's own; None for a duration, an integer there."""
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
    """Return an instant of Greenwich, as one that is local where the column's instants are."""
    if reading.zone == UTC:
        return _plain(instant, reading)
    if reading.is_timely and reading.layout is None:  # the engine turns it as it turns columns
        return f"{instant.isoformat(sep=' ')}+00:00"
    there = instant.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo(reading.zone))
    return _plain(there.replace(tzinfo=None), reading)


def _plain(instant: datetime.datetime, reading: Reading) -> str:
    """Return an instant as the engine writes it; its day alone at midnight."""
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
