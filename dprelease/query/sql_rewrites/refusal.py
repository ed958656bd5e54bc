"""Refusals of a part of a SELECT: the part, the reason, and a statement that has an answer."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from dprelease.errors import Place, QueryError

PLACE = Place(key="sql")
LONGEST = 60
"""Maximum number of characters that a message quotes of a statement."""


def refuse(node: exp.Expr | str, reason: str, instead: str) -> NoReturn:
    """Raise QueryError DP-SQL-006 for a part of a statement.

    `reason`: a clause that follows "because". `instead`: what can be written instead.
    """
    quote = node if isinstance(node, str) else quoted(node)
    raise QueryError("DP-SQL-006", place=PLACE, name=f"{quote}, because {reason},", nearest=instead)


def quoted(node: exp.Expr) -> str:
    """Return the SQL of a node, as a message quotes it."""
    text = node.sql("duckdb")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def clamp_advice(node: exp.Expr) -> str:
    """Return how to clamp a value so that missing values stay missing; "" if it is long.

    LEAST and GREATEST skip NULL: on their own, they replace a missing value by a bound. Years and
    seconds since 1970 have no advice, because none of them is from 0 to 100.
    """
    text = quoted(node)
    if text.endswith("...") or node.find(exp.Year, exp.TimeToUnix):
        return ""
    case = f"CASE WHEN {text} IS NOT NULL THEN LEAST(GREATEST({text}, 0), 100) END"
    if isinstance(node, exp.Div) and isinstance(node.expression, exp.Column):
        left, divisor = quoted(node.this), quoted(node.expression)
        by = f"{left} / GREATEST({divisor}, 1) with {divisor} IS NOT NULL in WHERE"
        return f"clamp the divisor, as in {by}; or the quotient, as in {case}; or "
    return f"clamp it and keep missing values, as in {case}; or "
