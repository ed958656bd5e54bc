"""Dates plus intervals, and differences of dates, as constants and as numbers of days."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

from sqlglot import exp

from dprelease.query.expressions.date_terms import interval_amount
from dprelease.query.expressions.scalar import UNITS_OF_A_DAY
from dprelease.query.sql_rewrites.unanswerable import refuse
from dprelease.schema.columns import DateColumn, TimestampColumn
from dprelease.schema.table import Table

_DAYS = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_PER_DAY = UNITS_OF_A_DAY["SECOND"]
_SECONDS = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
Days = tuple[date, date]
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def shifted_constant(node: exp.Expr) -> exp.Expr:
    """Return the sum or difference of a constant date and an interval, or days, as a constant."""
    left, right = _unwrapped(node.this), _unwrapped(node.expression)
    if isinstance(node, exp.Add) and isinstance(left, exp.Interval):
        left, right = right, left
    if isinstance(left, exp.Add | exp.Sub):
        left = shifted_constant(left)
    moment = _constant(left)
    is_number = isinstance(right, exp.Literal) and right.is_int and len(right.name) < 9
    is_number = is_number and not isinstance(moment, datetime)
    if moment is None or not (is_number or isinstance(right, exp.Interval)):
        return node
    amount, unit = (int(right.name), "DAY") if is_number else _amount(right)
    amount = -amount if isinstance(node, exp.Sub) else amount
    try:
        moved = _moved(moment, amount, unit)
    except (OverflowError, ValueError):
        refuse(node, "the result is no date from year 1 to 9999", "write a constant date")
    is_date = not isinstance(moved, datetime) or moved.time() == datetime.min.time()
    kind = "date" if is_date else "timestamp"
    text = str(moved)[:10] if is_date else str(moved)
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(kind))


def compared_with_interval(node: exp.Expr) -> exp.Expr:
    """Return a - b <= INTERVAL 7 DAY as a <= b + INTERVAL 7 DAY; other comparisons stay.

    Raises
    ------
    QueryError
        DP-SQL-006 for an interval of months, which have no fixed length.
    """
    difference, interval = _unwrapped(node.this), _unwrapped(node.expression)
    if not isinstance(difference, exp.Sub) or not isinstance(interval, exp.Interval):
        return node
    if _amount(interval)[1] in _MONTHS:
        reason = "a difference of times has days and shorter units, and no months"
        refuse(node, reason, "write INTERVAL 30 DAY, or date_diff('month', a, b) <= 3")
    later = exp.Add(this=difference.expression, expression=interval)
    return type(node)(this=difference.this, expression=later)


def difference_of_dates(node: exp.Sub, table: Table) -> exp.Expr:
    """Return the difference of two dates as a number of days; other differences stay.

    Raises QueryError: DP-SQL-006 for a difference of timestamps, which SQL returns as an interval.
    """
    left, right = _unwrapped(node.this), _unwrapped(node.expression)
    sides = [side for side in (left, right) if isinstance(side, exp.Column)]
    if isinstance(right, exp.Interval):
        return node
    if any(isinstance(table.columns.get(one.name), TimestampColumn) for one in sides):
        reason = "a difference of timestamps is an interval, and not a number"
        later, earlier = (side.sql("duckdb")[:30] for side in (left, right))
        fix = f"write date_diff('hour', {earlier}, {later}), or another unit from 'day' to 'second'"
        refuse(node, reason, fix)
    if not (is_date(left, table) and is_date(right, table)):
        return node
    return exp.Paren(this=_difference(left, right))


def shifted_days(node: exp.Expr, range_of: Callable[[exp.Expr], Days | None]) -> Days | None:
    """Return the first and the last day of a sum or difference of a date and an interval.

    `range_of`: a function that returns those of the date. Shorter units than days move the ends to
    whole days, to the outside. None if a day isn't known, or is not in the years 1 to 9999.
    """
    interval = _unwrapped(node.expression)
    found = interval_amount(interval) if isinstance(interval, exp.Interval) else None
    days = None if found is None else range_of(node.this)
    if found is None or days is None or found[1] not in {**_DAYS, **_MONTHS, **_SECONDS}:
        return None
    amount, unit = -found[0] if isinstance(node, exp.Sub) else found[0], found[1]
    amounts = [amount, amount]
    if unit in _SECONDS:
        seconds = amount * _SECONDS[unit]
        amounts, unit = [seconds // _PER_DAY, (seconds + _PER_DAY - 1) // _PER_DAY], "DAY"
    try:
        first, last = (_moved(*one, unit) for one in zip(days, amounts, strict=True))
    except (OverflowError, ValueError):
        return None
    return first, last


def truncated_days(node: exp.Expr, days: Days | None) -> Days | None:
    """Return the first and the last day of date_trunc(unit, d), from those of d."""
    unit = node.args["unit"].name.upper() if node.args.get("unit") is not None else ""
    if days is None or unit == "WEEK":
        return None if days is None else _first_of_weeks(days)
    if unit not in _MONTHS:
        return days
    first, last = (
        date(one.year, (one.month - 1) // _MONTHS[unit] * _MONTHS[unit] + 1, 1) for one in days
    )
    return first, last


def _first_of_weeks(days: Days) -> Days | None:
    """Return the Mondays of the weeks of two days; None if one is before year 1."""
    try:
        first, last = (one - timedelta(days=one.weekday()) for one in days)
    except OverflowError:
        return None
    return first, last


def refuse_interval(node: exp.Interval) -> None:
    """Refuse an interval that is neither added to a time nor compared with a difference."""
    reason = "an interval is added to a date or a time, or compared with a difference of times"
    refuse(node, reason, "write a <= b + INTERVAL 30 DAY")


def is_date(node: exp.Expr, table: Table) -> bool:
    """Return whether an expression is a column of dates, or certainly has a date as its value."""
    if isinstance(node, exp.Column):
        return isinstance(table.columns.get(node.name), DateColumn)
    constant = _constant(node)
    is_constant = constant is not None and not isinstance(constant, datetime)
    is_day = isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE
    return is_constant or is_day or isinstance(node, exp.DateFromParts)


def _difference(left: exp.Expr, right: exp.Expr) -> exp.DateDiff:
    """Return the number of days from the second date to the first."""
    return exp.DateDiff(this=left.copy(), expression=right.copy(), unit=exp.Var(this="DAY"))


def _unwrapped(node: Any) -> Any:
    """Return a node without parentheses."""
    return node.unnest() if isinstance(node, exp.Paren) else node


def _amount(node: exp.Interval) -> tuple[int, str]:
    """Return the whole number and the unit of a constant interval."""
    found = interval_amount(node)
    if found is None or found[1] not in {**_DAYS, **_MONTHS, **_SECONDS}:
        refuse(node, "it is no whole number of a unit", "write INTERVAL 30 DAY")
    return found


def _constant(node: exp.Expr) -> date | datetime | None:
    """Return the date or the time of DATE '...' or TIMESTAMP '...'; None for other expressions."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return None
    try:
        is_day = node.to.this == exp.DataType.Type.DATE
        return (date if is_day else datetime).fromisoformat(node.this.name)
    except ValueError:
        return None


def _moved(moment: date | datetime, amount: int, unit: str) -> date | datetime:
    """Return a moment that is moved by an interval; the last days of months stay in their month."""
    if unit in _SECONDS:
        start = (
            moment
            if isinstance(moment, datetime)
            else datetime.combine(moment, datetime.min.time())
        )
        return start + timedelta(seconds=amount * _SECONDS[unit])
    if unit in _DAYS:
        return moment + timedelta(days=amount * _DAYS[unit])
    year, month = divmod(moment.year * 12 + moment.month - 1 + amount * _MONTHS[unit], 12)
    # For other years, replace() raises the error that callers expect.
    last = calendar.monthrange(year, month + 1)[1] if 1 <= year <= 9999 else 31
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))
