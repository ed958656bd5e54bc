"""Other spellings of expressions over one row, as the expressions that computed columns have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from dprelease.query.expressions.date_terms import interval_amount
from dprelease.query.expressions.nodes import strip_date_cast
from dprelease.query.expressions.refusals import refusal_error
from dprelease.query.expressions.replacements import (
    FUNCTIONS,
    cast_advice,
    example_condition,
)
from dprelease.query.expressions.scalar import TIME_KINDS, UNITS_OF_A_DAY, Kind
from dprelease.query.expressions.term_checker import TermChecker
from dprelease.query.sql_rewrites.date_shifts import (
    COMPARISONS,
    compared_with_interval,
    difference_of_dates,
    refuse_interval,
    shifted_constant,
)
from dprelease.query.sql_rewrites.unanswerable import PLACE, quoted, refuse
from dprelease.query.sql_rewrites.value_ranges import value_range
from dprelease.schema.table import Table

_PARTS: dict[str, type[exp.Expr]] = {
    "YEAR": exp.Year, "QUARTER": exp.Quarter, "MONTH": exp.Month, "DAY": exp.Day,
    "ISODOW": exp.DayOfWeekIso, "DOY": exp.DayOfYear, "HOUR": exp.Hour, "MINUTE": exp.Minute,
    "DAYOFWEEK": exp.DayOfWeek, "DOW": exp.DayOfWeek, "DAYOFYEAR": exp.DayOfYear,
    "WEEK": exp.WeekOfYear, "SECOND": exp.Second,
}  # fmt: skip
"""The functions of the parts of a date that EXTRACT and date_part name."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_FLOATS = {"DOUBLE", "FLOAT", "DECIMAL"}
_INTEGERS = {"INT", "BIGINT", "SMALLINT", "TINYINT", "UINT", "UBIGINT", "USMALLINT", "UTINYINT"}
HIGHEST_POWER = 8


def row_form(node: exp.Expr, table: Table) -> exp.Expr:
    """Return an expression over one row in the spelling of computed columns.

    Raises QueryError: DP-SQL-006 or DP-WHERE-004 to 010 for a part without such a spelling.
    """
    return node.copy().transform(_RowForms(table).form)


def date_part(node: exp.Expr) -> exp.Expr:
    """Return the function of EXTRACT(part FROM d) and date_part('part', d); other nodes stay."""
    if isinstance(node, exp.Extract):
        name, day = node.this.name, node.expression
    elif isinstance(node, exp.Anonymous) and len(node.expressions) == 2:
        is_part = str(node.this).lower() in ("date_part", "datepart")
        name, day = node.expressions[0].name if is_part else "", node.expressions[1]
    else:
        return node
    function = _PARTS.get(name.upper())
    return node if function is None else function(this=day.copy())


def kind_of(node: Any, table: Table) -> Kind:
    """Return the kind of the values of an expression, or refuse what no computed column has."""
    return TermChecker(table, PLACE).term(node, 0).kind


def number(value: int) -> exp.Expr:
    """Return the node of an integer constant."""
    return exp.Literal.number(value)


def case_of(*arms: tuple[exp.Expr, exp.Expr]) -> exp.Case:
    """Return a CASE with these conditions and results, and without ELSE."""
    return exp.Case(ifs=[exp.If(this=condition, true=result) for condition, result in arms])


