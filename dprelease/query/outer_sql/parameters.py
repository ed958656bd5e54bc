"""Values of the parameters of a statement: `$name` by name, and `?` in their order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite

import numpy as np
import pandas as pd
from sqlglot import TokenType, exp
from sqlglot.dialects import DuckDB
from sqlglot.errors import SqlglotError

from dprelease.errors.suggestions import nearest
from dprelease.query.select_nodes import refuse

Params = Mapping[str, object] | Sequence[object] | None

_NAMED = re.compile(
    r"""[eE]'(?:\\.|[^'\\])*' | '[^']*' | "[^"]*" | --[^\n]* | /\*.*?\*/
    | \$(?P<tag>(?:[^\W\d]\w*)?)\$ .*? \$(?P=tag)\$ | (?P<name>(?<![\w$])\$\w+)(?![\w$])""",
    re.VERBOSE | re.DOTALL,
)
"""Texts, quoted names and comments, which stay as they are, or a named parameter."""


def number_parameters(text: str) -> str:
    """Return a statement with `$1`, `$2`, ... for each `?`, in the order of the text.

    A blank follows each parameter, because sqlglot reads `$a,$` as the beginning of a text.
    """
    text = _NAMED.sub(lambda found: f"{found[0]} " if found["name"] else found[0], text)
    try:
        tokens = [one for one in DuckDB().tokenize(text) if one.token_type is TokenType.PLACEHOLDER]
    except SqlglotError:
        return text  # the parser refuses it
    for position, token in reversed(list(enumerate(tokens, 1))):
        text = f"{text[: token.start]}${position} {text[token.end + 1 :]}"
    return text


def insert_parameters(tree: exp.Query, params: Params) -> None:
    """Replace the parameters of a statement by constants.

    Raises
    ------
    QueryError
        DP-SQL-008 for a parameter without a value, a value without a parameter, or a value that is
        no number, text, date, time, boolean or None, nor a list of them after IN.
    """
    values = _by_name(params)
    used = set()
    for node in list(tree.find_all(exp.Placeholder, exp.Parameter)):
        name = node.name
        if name not in values:
            known = ", ".join(values) or "none"
            problem = f"the parameter {node.sql('duckdb')[:60]} has no value"
            refuse("DP-SQL-008", problem=problem, known=known + nearest(name, values))
        used.add(name)
        value = values[name]
        if isinstance(value, list | tuple) and isinstance(node.parent, exp.In):
            _insert_list(node, [constant(name, item) for item in value])
        elif node.arg_key == "field":
            problem = f"IN {node.sql('duckdb')[:60]} needs a list of values"
            refuse("DP-SQL-008", problem=problem, known="lists and tuples")
        else:
            node.replace(constant(name, value))
    unused = [name for name in values if name not in used]
    if unused:
        problem = f"the statement has no parameter for the value '{unused[0][:60]}'"
        refuse("DP-SQL-008", problem=problem, known=", ".join(sorted(used)) or "none")


def _insert_list(node: exp.Expr, constants: list[exp.Expr]) -> None:
    """Replace the parameter of x IN $list, or of x IN ($list), by the items of the list."""
    found = node.parent
    if found is None or not constants:
        problem = f"the list {node.sql('duckdb')[:60]} is empty"
        refuse("DP-SQL-008", problem=problem, known="lists of one or more values")
    others = [one for one in found.expressions if one is not node]
    found.set("field", None)
    found.set("expressions", [*others, *constants])


def _by_name(params: Params) -> dict[str, object]:
    """Return the values by name; those of a list are named 1, 2, 3."""
    if params is None:
        return {}
    if isinstance(params, Mapping):
        return {str(name): value for name, value in params.items()}
    if isinstance(params, str) or not isinstance(params, Sequence):
        problem = f"`params` has the type {type(params).__name__}"
        refuse("DP-SQL-008", problem=problem, known="none")
    return {str(position): value for position, value in enumerate(params, 1)}


def constant(name: str, value: object) -> exp.Expr:
    """Return a value as a constant."""
    if isinstance(value, np.datetime64):
        # With nanoseconds, item() returns a whole number.
        value = value.astype("datetime64[us]").item()
    elif isinstance(value, np.generic):
        value = value.item()
    # This comes before dates, because NaT is an instance of datetime.
    if value is None or value is pd.NaT or value is pd.NA:
        return exp.Null()
    if isinstance(value, bool):  # a boolean is also an int
        return exp.Boolean(this=value)
    if isinstance(value, str) and "\0" not in value:
        return exp.Literal.string(value)
    if isinstance(value, datetime):  # also a date, so it comes first
        return _instant(name, value)
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), "date")
    if isinstance(value, int | float | Decimal) and isfinite(value):
        # DuckDB reads a number with an exponent as a DOUBLE, and one with a point as an exact
        # DECIMAL.
        number = exp.Literal.number(format(abs(Decimal(str(value))), "f"))
        return exp.Neg(this=number) if value < 0 else number
    problem = f"the value of '{name[:60]}' has the type {type(value).__name__}"
    refuse(
        "DP-SQL-008",
        problem=problem,
        known="numbers, texts, dates, times without a time zone, booleans, None; lists after IN",
    )


def _instant(name: str, value: datetime) -> exp.Expr:
    """Return a date with a time as a constant."""
    if value.tzinfo is not None or getattr(value, "nanosecond", False):
        what = "nanoseconds" if value.tzinfo is None else "a time zone"
        problem = f"the value of '{name[:60]}' has {what}"
        known = "local times of the `time_zone` of the source, or else of UTC, without a zone"
        refuse("DP-SQL-008", problem=problem, known=known)
    text = value.isoformat(sep=" ", timespec="microseconds")
    return exp.cast(exp.Literal.string(text), "timestamp")
