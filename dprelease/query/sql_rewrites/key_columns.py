"""Expressions as keys: computed columns with finitely many values, from declared bounds or values.

A computed key may have other values than its expression: for instance the number of months for
`date_trunc('month', d)`. `restored` is the expression over the noised table that returns the
values of the SELECT, which is post-processing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dprelease.numerics.rounding import plain_text
from dprelease.query.expressions.nodes import strip_date_cast, undeclared_code
from dprelease.query.expressions.scalar import UNITS_OF_A_DAY, Kind
from dprelease.query.sql_rewrites.bounds import ValueRange
from dprelease.query.sql_rewrites.row_forms import kind_of, months, number, row_form
from dprelease.query.sql_rewrites.unanswerable import LONGEST, quoted, refuse
from dprelease.query.sql_rewrites.value_ranges import (
    bounded_range,
    date_declaration,
    date_range,
    value_range,
)
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
)
from dprelease.schema.field_types import DROP, to_bool
from dprelease.schema.table import Table

EPOCH, MONDAY = "1970-01-01", "1970-01-05"
BLANKS = "\u0020\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""The characters that trim(x) removes."""
_PER_DAY = {unit: UNITS_OF_A_DAY[unit] for unit in ("DAY", "HOUR", "MINUTE")}
_UNBOUNDED_DAYS = (
    "the first and the last day of its values aren't known",
    "declare lower and upper of the columns, and compute keys by date_trunc, CASE and INTERVAL",
)
_PER_YEAR = {"YEAR": 1, "QUARTER": 4, "MONTH": 12}


