"""Functions of dates in expressions over one row, which can't fail for any date."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime

from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.query import quoting
from dprelease.query.expressions.nodes import LONGEST_QUOTE, not_allowed_error
from dprelease.query.expressions.scalar import UNITS_OF_A_DAY, Kind, Term

LAST_YEAR = 9999
INTERVAL_UNITS = (
    "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND",
    "MICROSECOND",
)  # fmt: skip
TRUNCATED = ("year", "quarter", "month", "week", "day")
"""The units to which dates are truncated."""


def _first_day(node: exp.Expression, day: str, place: Place) -> Term:
    """Return the term of the first day of a year, quarter, month, week or day."""
    unit = node.args["unit"].name.lower() if node.args.get("unit") is not None else ""
    if unit not in TRUNCATED:
        because = "dates are truncated to a year, quarter, month, week or day"
        time = node.this.sql("duckdb")[:LONGEST_QUOTE]
        advice = f"compare times, as in {time} >= TIMESTAMP '2024-01-31 08:00:00', or hour({time})"
        raise not_allowed_error(node, place, because, advice)
    return Term(f"CAST(date_trunc('{unit}', {day}) AS DATE)", Kind.DATE)


def _date_text(node: exp.Expression, day: str, place: Place) -> Term:
    """Return the term of the text of a date in a constant format of days, months and years."""
    form = node.args.get("format")
    text = form.name if isinstance(form, exp.Literal) and form.is_string else "%"
    if not re.fullmatch("([^%]|%[YymdbBaAj])*", text) or len(text) > LONGEST_QUOTE:
        because = "its format is a constant with years, months and days"
        advice = f"write strftime({node.this.sql('duckdb')[:LONGEST_QUOTE]}, '%Y-%m-%d')"
        raise not_allowed_error(node, place, because, advice)
    return Term(f"strftime({day}, {quoting.text(text)})", Kind.TEXT)


def date_of_parts(parts: Sequence[str]) -> Term:
    """Return the term of the date of a year, a month and a day; missing if there is no such day."""
    whole = ", ".join(f"CAST({part} AS BIGINT)" for part in parts)
    known = f"{parts[0]} BETWEEN 1 AND {LAST_YEAR}"
    return Term(f"(CASE WHEN {known} THEN TRY(make_date({whole})) END)", Kind.DATE)


def difference_unit(node: exp.DateDiff, place: Place) -> str:
    """Return the unit of date_diff, in lower case; refuse units that have no fixed length."""
    unit = node.args["unit"].name.lower() if node.args.get("unit") is not None else ""
    if unit.upper() not in UNITS_OF_A_DAY:
        because = "other units than days, hours, minutes and seconds have no fixed length"
        ends = [one.sql("duckdb")[:LONGEST_QUOTE] for one in (node.expression, node.this)]
        raise not_allowed_error(node, place, because, f"write date_diff('day', {', '.join(ends)})")
    return unit


def time_literal(term: Term, kind: Kind, place: Place) -> Term:
    """Return the term of a text literal as a date or timestamp literal."""
    keyword = "DATE" if kind is Kind.DATE else "TIMESTAMP"
    try:
        if not term.sql.startswith("'"):
            raise ValueError
        text = term.sql[1:-1]
        day = text.removesuffix(" 00:00:00")  # as DuckDB reads the text as a date
        moment = date.fromisoformat(day) if keyword == "DATE" else datetime.fromisoformat(text)
    except ValueError:
        raise QueryError(
            "DP-WHERE-007",
            place=place,
            left=kind.capitalize(),
            right="a text that is not a date such as '2020-12-31'",
        ) from None
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        advice = f"write the local time, as in TIMESTAMP '{moment.replace(tzinfo=None)}'"
        raise not_allowed_error(term.sql, place, "times have no zone here", advice)
    return Term(f"{keyword} '{moment}'", kind)


def instant_of(term: Term) -> Term:
    """Return the first instant of a date, missing for days that have none; other terms stay."""
    if term.kind is not Kind.DATE:
        return term
    return Term(f"TRY_CAST({term.sql} AS TIMESTAMP)", Kind.TIMESTAMP)


def interval_sql(node: exp.Expression, place: Place) -> str:
    """Return the SQL of a constant interval."""
    amount = interval_amount(node)
    if amount is None:
        because = "an interval is a whole number of a unit"
        raise not_allowed_error(node, place, because, "write INTERVAL 30 DAY")
    return f"INTERVAL '{amount[0]}' {amount[1]}"


def interval_amount(node: exp.Expression) -> tuple[int, str] | None:
    """Return the whole number and the unit of a constant interval, such as 30 and "DAY"."""
    unit = node.args["unit"].name.upper().removesuffix("S") if node.args.get("unit") else ""
    value = node.this.unnest() if node.this is not None else node
    sign = -1 if isinstance(value, exp.Neg) else 1
    text = (value.this if isinstance(value, exp.Neg) else value).name
    number = re.fullmatch("(-?)([0-9]{1,9})", text)
    if number is None or unit not in INTERVAL_UNITS:
        return None
    return sign * int(f"{number[1]}{number[2]}"), unit


DATE_TERMS: dict[type[exp.Expression], Callable[[exp.Expression, str, Place], Term]] = {
    exp.TimestampTrunc: _first_day,
    exp.DateTrunc: _first_day,
    exp.TimeToStr: _date_text,
}
"""The rules of functions of one date and a constant, by type of node."""
