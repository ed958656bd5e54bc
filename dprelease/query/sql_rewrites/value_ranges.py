"""Bounds of the values of expressions, by interval arithmetic over the declared bounds of columns.

All bounds are exact rationals. A bound that is None is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dprelease.numerics.rounding import decimal_digits, exact, plain_text
from dprelease.query.expressions.nodes import decimals_of, strip_date_cast
from dprelease.query.expressions.scalar import UNITS_OF_A_DAY
from dprelease.query.sql_rewrites import bounds
from dprelease.query.sql_rewrites.bounds import UNBOUNDED, ValueRange
from dprelease.query.sql_rewrites.date_shifts import shifted_days, truncated_days
from dprelease.query.sql_rewrites.unanswerable import clamp_advice, refuse
from dprelease.schema.columns import (
    Column,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TimestampColumn,
)
from dprelease.schema.number_bounds import day_bounds, default_step

SECONDS_OF_A_DAY = UNITS_OF_A_DAY["SECOND"]
_CALENDAR: dict[type, tuple[int, int]] = {
    exp.Month: (1, 12),
    exp.Quarter: (1, 4),
    exp.Day: (1, 31),
    exp.DayOfWeekIso: (1, 7),
    exp.DayOfYear: (1, 366),
    exp.Hour: (0, 23),
    exp.Minute: (0, 59),
    exp.Second: (0, 59),
    exp.Week: (1, 53),
    exp.WeekOfYear: (1, 53),
}


def column_declaration(node: exp.Expr, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return the type, bounds and step of a computed column with the values of an expression.

    Raises QueryError: DP-SQL-006 if the expression has no finite bounds.
    """
    found = bounded_range(node, columns)
    lower, upper = found.lower or Fraction(0), found.upper or Fraction(0)
    if found.is_whole:
        return {"type": "integer", "lower": str(math.ceil(lower)), "upper": str(math.floor(upper))}
    step = default_step(lower, upper)
    grid = found.grid
    if grid and decimal_digits(grid) is not None and step <= grid <= upper - lower:
        step = grid
    ends = math.floor(lower / step) * step, math.ceil(upper / step) * step
    low, high = (plain_text(end) for end in ends)
    return {"type": "number", "lower": low, "upper": high, "step": plain_text(step)}


def date_declaration(node: exp.Expr, columns: Mapping[str, Column]) -> dict[str, Any] | None:
    """Return the type and bounds of a computed column of dates; None if it has no bounds."""
    days = date_range(node, columns)
    if days is None:
        return None
    return {"type": "date", "lower": str(days[0]), "upper": str(days[1])}


def instant_declaration(node: exp.Expr, columns: Mapping[str, Column]) -> dict[str, Any] | None:
    """Return the type and bounds of a column of timestamps; None if it has no bounds."""
    column = columns.get(node.name) if isinstance(node, exp.Column) else None
    if not isinstance(column, TimestampColumn) or column.lower is None or column.upper is None:
        return None
    return {"type": "timestamp", "lower": str(column.lower), "upper": str(column.upper)}


def bounded_range(node: exp.Expr, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of an expression, or refuse an expression without finite bounds."""
    found = value_range(node, columns)
    if found.lower is None or found.upper is None:
        part, reason = _unbounded_part(node, columns)
        refuse(part, reason, f"{clamp_advice(part)}declare the bounds of columns")
    return found


def _unbounded_part(node: exp.Expr, columns: Mapping[str, Column]) -> tuple[exp.Expr, str]:
    """Return the innermost part of an expression without bounds, and why it has none."""
    for part in node.walk():
        if isinstance(part, exp.Div | exp.Mod):
            divisor = value_range(part.expression, columns)
            if bounds.contains_zero(divisor):
                ends = [bounds.end_text(end) for end in (divisor.lower, divisor.upper)]
                reason = f"its divisor is from {ends[0]} to {ends[1]}, so it can be near 0"
                return part, reason
    for part in node.find_all(exp.Ln, exp.Log, exp.Sqrt):
        inner = value_range(part.this, columns)
        if inner.is_bounded and value_range(part, columns) == UNBOUNDED:
            ends = [bounds.end_text(end) for end in (inner.lower, inner.upper)]
            reason = f"its argument is from {ends[0]} to {ends[1]}, where it has no bounds"
            return part, reason
    for part in node.find_all(exp.Column):
        column = columns.get(part.name)
        if column is not None and getattr(column, "lower", 0) is None:
            return node, f"the column '{part.name}' has no declared bounds"
    return node, "the bounds of its values aren't known"


def value_range(node: exp.Expr, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of the values of a numeric expression; unbounded if it isn't known."""
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, columns)
    if type(node) in _CALENDAR:
        low, high = _CALENDAR[type(node)]
        return ValueRange(Fraction(low), Fraction(high), Fraction(1), Fraction(1))
    if isinstance(node, exp.Length):
        return ValueRange(Fraction(0), None, Fraction(1), Fraction(1))
    return UNBOUNDED