class _RowForms:
    """Replaces each node that computed columns don't have by one that they have."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rules: dict[type, Callable[[Any], exp.Expr]] = {
            exp.Extract: self._part, exp.Anonymous: self._named,
            exp.DayOfWeek: self._day_of_week, exp.Dayname: self._day_name,
            exp.Monthname: self._month_name, exp.IntDiv: self._whole_quotient,
            exp.Case: self._searched, exp.Cast: self._cast, exp.TryCast: self._cast,
            exp.Sign: self._sign, exp.Trunc: self._truncated, exp.Pow: self._power,
            exp.DateDiff: self._difference, exp.CurrentDate: self._clock,
            exp.CurrentTimestamp: self._clock, exp.Interval: self._interval,
            exp.Add: shifted_constant, exp.Sub: self._minus, exp.DateBin: self._bin,
            **dict.fromkeys((exp.DPipe, exp.Concat, exp.ConcatWs), self._joined_texts),
            exp.Log: self._logarithm,
            **dict.fromkeys((exp.Like, exp.ILike), self._any_pattern),
            **dict.fromkeys((exp.DateAdd, exp.DateSub), self._moved),
            exp.Date: self._day, exp.AtTimeZone: self._refused,
            **dict.fromkeys(COMPARISONS, compared_with_interval),
        }  # fmt: skip

    def form(self, node: exp.Expr) -> exp.Expr:
        """Return the replacement of a node, or the node itself."""
        rule = self.rules.get(type(node))
        return node if rule is None else rule(node)

    def _inner(self, node: exp.Expr) -> exp.Expr:
        """Return the row form of a part of a node that is about to be replaced."""
        return row_form(node, self.table)

    def _named(self, node: exp.Anonymous) -> exp.Expr:
        """Return date_part('month', d) and weekday(d) as functions; other names stay."""
        name, arguments = str(node.this).lower(), node.expressions
        if name in ("date_part", "datepart"):
            return self._part(node)
        if name == "weekday" and len(arguments) == 1:
            return self._day_of_week(exp.DayOfWeek(this=arguments[0]))
        return node

    def _part(self, node: exp.Expr) -> exp.Expr:
        """Return the function of a part of a date."""
        function = date_part(node)
        if isinstance(node, exp.Extract) and node.this.name.upper() == "EPOCH":
            return self._inner(_seconds(node.expression))
        if function is node:
            is_extract = isinstance(node, exp.Extract)
            name, moment = (node.this, node.expression) if is_extract else node.expressions[:2]
            write = FUNCTIONS.get(name.name.lower())
            fix = "use one of year, quarter, month, week, day, doy, dow, isodow, hour, minute, "
            fix += "second, epoch"
            if write is not None:
                fix = f"write {write.format(x=moment.sql('duckdb'))}"
            refuse(node, "it is none of the parts of dates that rows have", fix)
        return self.form(self._inner(function))

    def _day_of_week(self, node: exp.DayOfWeek) -> exp.Expr:
        """Return the day of the week from Sunday (0) on."""
        day = exp.DayOfWeekIso(this=self._inner(strip_date_cast(node.this)))
        return exp.Paren(this=exp.Mod(this=day, expression=number(7)))

    def _day_name(self, node: exp.Dayname) -> exp.Expr:
        return self._name(exp.DayOfWeekIso(this=self._inner(strip_date_cast(node.this))), _DAYS)

    def _month_name(self, node: exp.Monthname) -> exp.Expr:
        return self._name(exp.Month(this=self._inner(strip_date_cast(node.this))), _MONTHS)

    def _name(self, value: exp.Expr, names: tuple[str, ...]) -> exp.Expr:
        """Return a CASE that names the values from 1 on."""
        return case_of(
            *(
                (exp.EQ(this=value.copy(), expression=number(i)), exp.Literal.string(name))
                for i, name in enumerate(names, 1)
            )
        )

    def _whole_quotient(self, node: exp.IntDiv) -> exp.Expr:
        """Return x // y: without its fraction for integers, and x / y for other numbers."""
        left, right = (self._inner(side) for side in (node.this, node.expression))
        quotient = exp.Div(this=_in_parentheses(left), expression=_in_parentheses(right))
        ranges = [value_range(side, self.table.columns) for side in (left, right)]
        if not all(one.is_whole for one in ranges):
            return exp.Paren(this=quotient)
        lows = [one.lower for one in ranges]
        if all(low is not None and low >= 0 for low in lows):
            # Not below 0, FLOOR cuts off the fraction, as // does.
            return exp.Floor(this=quotient)
        return _without_fraction(quotient)

    def _truncated(self, node: exp.Trunc) -> exp.Expr:
        """Return trunc(x) by floor and ceil."""
        if node.args.get("decimals") is not None:
            refuse(node, "rows are truncated to integers only", "use TRUNC(x) or FLOOR(x)")
        inner = self._inner(node.this)
        low = value_range(inner, self.table.columns).lower
        is_floor = low is not None and low >= 0
        return exp.Floor(this=inner) if is_floor else _without_fraction(inner)

    def _sign(self, node: exp.Sign) -> exp.Expr:
        value = self._inner(node.this)
        arms = (exp.GT, number(1)), (exp.LT, exp.Neg(this=number(1))), (exp.EQ, number(0))
        return case_of(
            *((how(this=value.copy(), expression=number(0)), result) for how, result in arms)
        )

    def _power(self, node: exp.Pow) -> exp.Expr:
        """Return a power with a small exponent as a product."""
        exponent = node.expression
        text = exponent.name if isinstance(exponent, exp.Literal) else ""
        if not re.fullmatch("[1-9]", text) or int(text) > HIGHEST_POWER:
            reason = f"rows have powers from 1 to {HIGHEST_POWER} only"
            refuse(node, reason, "write a whole exponent, as in POWER(x, 2)")
        found = factor = _in_parentheses(self._inner(node.this))
        for _ in range(int(text) - 1):
            found = exp.Mul(this=found, expression=factor.copy())
        return exp.Paren(this=found)

    def _searched(self, node: exp.Case) -> exp.Expr:
        """Return CASE x WHEN 1 THEN ... as CASE WHEN x = 1 THEN ..."""
        if node.this is None:
            return node
        value = node.this
        for branch in node.args["ifs"]:
            sides = (exp.Paren(this=side) for side in (value.copy(), branch.this))
            branch.set("this", exp.EQ(this=next(sides), expression=next(sides)))
        node.set("this", None)
        return node

    def _cast(self, node: exp.Cast) -> exp.Expr:
        """Return a cast of a truth value or a number to a number, or of a date to a date."""
        if isinstance(node.this, exp.Literal) and node.this.is_string:
            if node.to.expressions:
                refuse(node, "the precision of a time is not read", "leave out the precision")
            return exp.Cast(this=node.this, to=node.to)  # a date, which TermChecker reads
        target = node.to.this.value if node.to.this else ""
        inner = self._inner(node.this)
        kind = kind_of(inner, self.table)
        if kind is Kind.BOOLEAN and target in _FLOATS | _INTEGERS:
            arms = (inner, number(1)), (exp.Not(this=exp.Paren(this=inner.copy())), number(0))
            return case_of(*arms)
        if kind is Kind.NUMBER and target in _FLOATS and not node.to.expressions:
            return exp.Paren(this=inner)
        if kind is Kind.NUMBER and target in _INTEGERS:
            whole = value_range(inner, self.table.columns).is_whole
            return exp.Paren(this=inner) if whole else _rounded_to_even(inner)
        if (kind, target) == (Kind.TIMESTAMP, "DATE"):
            return exp.Cast(this=inner, to=node.to)
        if (kind, TIME_KINDS.get(target)) == (Kind.DATE, Kind.TIMESTAMP):
            return exp.Cast(this=inner, to=exp.DataType.build("timestamp"))
        same = (Kind.TEXT, "TEXT"), (Kind.TEXT, "VARCHAR"), (Kind.BOOLEAN, "BOOLEAN")
        if (kind, target) in same or kind is TIME_KINDS.get(target):
            return exp.Paren(this=inner)
        refuse(node, *cast_advice(node, kind))

    def _difference(self, node: exp.DateDiff) -> exp.Expr:
        """Return date_diff in years to weeks by parts of the dates; shorter units stay."""
        unit = node.args["unit"].name.upper() if node.args.get("unit") is not None else ""
        unit = unit.removesuffix("S")
        per_year = {"YEAR": 1, "QUARTER": 4, "MONTH": 12}.get(unit)
        if unit == "WEEK":
            days = exp.DateDiff(
                this=node.this, expression=node.expression, unit=exp.Var(this="DAY")
            )
            weeks = exp.Div(this=self._inner(days), expression=number(7))
            return exp.Paren(this=_without_fraction(weeks))
        if per_year is None:
            if unit not in UNITS_OF_A_DAY:
                fix = "use 'year', 'quarter', 'month', 'week', 'day', 'hour', 'minute' or 'second'"
                refuse(node, "it counts none of the units that rows have", fix)
            node.set("unit", exp.Var(this=unit))
            return node
        last, first = (
            months(self._inner(strip_date_cast(side)), unit, per_year)
            for side in (node.this, node.expression)
        )
        return exp.Paren(this=exp.Sub(this=last, expression=first))

    def _clock(self, node: exp.Expr) -> exp.Expr:
        """Refuse the clock and random numbers."""
        reason = "the same statement would have another result at another time"
        refuse(node, reason, "write a constant, as in d >= DATE '2024-01-01'")

    def _interval(self, node: exp.Interval) -> exp.Expr:
        """Refuse the intervals that are not added to a time."""
        above = node.parent
        while isinstance(above, exp.Paren):
            above = above.parent
        if not isinstance(above, exp.Add | exp.Sub):
            refuse_interval(node)
        return node

    def _minus(self, node: exp.Sub) -> exp.Expr:
        """Return the difference of dates in days, and that of a constant and an interval.

        x - x % 10 is (x // 10) * 10, of which only the multiples of 10 are values.
        """
        rest = node.expression.unnest()
        if isinstance(rest, exp.Mod) and rest.this.unnest() == node.this.unnest():
            value, step = rest.this, rest.expression
            is_whole = value_range(self._inner(value), self.table.columns).is_whole
            if is_whole and isinstance(step, exp.Literal) and step.name.isdecimal():
                quotient = exp.IntDiv(this=value, expression=step)
                return self._inner(exp.Mul(this=quotient, expression=step.copy()))
        found = shifted_constant(node)
        return difference_of_dates(node, self.table) if found is node else found

    def _day(self, node: exp.Date) -> exp.Expr:
        """Return date(t) as a cast."""
        return self._cast(exp.Cast(this=node.this, to=exp.DataType.build("date")))

    def _moved(self, node: exp.Expr) -> exp.Expr:
        """Return date_add(t, INTERVAL 3 DAY) as a sum."""
        kind = exp.Add if isinstance(node, exp.DateAdd) else exp.Sub
        return self._inner(kind(this=node.this, expression=node.expression))

    def _refused(self, node: Any) -> exp.Expr:
        """Refuse syntax whose words are not read."""
        raise refusal_error(node, PLACE, self.table.columns)

    def _any_pattern(self, node: exp.Expr) -> exp.Expr:
        """Return x LIKE ANY ('a%', 'b%') as x LIKE 'a%' OR x LIKE 'b%'; other patterns stay."""
        found, kind = node.expression, type(node)
        patterns = found.this.unnest() if isinstance(found, exp.Any) else None
        if node.args.get("negate") or not isinstance(patterns, exp.Tuple):
            return node
        each = (kind(this=self._inner(node.this), expression=one) for one in patterns.expressions)
        return exp.Paren(this=exp.or_(*each, copy=False))

    def _joined_texts(self, node: exp.Expr) -> exp.Expr:
        """Refuse joined texts, which can be written after the noise."""
        parts = [part for part in _joined_parts(node) if not isinstance(part, exp.Literal)]
        keys = ", ".join(quoted(part) for part in parts)
        fix = "GROUP BY the parts, and join them in the SELECT list, as in SELECT "
        fix += f"{quoted(node)}, COUNT(*) ... GROUP BY {keys}"
        if node.parent is not None:  # a condition
            conditions = (example_condition(part, self.table.columns) for part in parts)
            fix = f"write conditions on the parts, as in {' AND '.join(conditions)}"
        refuse(node, "texts are joined after the noise only", fix)

    def _logarithm(self, node: exp.Log) -> exp.Expr:
        """Return the logarithm to the base 10, 2 or another constant by log(x) or ln(x)."""
        base = node.this if node.expression is not None else number(10)
        if node.expression is None or base == number(10):
            return exp.Log(this=self._inner(node.expression or node.this))
        logs = [exp.Ln(this=self._inner(one)) for one in (node.expression, base)]
        return exp.Paren(this=exp.Div(this=logs[0], expression=logs[1]))

    def _bin(self, node: exp.DateBin) -> exp.Expr:
        """Refuse time_bucket, whose buckets date_trunc gives."""
        time, (amount, unit) = quoted(node.expression), interval_amount(node.this) or (1, "WEEK")
        fix = f"write date_trunc('{unit.lower()}', {time})"
        if unit == "MINUTE" and amount > 1:
            fix = f"GROUP BY date_trunc('hour', {time}), minute({time}) // {amount}"
        refuse(node, "rows are put into calendar units", fix)


