"""Bounds and steps of numbers and dates: the integers to which values are rounded."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import TypeVar

from dprelease.numerics.rounding import decimal_digits
from dprelease.schema.field_types import refuse
from dprelease.schema.model import Model

STEPS_LIMIT = 2**62

EPOCH = date(1970, 1, 1)

Bound = TypeVar("Bound", Fraction, date)


class Lattice(Model):
    """The integers to which a value is rounded: value = step * k, lower <= k <= upper."""

    lower: int
    upper: int
    step: Fraction


def check_bounds(lower: Bound | None, upper: Bound | None) -> None:
    """Refuse one bound without the other, and a lower bound above the upper bound."""
    if (lower is None) != (upper is None):
        refuse("DP-SCHEMA-012", column="this column")
    if lower is not None and upper is not None and lower > upper:
        refuse("DP-SCHEMA-001")


def check_digits(lattice: Lattice) -> None:
    """Refuse bounds and steps whose totals do not fit into a Parquet decimal.

    A Parquet decimal has 38 digits, of which the number of steps needs 20.
    """
    if not fits_decimal(lattice.step) or max(abs(lattice.lower), abs(lattice.upper)) > STEPS_LIMIT:
        refuse("DP-SCHEMA-010", column="this column")


def fits_decimal(step: Fraction) -> bool:
    """Return whether totals of this step fit into a Parquet decimal."""
    digits = decimal_digits(step)
    return digits is not None and digits <= 38 and step * 10**digits < 10**17


def check_step(lower: Fraction | None, upper: Fraction | None, step: Fraction) -> None:
    """Refuse a step larger than the range of values, because rounding would make all equal."""
    if lower is not None and upper is not None and lower < upper and step > upper - lower:
        refuse("DP-SCHEMA-022", column="this column")


def lattice_of(lower: Fraction, upper: Fraction, step: Fraction) -> Lattice:
    """Return the integers between two bounds in steps, after rounding the bounds outwards."""
    return Lattice(lower=math.floor(lower / step), upper=math.ceil(upper / step), step=step)


def default_step(lower: Fraction, upper: Fraction) -> Fraction:
    """Return the largest power of ten up to (upper - lower) / 2^20."""
    span = max(upper - lower, abs(upper)) / 2**20 or Fraction(1)
    digits = len(str(span.numerator)) - len(str(span.denominator))
    step = Fraction(10) ** digits
    return step if step <= span else step / 10


def number_of_day(day: date) -> int:
    """Return the number of days from 1970-01-01 to a day, as Arrow and engines number days."""
    return (day - EPOCH).days


def day_bounds(lower: date | None, upper: date | None) -> tuple[date, date] | None:
    """Return the days of the bounds of dates or timestamps; None without bounds."""
    if lower is None or upper is None:
        return None
    first, last = (one.date() if isinstance(one, datetime) else one for one in (lower, upper))
    return first, last


def whole_lattice(lower: int, upper: int) -> Lattice:
    """Return all whole numbers within bounds."""
    return Lattice(lower=lower, upper=upper, step=Fraction(1))


def number_of_second(instant: datetime) -> int:
    """Return the number of seconds from 1970-01-01 to an instant without a time zone."""
    return (instant - datetime(EPOCH.year, EPOCH.month, EPOCH.day)) // timedelta(seconds=1)


def is_integer_text_within(text: str, low: int | None, high: int | None) -> bool:
    """Return whether a text is an integer within bounds."""
    if low is None or high is None or re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) is None:
        return False
    return low <= int(text) <= high


def is_day_text_within(text: str, first: date, last: date) -> bool:
    """Return whether a text is an ISO date within bounds."""
    try:
        return len(text) == 10 and first <= date.fromisoformat(text) <= last
    except ValueError:
        return False