@dataclass(frozen=True)
class KeyColumn:
    """A computed key: its expression over one row, its declaration, and how values are restored.

    `scale`: the number by which a key is multiplied. `unit`: the unit of date_trunc, or "".
    `type`: the type of the first day of the unit. `format`: its format with strftime, or "".
    """

    expression: exp.Expr
    declaration: dict[str, Any]
    scale: Fraction = Fraction(1)
    unit: str = ""
    type: str = "timestamp"
    format: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether the key has the values of the SELECT."""
        return self.scale == 1 and not self.unit

    def restored(self, column: exp.Expr) -> exp.Expr:
        """Return the value of the SELECT, from the column of the key."""
        if self.unit:
            day = _first_day(column, self.unit, self.type)
            form = exp.Literal.string(self.format)
            return exp.TimeToStr(this=day, format=form) if self.format else day
        if self.scale == 1:
            return column
        return exp.Paren(this=_times(column, self.scale))


def key_column(node: exp.Expr, table: Table) -> KeyColumn:
    """Return the computed key of an expression.

    Raises QueryError: DP-SQL-006 if the expression has no public list of values.
    """
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return _truncated_date(node, table)
    if isinstance(node, exp.TimeToStr):
        return _formatted_date(node, table)
    if isinstance(node, exp.Cast) and node.to.is_type("date"):
        inner = node.this.unnest()
        if isinstance(inner, exp.TimestampTrunc | exp.DateTrunc):
            return _truncated_to_date(inner, table)
    form = row_form(node, table)
    kind = kind_of(form, table)
    if kind is Kind.BOOLEAN:
        return KeyColumn(form, {"type": "boolean"})
    if kind is Kind.TEXT:
        values = texts_of(form, table.columns)
        if values is None:  # a private key, or refused when the query is resolved
            return KeyColumn(form, {"type": "text"})
        return KeyColumn(form, {"type": "category", "values": values})
    if kind is Kind.DATE:
        return _day_key(node, form, table)
    if kind is not Kind.NUMBER:
        reason = f"an expression with {kind} as its value has no public list of values"
        is_known = date_range(form, table.columns) is not None and len(quoted(node)) < LONGEST
        text = quoted(node) if is_known else "t"
        refuse(node, reason, f"use date_trunc('day', {text}) or date_trunc('hour', {text})")
    return _number_key(node, form, table)


def _day_key(node: exp.Expr, form: exp.Expr, table: Table) -> KeyColumn:
    """Return the key of an expression of dates, whose values are all days within its bounds."""
    if isinstance(form, exp.DateFromParts):
        return _date_of_parts(node, form, table)
    declaration = date_declaration(form, table.columns)
    if declaration is None:
        refuse(node, *_UNBOUNDED_DAYS)
    return KeyColumn(form, declaration)


def _date_of_parts(node: exp.Expr, form: exp.DateFromParts, table: Table) -> KeyColumn:
    """Return the key of make_date(year(d), month(d), day(d)), also with 1 as the day or month."""
    year, month, day = (form.args[name] for name in ("year", "month", "day"))
    found = year.this if isinstance(year, exp.Year) else None
    same = [
        isinstance(part, kind) and part.this == found
        for part, kind in ((month, exp.Month), (day, exp.Day))
    ]
    ones = [part == number(1) for part in (month, day)]
    unit = "DAY" if all(same) else "MONTH" if same[0] and ones[1] else "YEAR" if all(ones) else ""
    if found is None or not unit:
        reason = "its parts aren't the year, month and day of one column"
        keys = [quoted(part) for part in (year, month, day) if not isinstance(part, exp.Literal)]
        refuse(node, reason, f"use the parts as keys, as in GROUP BY {', '.join(keys)}")
    key = _truncated_date(exp.TimestampTrunc(this=found, unit=exp.Var(this=unit)), table)
    return replace(key, type="date")


def _number_key(node: exp.Expr, form: exp.Expr, table: Table) -> KeyColumn:
    """Return the key of an expression with evenly spaced numbers."""
    found = bounded_range(form, table.columns)
    if not found.step:
        reason = "its values aren't whole numbers, so it has no public list of values"
        refuse(node, reason, f"use FLOOR({quoted(node)}), or a `cut` in the table's schema")
    return KeyColumn(*_steps(form, found), scale=found.step)


def _steps(form: exp.Expr, found: ValueRange) -> tuple[exp.Expr, dict[str, Any]]:
    """Return an expression divided by its step, and the declaration of the quotient."""
    step, lower, upper = found.step or Fraction(1), found.lower or 0, found.upper or 0
    if step != 1:
        # A product of doubles is only nearly whole: 0.29 * 100 is below 29.
        form = exp.Round(this=_times(exp.Paren(this=form), 1 / step))
    ends = {"lower": str(int(lower // step)), "upper": str(int(upper // step))}
    return form, {"type": "integer", **ends}


def _times(node: exp.Expr, factor: Fraction) -> exp.Expr:
    """Return the product of a node and a rational factor."""
    if factor.numerator != 1:
        node = exp.Mul(this=node, expression=number(factor.numerator))
    if factor.denominator == 1:
        return node
    return exp.Div(this=node, expression=number(factor.denominator))


def _truncated_date(node: exp.Expr, table: Table) -> KeyColumn:
    """Return the key of date_trunc: the number of years, quarters, months or weeks."""
    unit = node.args["unit"].name.upper() if node.args.get("unit") is not None else ""
    day = row_form(strip_date_cast(node.this), table)
    days = date_range(day, table.columns)
    if days is None:
        refuse(node, *_UNBOUNDED_DAYS)
    if unit in _PER_DAY:
        # A date has no hours: as keys, they would be 24 cells for each day, 23 of them always
        # empty.
        is_day = kind_of(day, table) is Kind.DATE
        return _truncated_time(day, "DAY" if is_day else unit, days)
    if unit in _PER_YEAR:
        per_year = _PER_YEAR[unit]
        form = months(day, unit, per_year)
        ends = [one.year * per_year + (one.month - 1) * per_year // 12 for one in days]
    elif unit == "WEEK":
        ends = [(one - date.fromisoformat(MONDAY)).days // 7 for one in days]
        # DATE_DIFF of weeks rounds those before its first day towards 0; FLOOR rounds all down.
        since = exp.DateDiff(
            this=day, expression=exp.Literal.string(MONDAY), unit=exp.Var(this="DAY")
        )
        form = exp.Floor(this=exp.Div(this=since, expression=number(7)))
    else:
        units = "'year', 'quarter', 'month', 'week', 'day', 'hour' or 'minute'"
        refuse(node, "rows have no such unit", f"use {units}")
    bounds = {"type": "integer", "lower": str(ends[0]), "upper": str(ends[1])}
    return KeyColumn(form, bounds, unit=unit)


def _truncated_to_date(node: exp.Expr, table: Table) -> KeyColumn:
    """Return the key of CAST(date_trunc(unit, t) AS DATE); an hour and a minute have their day."""
    if node.args["unit"].name.upper() in _PER_DAY:
        node = exp.TimestampTrunc(this=node.this, unit=exp.Var(this="DAY"))
    return replace(_truncated_date(node, table), type="date")


def _truncated_time(moment: exp.Expr, unit: str, days: tuple[date, date]) -> KeyColumn:
    """Return the key of date_trunc to days, hours or minutes: their number since 1970."""
    per_day = _PER_DAY[unit]
    since = exp.DateDiff(this=moment, expression=_constant(EPOCH), unit=exp.Var(this=unit))
    ends = [(one - date.fromisoformat(EPOCH)).days * per_day for one in days]
    bounds = {"type": "integer", "lower": str(ends[0]), "upper": str(ends[1] + per_day - 1)}
    return KeyColumn(since, bounds, unit=unit)


def _formatted_date(node: exp.TimeToStr, table: Table) -> KeyColumn:
    """Return the key of strftime(d, format), for formats of years and months."""
    text = node.args["format"].name if isinstance(node.args.get("format"), exp.Literal) else ""
    parts = set(re.findall("%-?.", text))
    months_of_year, days_of_month = {"%m", "%b", "%B", "%-m"}, {"%d", "%-d", "%a", "%A"}
    levels = {"%Y"}, {"%Y"} | months_of_year, {"%Y"} | months_of_year | days_of_month
    level = next((i for i, known in enumerate(levels) if parts <= known), len(levels))
    is_day = level == 2 and parts & months_of_year and parts & {"%d", "%-d"}
    if "%Y" not in parts or level == len(levels) or (level == 2 and not is_day):
        reason = "a key names a year, a month or a day, as '%Y', '%Y-%m' and '%Y-%m-%d' do"
        fix = "use date_trunc('week', d) for weeks, and month(d), day(d), dayname(d) or hour(d) "
        refuse(node, reason, f"{fix}for parts")
    unit = exp.Var(this=("YEAR", "MONTH", "DAY")[level])
    key = _truncated_date(exp.TimestampTrunc(this=node.this, unit=unit), table)
    return replace(key, format=text)


def _constant(day: str) -> exp.Expr:
    """Return a constant date."""
    return exp.Cast(this=exp.Literal.string(day), to=exp.DataType.build("date"))


def _first_day(column: exp.Expr, unit: str, kind: str) -> exp.Expr:
    """Return the first day or time of a numbered unit, as a date or as a timestamp."""
    if unit in _PER_DAY:
        since: exp.Expr = exp.Anonymous(this=f"to_{unit.lower()}s", expressions=[column])
        day: exp.Expr = exp.Paren(this=exp.Add(this=_constant(EPOCH), expression=since))
    elif unit == "WEEK":
        # DuckDB adds an INTEGER to a date, but no BIGINT.
        days = exp.Cast(
            this=exp.Paren(this=exp.Mul(this=column, expression=number(7))),
            to=exp.DataType.build("int"),
        )
        day = exp.Paren(this=exp.Add(this=_constant(MONDAY), expression=days))
    else:
        per_year = number(_PER_YEAR[unit])
        year = exp.IntDiv(this=column, expression=per_year)
        place = exp.Paren(this=exp.Mod(this=column.copy(), expression=per_year.copy()))
        each = number(12 // _PER_YEAR[unit])
        month = exp.Add(this=exp.Mul(this=place, expression=each), expression=number(1))
        day = exp.DateFromParts(year=year, month=month, day=number(1))
    return exp.Cast(this=day, to=exp.DataType.build(kind))


def texts_of(node: exp.Expr, columns: Mapping[str, Column]) -> list[str] | None:
    """Return all texts that an expression can have for declared values; None if any is possible."""
    parts: list[exp.Expr]
    if isinstance(node, exp.Paren | exp.Nullif):
        return texts_of(node.this, columns)
    if isinstance(node, exp.Literal):
        return [node.name]
    if isinstance(node, exp.Column):
        column = columns.get(node.name)
        is_listed = isinstance(column, CategoryColumn | CutColumn)
        return [*(column.values or ())] if is_listed else None  # type: ignore[union-attr]
    if isinstance(node, exp.Case):
        parts = [branch.args["true"] for branch in node.args["ifs"]]
        parts += [node.args["default"]] if node.args.get("default") is not None else []
    elif isinstance(node, exp.If):
        parts = [node.args[name] for name in ("true", "false") if node.args.get(name) is not None]
    elif isinstance(node, exp.Coalesce):
        parts = [node.this, *node.expressions]
    else:
        return _computed_texts(node, columns)
    found = [texts_of(part, columns) for part in parts if not isinstance(part, exp.Null)]
    if any(texts is None for texts in found):
        return None
    return [*dict.fromkeys(text for texts in found for text in texts or ())]


def _computed_texts(node: exp.Expr, columns: Mapping[str, Column]) -> list[str] | None:
    """Return the results of functions of a category, such as left(x, 2), for its values.

    The result is None if the text of undeclared codes has one of these results.
    """
    names = {column.name for column in node.find_all(exp.Column)}
    column = columns.get(next(iter(names), ""))
    if len(names) != 1 or not isinstance(column, CategoryColumn | CutColumn):
        return None
    values = list(column.values or ())
    # The code of undeclared values counts here, too: a key must not show them as a declared value.
    found = [_text_of(node, value) for value in [*values, undeclared_code(values)]]
    if None in found or found[-1] in found[:-1]:
        return None
    return [*dict.fromkeys(text for text in found[:-1] if text is not None)]


def _text_of(node: exp.Expr, value: str) -> str | None:
    """Return the result of functions of a text, as DuckDB computes it; None if it isn't known."""
    if isinstance(node, exp.Column):
        return value
    text = _text_of(node.this, value) if isinstance(node.this, exp.Expr) else None
    if text is None or isinstance(node, exp.Paren):
        return text
    if isinstance(node, exp.Lower | exp.Upper):
        change = str.lower if isinstance(node, exp.Lower) else str.upper
        # Python changes some letters to several, such as ß to SS, which DuckDB changes to one.
        found = [change(letter) for letter in text]
        return "".join(found) if all(len(letter) == 1 for letter in found) else None
    if isinstance(node, exp.Trim) and node.expression is None:
        # Without the characters, strip() also removes tabs and line ends, which DuckDB keeps.
        return text.strip(BLANKS)
    if isinstance(node, exp.Left | exp.Substring):
        start, length = node.args.get("start"), node.args.get("length") or node.expression
        numbers = [
            1 if start is None else _place(start),
            None if length is None else _place(length),
        ]
        if numbers[0] is None or (length is not None and numbers[1] is None):
            return None
        first = numbers[0] - 1
        return text[first:] if numbers[1] is None else text[first : first + numbers[1]]
    return None


