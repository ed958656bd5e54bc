"""The syntax that is allowed over noised tables: nothing that reads anything else, or may hang.

Every node of the outer statement must have a type that is listed here, or be a function that
`functions` lists. Table functions, settings, variables, files, random numbers and the current time
are not listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sqlglot import exp

from dprelease.query.outer_sql.functions import (
    CONSTANT_LENGTHS,
    LONGEST_PAD,
    NAMES,
    function_name,
)

STRUCTURE: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Alias, exp.CTE, exp.Column, exp.Distinct, exp.Except, exp.Fetch, exp.From, exp.Group,
        exp.Having, exp.Identifier, exp.Intersect, exp.Join, exp.Limit, exp.LimitOptions,
        exp.Offset, exp.Order, exp.Ordered, exp.Qualify, exp.Select, exp.Star, exp.Subquery,
        exp.Table, exp.TableAlias, exp.Tuple, exp.Union, exp.Values, exp.Var, exp.Where,
        exp.Window, exp.WindowSpec, exp.With, exp.Cube, exp.Rollup, exp.GroupingSets,
        exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup, exp.Lambda,
    }
)  # fmt: skip
OPERATORS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Add, exp.All, exp.And, exp.Any, exp.Array, exp.ArrayContainsAll, exp.ArrayOverlaps,
        exp.Between, exp.BitwiseAnd, exp.BitwiseLeftShift, exp.BitwiseNot, exp.BitwiseOr,
        exp.BitwiseRightShift, exp.Boolean, exp.Bracket, exp.Case, exp.Cast, exp.DPipe,
        exp.DataType, exp.DataTypeParam, exp.DateAdd, exp.DateSub, exp.Div,
        exp.Dot, exp.EQ, exp.Escape, exp.Exists,
        exp.Explode, exp.GT, exp.GTE, exp.ILike, exp.If, exp.In, exp.IntDiv, exp.Interval, exp.Is,
        exp.LT, exp.LTE, exp.Like, exp.Literal, exp.Mod, exp.Mul, exp.NEQ, exp.Neg, exp.Not,
        exp.Null, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Or, exp.Paren, exp.PropertyEQ,
        exp.SimilarTo, exp.Slice, exp.Struct, exp.Sub, exp.ToMap, exp.Try, exp.TryCast,
        exp.TsOrDsToDate, exp.Xor,
    }
)  # fmt: skip
ALLOWED = STRUCTURE | OPERATORS

_CONSTANTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.WindowSpec: ("start", "end"),
    **dict.fromkeys((exp.Lag, exp.Lead, exp.NthValue), ("offset",)),
    exp.Ntile: ("this",),
    **dict.fromkeys((exp.Max, exp.Min, exp.ArgMax, exp.ArgMin), ("count",)),
    **dict.fromkeys((exp.DateDiff, exp.DateTrunc, exp.TimestampTrunc), ("unit",)),
}
"""The arguments that have to be constants, by type of node."""

_LEAST: dict[type[exp.Expr], int] = {
    exp.WindowSpec: 0, **dict.fromkeys(
        (exp.Ntile, exp.NthValue, exp.Max, exp.Min, exp.ArgMax, exp.ArgMin), 1
    ),
    **dict.fromkeys((exp.Lag, exp.Lead), 1 - 10**6),
}  # fmt: skip
"""The least number in these clauses with which an engine computes them."""

TYPES = exp.DataType.NUMERIC_TYPES | exp.DataType.TEXT_TYPES | exp.DataType.TEMPORAL_TYPES
TYPES = TYPES | {exp.DataType.Type.BOOLEAN, exp.DataType.Type.LIST, exp.DataType.Type.ARRAY}
"""The types to which a value can be converted."""


def unlisted_nodes(tree: exp.Expr, tables: Iterable[str]) -> Iterator[exp.Expr]:
    """Yield the nodes of an outer statement that are not allowed.

    Of tables, only those named in `tables` and the CTEs of the statement are allowed.
    """
    names = {*tables, *(cte.alias.casefold() for cte in tree.find_all(exp.CTE))}
    for node in tree.walk():
        is_allowed = type(node) in ALLOWED
        if isinstance(node, exp.Func) and not is_allowed:
            is_allowed = function_name(node) in NAMES
        if isinstance(node, exp.DataType):
            is_allowed = node.this in TYPES
        elif isinstance(node, exp.Column):
            is_allowed = not node.args.get("db")
        elif isinstance(node, exp.Table):
            is_identifier = isinstance(node.this, exp.Identifier) and not node.args.get("db")
            is_allowed = is_identifier and node.name.casefold() in names
        if not is_allowed or may_fail(node):
            yield node


def may_fail(node: exp.Expr) -> bool:
    """Return whether a clause could fail for some noised values, after they are charged.

    Limits, window frames, intervals, units and lengths of texts have to be constants.
    """
    if isinstance(node, exp.Func) and function_name(node) in CONSTANT_LENGTHS:
        return not _is_short(node)
    names = _CONSTANTS.get(type(node), ())
    fixed = [node.args.get(name) for name in names] if names else []
    if isinstance(node, exp.Limit | exp.Offset | exp.Fetch | exp.Interval):
        fixed = [*node.args.values()]
    parts = [part for part in fixed if isinstance(part, exp.Expr)]
    if any(part.find(exp.Column, exp.Func, exp.Query) is not None for part in parts):
        return True
    if isinstance(node, exp.Escape):
        return len(node.expression.name) != 1
    if isinstance(node, exp.Interval):
        return node.args.get("unit") is None or not _is_whole(node.this, 1 - 10**6)
    least = _LEAST.get(type(node))
    return least is not None and not all(
        isinstance(part, exp.Interval) or _is_whole(part, least) for part in parts
    )


def _is_short(node: exp.Func) -> bool:
    """Return whether a function that pads texts has constant lengths up to `LONGEST_PAD`."""
    if isinstance(node, exp.Pad):
        return _is_whole(node.expression, 0) and len(node.expression.name) <= len(str(LONGEST_PAD))
    form = node.this if isinstance(node, exp.Format) else next(iter(node.expressions), None)
    text = form.name if isinstance(form, exp.Literal) and form.is_string else "*"
    lengths = re.findall("[0-9]+", text)
    is_constant = "*" not in text and not re.search("{[^}]*{", text)
    return is_constant and all(len(one) <= len(str(LONGEST_PAD)) for one in lengths)


def _is_whole(node: exp.Expr | None, least: int) -> bool:
    """Return whether a constant is a whole number from `least` on that is below a million."""
    is_negative = isinstance(node, exp.Neg)
    text = node.this.name if isinstance(node, exp.Neg) else "" if node is None else node.name
    number = re.fullmatch(r"(-?)([0-9]{1,7})", text)
    if number is None:
        return False
    value = int(number[2]) * (-1 if is_negative != bool(number[1]) else 1)
    return least <= value < 10**6
