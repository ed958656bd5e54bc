"""Dates plus intervals, and differences of dates, as constants and as numbers of days."""

from __future__ import annotations

import calendar
from datetime import date, datetime, timedelta
from typing import Any

from sqlglot import exp

from dprelease.query.sql_rewrites.refusal import refuse
from dprelease.schema.columns import DateColumn, TimestampColumn
from dprelease.schema.table import Table

_DAYS = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SECONDS = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def shifted_constant(node: exp.Expr) -> exp.Expr:
    """Return the sum or difference of a constant date and an interval as a constant."""
    left, right = _unwrapped(node.this), _unwrapped(node.expression)
    if isinstance(node, exp.Add) and isinstance(left, exp.Interval):
        left, right = right, left
    if isinstance(left, exp.Add | exp.Sub):
        left = shifted_constant(left)
    moment = _constant(left)
    if moment is None or not isinstance(right, exp.Interval):
        return node
    amount, unit = _amount(right)
    amount = -amount if isinstance(node, exp.Sub) else amount
    try:
        moved = _moved(moment, amount, unit)
    except (OverflowError, ValueError):
        refuse(node, "the result is no date from year 1 to 9999", "write a constant date")
    is_date = not isinstance(moved, datetime) or moved.time() == datetime.min.time()
    kind = "date" if is_date else "timestamp"
    text = str(moved)[:10] if is_date else str(moved)
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(kind))


def days_compared(node: exp.Expr, table: Table) -> exp.Expr:
    """Return a comparison of dates that are shifted by days as one of a number of days."""
    (left, shift), (right, other) = (_shifted(side) for side in (node.this, node.expression))
    if not (shift or other) or not (is_date(left, table) and is_date(right, table)):
        return node
    days = exp.Literal.number(abs(other - shift))
    return type(node)(
        this=_difference(left, right),
        expression=exp.Neg(this=days) if other < shift else days,
    )


def between_as_comparisons(node: exp.Between) -> exp.Expr:
    """Return BETWEEN as two comparisons."""
    low = exp.GTE(this=node.this, expression=node.args["low"])
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"])
    return exp.Paren(this=exp.And(this=low, expression=high))


def difference_of_dates(node: exp.Sub, table: Table) -> exp.Expr:
    """Return the difference of two dates as a number of days; other differences stay.

    Raises QueryError: DP-SQL-006 for a difference of timestamps, which SQL returns as an interval.
    """
    left, right = _unwrapped(node.this), _unwrapped(node.expression)
    sides = [side for side in (left, right) if isinstance(side, exp.Column)]
    if any(isinstance(table.columns.get(one.name), TimestampColumn) for one in sides):
        reason = "a difference of timestamps is an interval, and not a number"
        later, earlier = (side.sql("duckdb")[:30] for side in (left, right))
        fix = f"write date_diff('hour', {earlier}, {later}), or another unit from 'day' to 'second'"
        refuse(node, reason, fix)
    if not (is_date(left, table) and is_date(right, table)):
        return node
    return exp.Paren(this=_difference(left, right))


def refuse_interval(node: exp.Interval) -> None:
    """Refuse an interval that remains: it would be added to the value of a row, or compared."""
    reason = "values of rows are shifted by days and weeks only, and only in comparisons of dates"
    fix = "write a <= b + INTERVAL 30 DAY for dates, or date_diff('month', a, b) <= 3"
    refuse(node, reason, fix)


def is_date(node: exp.Expr, table: Table) -> bool:
    """Return whether an expression is a column of dates, or certainly has a date as its value."""
    if isinstance(node, exp.Column):
        return isinstance(table.columns.get(node.name), DateColumn)
    constant = _constant(node)
    is_constant = constant is not None and not isinstance(constant, datetime)
    return is_constant or isinstance(node, exp.DateFromParts)


def _difference(left: exp.Expr, right: exp.Expr) -> exp.DateDiff:
    """Return the number of days from the second date to the first."""
    return exp.DateDiff(this=left.copy(), expression=right.copy(), unit=exp.Var(this="DAY"))


def _unwrapped(node: Any) -> Any:
    """Return a node without parentheses."""
    return node.unnest() if isinstance(node, exp.Paren) else node


def _shifted(node: exp.Expr) -> tuple[exp.Expr, int]:
    """Return an expression without added intervals of days, and the number of these days."""
    node, days = _unwrapped(node), 0
    while isinstance(node, exp.Add | exp.Sub):
        interval = _unwrapped(node.expression)
        unit = _amount(interval) if isinstance(interval, exp.Interval) else (0, "")
        if unit[1] not in _DAYS:
            break
        days += (-1 if isinstance(node, exp.Sub) else 1) * unit[0] * _DAYS[unit[1]]
        node = _unwrapped(node.this)
    return node, days


def _amount(node: exp.Interval) -> tuple[int, str]:
    """Return the whole number and the unit of a constant interval."""
    unit = node.args["unit"].name.upper().removesuffix("S") if node.args.get("unit") else ""
    value = _unwrapped(node.this)
    sign = -1 if isinstance(value, exp.Neg) else 1
    text = (value.this if isinstance(value, exp.Neg) else value).name if value is not None else ""
    if unit not in {**_DAYS, **_MONTHS, **_SECONDS} or not text.isdecimal() or len(text) > 9:
        refuse(node, "it is no whole number of a unit", "write INTERVAL 30 DAY")
    return sign * int(text), unit


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