def _inner(node: exp.Expr, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of the argument of a node."""
    return value_range(node.this, columns)


def _column(node: exp.Column, columns: Mapping[str, Column]) -> ValueRange:
    """Return the declared bounds of a column."""
    column = columns.get(node.name)
    if isinstance(column, IntegerColumn):
        low, high = (None if end is None else Fraction(end) for end in (column.lower, column.upper))
        return ValueRange(low, high, Fraction(1), Fraction(column.step))
    if isinstance(column, NumberColumn):
        return ValueRange(column.lower, column.upper, None, column.step)
    return UNBOUNDED


def _literal(node: exp.Literal, _columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of a constant."""
    try:
        value = exact(node.name) if not node.is_string else None
    except ValueError:
        value = None
    if value is None:
        return UNBOUNDED
    return ValueRange(value, value, abs(value), abs(value), missing=False)


def _negative(node: exp.Neg, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of -x."""
    found = _inner(node, columns)
    return replace(found, lower=bounds.minus(found.upper), upper=bounds.minus(found.lower))


def _sum(node: exp.Expr, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of x + y or x - y."""
    left, right = _inner(node, columns), value_range(node.expression, columns)
    if isinstance(node, exp.Sub):
        right = replace(right, lower=bounds.minus(right.upper), upper=bounds.minus(right.lower))
    lower, upper = bounds.plus(left.lower, right.lower), bounds.plus(left.upper, right.upper)
    found = ValueRange(lower, upper, missing=left.missing or right.missing)
    return bounds.with_steps(found, left, right)


def _product(node: exp.Mul, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of x * y; a square is not negative."""
    left, right = _inner(node, columns), value_range(node.expression, columns)
    missing = left.missing or right.missing
    ends = bounds.corners(left, right)
    if ends is None:
        return ValueRange(missing=missing)
    lower = max(min(ends), Fraction(0)) if node.this == node.expression else min(ends)
    step = None if left.step is None or right.step is None else left.step * right.step
    grid = None if left.grid is None or right.grid is None else left.grid * right.grid
    return ValueRange(lower, max(ends), step, grid, missing)


def _quotient(node: exp.Div, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of x / y, which is unbounded if y can be 0."""
    left, right = _inner(node, columns), value_range(node.expression, columns)
    if right.lower is None or right.upper is None or bounds.contains_zero(right):
        return UNBOUNDED
    inverse = ValueRange(1 / right.upper, 1 / right.lower)
    ends = bounds.corners(left, inverse)
    if ends is None:
        return UNBOUNDED
    by = right.constant
    step = None if by is None or left.step is None else left.step / abs(by)
    grid = None if by is None or left.grid is None else left.grid / abs(by)
    return ValueRange(min(ends), max(ends), step, grid, left.missing or right.missing)


def _remainder(node: exp.Mod, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of x % y for a constant y; the remainder has the sign of x."""
    left, right = _inner(node, columns), value_range(node.expression, columns)
    by = right.constant
    if not by:
        return UNBOUNDED
    step = bounds.common_step([left.step, right.step])
    # A remainder is less than the divisor, so by at least one step.
    most = abs(by) - (step or 0)
    lower = -most if left.lower is None else max(min(left.lower, Fraction(0)), -most)
    upper = most if left.upper is None else min(max(left.upper, Fraction(0)), most)
    return ValueRange(lower, upper, step, step, left.missing)


def _absolute(node: exp.Abs, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of |x|."""
    found = _inner(node, columns)
    if found.lower is None or found.upper is None:
        return replace(found, lower=Fraction(0), upper=None)
    ends = abs(found.lower), abs(found.upper)
    lower = Fraction(0) if bounds.contains_zero(found) else min(ends)
    return replace(found, lower=lower, upper=max(ends))


def _rounded(node: exp.Expr, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of floor(x), ceil(x) or round(x)."""
    found, one = _inner(node, columns), Fraction(1)
    # ROUND goes to one of both neighbours, so the lower one and the upper one bound it.
    low = None if found.lower is None else Fraction(math.floor(found.lower))
    high = None if found.upper is None else Fraction(math.ceil(found.upper))
    if isinstance(node, exp.Floor) and found.upper is not None:
        high = Fraction(math.floor(found.upper))
    if isinstance(node, exp.Ceil) and found.lower is not None:
        low = Fraction(math.ceil(found.lower))
    return ValueRange(low, high, one, one, found.missing)


def _monotone(node: exp.Expr, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of sqrt(x), ln(x) or log(x); a value is missing where it is not defined.

    The bounds are rounded to the outside. The results of floats differ by less than the slack.
    """
    function, first = _MONOTONE[type(node)]
    found = _inner(node, columns)
    lower, upper = found.lower, found.upper
    if lower is None or upper is None or not (first <= lower and 0 < upper < 10**300):
        return UNBOUNDED
    digits = 10**6
    low, high = (Fraction(function(float(end))) * digits for end in (lower, upper))
    return ValueRange(Fraction(math.floor(low) - 1, digits), Fraction(math.ceil(high) + 1, digits))


_MONOTONE: dict[type, tuple[Callable[[float], float], Fraction]] = {
    exp.Sqrt: (math.sqrt, Fraction(0)),
    exp.Ln: (math.log, Fraction(1, 10**6)),
    exp.Log: (math.log10, Fraction(1, 10**6)),
}
"""The functions, and the least argument with which their values have bounds."""


def _rounded_to(node: exp.Round, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of round(x, decimals)."""
    decimals = decimals_of(node)
    if not decimals:
        return _rounded(node, columns) if decimals == 0 else UNBOUNDED
    found, step = _inner(node, columns), Fraction(10) ** -decimals
    low = None if found.lower is None else math.floor(found.lower / step) * step
    high = None if found.upper is None else math.ceil(found.upper / step) * step
    return ValueRange(low, high, step, step, found.missing)


def _results(nodes: Iterable[exp.Expr | None], columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of a value that is one of several results; NULL has no range."""
    results = list(nodes)
    parts = [
        value_range(node, columns)
        for node in results
        if node is not None and not isinstance(node, exp.Null)
    ]
    if not parts:
        return UNBOUNDED
    missing = len(parts) < len(results) or any(part.missing for part in parts)
    return bounds.hull(parts, missing=missing)


def _case(node: exp.Case, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of the results of a CASE."""
    branches = [branch.args["true"] for branch in node.args["ifs"]]
    return _results([*branches, node.args.get("default")], columns)


def _if(node: exp.If, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of if(condition, a, b)."""
    return _results([node.args["true"], node.args.get("false")], columns)


def _coalesce(node: exp.Coalesce, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of coalesce(a, b)."""
    parts = [value_range(part, columns) for part in (node.this, *node.expressions)]
    return bounds.hull(parts, missing=all(part.missing for part in parts))


def _nullif(node: exp.Nullif, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of nullif(a, b): that of a."""
    return replace(_inner(node, columns), missing=True)


def _extreme(node: exp.Expr, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of greatest(...) or least(...), which skip missing values.

    The result is no more than any argument of `least` that is never missing, such as a constant.
    """
    parts = [value_range(part, columns) for part in (node.this, *node.expressions)]
    found = bounds.hull(parts, missing=all(part.missing for part in parts))
    always = [part for part in parts if not part.missing]
    if isinstance(node, exp.Least):
        tops = [part.upper for part in (*always, found) if part.upper is not None]
        return replace(found, upper=min(tops, default=None))
    bottoms = [part.lower for part in (*always, found) if part.lower is not None]
    return replace(found, lower=max(bottoms, default=None))


def date_range(node: Any, columns: Mapping[str, Column]) -> tuple[date, date] | None:
    """Return the first and the last day of an expression of dates; None if there is no limit."""
    node = strip_date_cast(node).unnest()
    column = columns.get(node.name) if isinstance(node, exp.Column) else None
    if isinstance(column, DateColumn | TimestampColumn):
        return day_bounds(column.lower, column.upper)
    if isinstance(node, exp.DateFromParts):
        years = value_range(node.args["year"], columns)
        ends = years.lower, years.upper
        if ends[0] is None or ends[1] is None or not 1 <= ends[0] <= ends[1] <= 9999:
            return None
        return date(int(ends[0]), 1, 1), date(int(ends[1]), 12, 31)
    inner = node.this if isinstance(node, exp.Cast) else node
    if isinstance(inner, exp.Literal) and inner.is_string:
        try:
            day = datetime.fromisoformat(inner.name).date()
        except ValueError:
            return None
        return day, day
    if isinstance(node, exp.Case):
        return _days_of_branches(node, columns)
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return truncated_days(node, date_range(node.this, columns))
    if isinstance(node, exp.Add | exp.Sub):
        return shifted_days(node, lambda one: date_range(one, columns))
    return date_range(inner, columns) if isinstance(node, exp.Cast) else None


def _days_of_branches(node: exp.Case, columns: Mapping[str, Column]) -> tuple[date, date] | None:
    """Return the first and the last day of a CASE; None if a branch has no limit."""
    branches = [part.args["true"] for part in node.args["ifs"]]
    branches += [node.args["default"]] if node.args.get("default") is not None else []
    found = [date_range(one, columns) for one in branches if not isinstance(one, exp.Null)]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    return min(first for first, _ in known), max(last for _, last in known)


def _year(node: exp.Year, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of year(d)."""
    one, days = Fraction(1), date_range(node.this, columns)
    if days is None:
        return ValueRange(step=one, grid=one)
    return ValueRange(Fraction(days[0].year), Fraction(days[1].year), one, one)


def _days_between(node: exp.DateDiff, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of date_diff('day', first, last), or of that in shorter units."""
    one = Fraction(1)
    last = date_range(node.this, columns)
    first = date_range(node.expression, columns)
    per_day = UNITS_OF_A_DAY.get(node.args["unit"].name.upper()) if node.args.get("unit") else None
    if last is None or first is None or per_day is None:
        return ValueRange(step=one, grid=one)
    within = per_day - 1  # an instant is at most this many units after the first one of its day
    low = (last[0] - first[1]).days * per_day - within
    high = (last[1] - first[0]).days * per_day + within
    return ValueRange(Fraction(low), Fraction(high), one, one)


def _seconds(node: exp.TimeToUnix, columns: Mapping[str, Column]) -> ValueRange:
    """Return the range of epoch(t), the seconds since 1970."""
    days = date_range(node.this, columns)
    if days is None:
        return UNBOUNDED
    low, high = ((day - date(1970, 1, 1)).days * SECONDS_OF_A_DAY for day in days)
    return ValueRange(Fraction(low), Fraction(high + SECONDS_OF_A_DAY), grid=Fraction(1))


_RULES: dict[type, Callable[[Any, Mapping[str, Column]], ValueRange]] = {
    exp.Paren: _inner, exp.Column: _column, exp.Literal: _literal, exp.Neg: _negative,
    exp.Add: _sum, exp.Sub: _sum, exp.Mul: _product, exp.Div: _quotient, exp.Mod: _remainder,
    exp.Abs: _absolute, exp.Floor: _rounded, exp.Ceil: _rounded, exp.Round: _rounded_to,
    exp.Case: _case, exp.If: _if, exp.Coalesce: _coalesce, exp.Nullif: _nullif,
    exp.Least: _extreme, exp.Greatest: _extreme, exp.Year: _year, exp.DateDiff: _days_between,
    exp.TimeToUnix: _seconds, exp.Sqrt: _monotone, exp.Ln: _monotone, exp.Log: _monotone,
}  # fmt: skip
