"""Errors of expressions: parts that no rule allows, and values of another kind."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.query.expressions.nodes import (
    LONGEST_QUOTE,
    unknown_function_error,
    unwritable_function,
)
from dprelease.query.expressions.scalar import ALLOWED, Kind


def refusal_error(node: exp.Expression, place: Place) -> QueryError:
    """Return the error of a node without a rule: a subquery, an aggregate, or other syntax."""
    if isinstance(node, exp.Query | exp.Exists | exp.Subquery):
        return QueryError("DP-WHERE-002", place=place)
    if isinstance(node, exp.AggFunc | exp.Window):
        return QueryError("DP-WHERE-003", place=place)
    foreign = unwritable_function(node)
    if foreign:
        return unknown_function_error(foreign.lower(), ALLOWED, place)
    text = node.sql("duckdb")
    name = text.split("(")[0][:LONGEST_QUOTE].lower()
    if isinstance(node, exp.Func) and name.isidentifier():  # a function, not an operator
        return unknown_function_error(name, ALLOWED, place)
    what = text[:LONGEST_QUOTE]
    if isinstance(node, exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseNot):
        what = "&, | or ~ for AND, OR or NOT"
    elif isinstance(node, exp.IntDiv):
        what = "x // y for floor(x / y)"
    return QueryError("DP-WHERE-006", place=place, what=what)


def wrong_kind_error(node: exp.Expression, wanted: Kind, found: Kind, place: Place) -> QueryError:
    """Return the error of a value of another kind than a function or an operator needs."""
    around = node.parent
    while isinstance(around, exp.TsOrDsToDate | exp.Paren):
        around = around.parent
    what, part = (one.sql("duckdb")[:LONGEST_QUOTE] for one in (around or node, node))
    declared = f"as {wanted}, with its `format`" if wanted in (Kind.DATE, Kind.TIMESTAMP) else "so"
    how = f"use a column that is {wanted}, or declare this one {declared}"
    if (wanted, found) == (Kind.NUMBER, Kind.BOOLEAN):
        how = f"write if({node.unnest().sql('duckdb')[:LONGEST_QUOTE]}, 1, 0)"
    fields: dict[str, Any] = {
        "what": what,
        "part": part,
        "wanted": wanted,
        "found": found,
        "how": how,
    }
    return QueryError("DP-WHERE-010", place=place, **fields)
