"""Dates plus intervals, and differences of dates, as constants and as numbers of days."""

from __future__ import annotations

import calendar
from datetime import date, datetime, timedelta
from typing import Any

from sqlglot import exp

from dprelease.query.expressions.date_terms import interval_amount
from dprelease.query.sql_rewrites.refusal import refuse
from dprelease.schema.columns import DateColumn, TimestampColumn
from dprelease.schema.table import Table

_DAYS = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SECONDS = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
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
    last = calendar.monthrange(year, month + 1)[1] if 1 <= year <= 9999 else 31
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))