def _joined_parts(node: Any) -> Iterator[exp.Expr]:
    """Yield the texts that || or CONCAT joins."""
    if not isinstance(node, exp.DPipe | exp.Concat | exp.ConcatWs):
        yield node
        return
    is_chain = isinstance(node, exp.DPipe)
    for part in (node.this, node.expression) if is_chain else node.expressions:
        yield from _joined_parts(part)


def months(day: exp.Expr, unit: str, per_year: int) -> exp.Expr:
    """Return the number of years, quarters or months from year 0 to a date."""
    years: exp.Expr = exp.Year(this=day)
    if per_year == 1:
        return exp.Paren(this=years)
    years = exp.Mul(this=years, expression=number(per_year))
    within = exp.Sub(this=_PARTS[unit](this=day.copy()), expression=number(1))
    return exp.Paren(this=exp.Add(this=years, expression=exp.Paren(this=within)))


def _seconds(moment: exp.Expr) -> exp.Expr:
    """Return the seconds since 1970-01-01 of a time, or the seconds of a difference of times."""
    inner = moment.unnest()
    if not isinstance(inner, exp.Sub):
        return exp.TimeToUnix(this=moment.copy())
    later, earlier = (exp.TimeToUnix(this=side.copy()) for side in (inner.this, inner.expression))
    return exp.Paren(this=exp.Sub(this=later, expression=earlier))


def _in_parentheses(node: exp.Expr) -> exp.Expr:
    """Return a node that binds as one operand."""
    return node if isinstance(node, exp.Column | exp.Literal | exp.Func) else exp.Paren(this=node)


def _rounded_to_even(value: exp.Expr) -> exp.Expr:
    """Return the nearest integer, and the even one of two, as CAST does with floats."""
    value = _in_parentheses(value)
    fraction = exp.Sub(this=value.copy(), expression=exp.Floor(this=value.copy()))
    half = exp.Round(this=exp.Div(this=value.copy(), expression=number(2)))
    is_half = exp.EQ(this=fraction, expression=exp.Literal.number("0.5"))
    even = exp.Mul(this=number(2), expression=half)
    return exp.Case(ifs=[exp.If(this=is_half, true=even)], default=exp.Round(this=value))


def _without_fraction(value: exp.Expr) -> exp.Expr:
    """Return a number without its fraction, towards 0."""
    below = exp.LT(this=value.copy(), expression=number(0))
    return exp.Case(
        ifs=[exp.If(this=below, true=exp.Ceil(this=value.copy()))],
        default=exp.Floor(this=value),
    )
