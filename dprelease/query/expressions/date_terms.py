"""Functions of dates in expressions over one row, which can't fail for any date."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.query import quoting
from dprelease.query.expressions.nodes import LONGEST_QUOTE
from dprelease.query.expressions.scalar import Kind, Term

LAST_YEAR = 9999
TRUNCATED = ("year", "quarter", "month", "week")
"""The units to which dates are truncated."""


def _first_day(node: exp.Expression, day: str, place: Place) -> Term:
    """Return the term of the first day of a year, quarter, month or week."""
    unit = node.args["unit"].name.lower() if node.args.get("unit") is not None else ""
    if unit not in TRUNCATED:
        what = "date_trunc to another unit than a year, quarter, month or week"
        raise QueryError("DP-WHERE-006", place=place, what=what)
    return Term(f"CAST(date_trunc('{unit}', {day}) AS DATE)", Kind.DATE)


def _date_text(node: exp.Expression, day: str, place: Place) -> Term:
    """Return the term of the text of a date in a constant format of days, months and years."""
    form = node.args.get("format")
    text = form.name if isinstance(form, exp.Literal) and form.is_string else "%"
    if not re.fullmatch("([^%]|%[YymdbBaAj])*", text) or len(text) > LONGEST_QUOTE:
        what = "strftime with a format of other parts than years, months and days"
        raise QueryError("DP-WHERE-006", place=place, what=what)
    return Term(f"strftime({day}, {quoting.text(text)})", Kind.TEXT)


def date_of_parts(parts: Sequence[str]) -> Term:
    """Return the term of the date of a year, a month and a day; missing if there is no such day."""
    whole = ", ".join(f"CAST({part} AS BIGINT)" for part in parts)
    known = f"{parts[0]} BETWEEN 1 AND {LAST_YEAR}"
    return Term(f"(CASE WHEN {known} THEN TRY(make_date({whole})) END)", Kind.DATE)


DATE_TERMS: dict[type[exp.Expression], Callable[[exp.Expression, str, Place], Term]] = {
    exp.TimestampTrunc: _first_day,
    exp.DateTrunc: _first_day,
    exp.TimeToStr: _date_text,
}
"""The rules of functions of one date and a constant, by type of node."""