def _place(node: Any) -> int | None:
    """Return a constant place in a text, from 1 on; None for anything else."""
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    # DuckDB counts 0 and negative places in other ways, so they are refused.
    return int(text) if text.isdecimal() and 0 < len(text) < 6 and int(text) > 0 else None


def public_values(value: exp.Expr, table: Table) -> tuple[exp.Expr, dict[str, Any] | None]:
    """Return an expression of public values, and its declaration; None if they aren't public.

    The values of a column itself are those that aggregates of this column read: its `fill` replaces
    missing values, and its `others` replaces undeclared texts.
    """
    form = row_form(value, table)
    declaration = _public_declaration(form, table)
    others = getattr(_column_of(value, table), "others", DROP)
    if declaration is not None and others != DROP:
        declaration["others"] = others
    return filled(form, value, table), declaration


def filled(form: exp.Expr, value: exp.Expr, table: Table) -> exp.Expr:
    """Return the form of a value; the `fill` of a column itself replaces its missing values."""
    column = _column_of(value, table)
    fill = getattr(column, "fill", DROP)
    if fill == DROP:
        return form
    constant: exp.Expr = exp.Literal.string(fill)
    if isinstance(column, IntegerColumn | NumberColumn):
        constant = exp.Literal.number(plain_text(column.fill_value or Fraction(0)))
    elif isinstance(column, BooleanColumn):
        constant = exp.Boolean(this=to_bool(fill))
    return exp.Coalesce(this=form, expressions=[constant])


def _column_of(value: exp.Expr, table: Table) -> Column | None:
    """Return the column that an expression is; None for any other expression."""
    return table.columns.get(value.name) if isinstance(value, exp.Column) else None


def _public_declaration(node: exp.Expr, table: Table) -> dict[str, Any] | None:
    """Return the declaration of a computed column of public values; None if it has none."""
    kind, column = kind_of(node, table), _column_of(node, table)
    if isinstance(column, DateColumn) and column.lower is not None:
        return {"type": "date", "lower": str(column.lower), "upper": str(column.upper)}
    if kind is Kind.BOOLEAN:
        return {"type": "boolean"}
    if kind is Kind.TEXT:
        values = texts_of(node, table.columns)
        return None if values is None else {"type": "category", "values": values}
    found = value_range(node, table.columns)
    if kind is Kind.NUMBER and found.is_bounded and found.is_whole:
        return {"type": "integer", "lower": str(found.lower), "upper": str(found.upper)}
    return None
