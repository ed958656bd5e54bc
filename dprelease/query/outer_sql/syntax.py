"""The syntax that is allowed over noised tables: nothing that reads anything else, or may hang.

Every node of the outer statement must have a type that is listed here. Table functions, settings,
variables, files, random numbers and the current time have none. Functions whose results can be
arbitrarily long, such as `repeat`, have none either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sqlglot import exp

from dprelease.errors.suggestions import nearest

STRUCTURE: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Alias, exp.CTE, exp.Column, exp.Distinct, exp.Except, exp.Fetch, exp.From, exp.Group,
        exp.Having, exp.Identifier, exp.Intersect, exp.Join, exp.Limit, exp.LimitOptions,
        exp.Offset, exp.Order, exp.Ordered, exp.Qualify, exp.Select, exp.Star, exp.Subquery,
        exp.Table, exp.TableAlias, exp.Tuple, exp.Union, exp.Values, exp.Var, exp.Where,
        exp.Window, exp.WindowSpec, exp.With, exp.Cube, exp.Rollup, exp.GroupingSets,
    }
)  # fmt: skip
OPERATORS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Add, exp.And, exp.Between, exp.Boolean, exp.Case, exp.Cast, exp.DPipe, exp.DataType,
        exp.DataTypeParam, exp.Div, exp.EQ, exp.Escape, exp.Exists, exp.GT, exp.GTE, exp.ILike,
        exp.If, exp.In, exp.IntDiv, exp.Interval, exp.Is, exp.LT, exp.LTE, exp.Like, exp.Literal,
        exp.Mod, exp.Mul, exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.NullSafeEQ, exp.NullSafeNEQ,
        exp.Or, exp.Paren, exp.Sub, exp.TryCast, exp.Xor,
    }
)  # fmt: skip
SCALARS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Array, exp.DateFromParts,
        exp.Abs, exp.Cbrt, exp.Ceil, exp.Coalesce, exp.Concat, exp.ConcatWs, exp.Contains,
        exp.DateDiff, exp.DateTrunc, exp.Day, exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear,
        exp.Dayname, exp.EndsWith, exp.Exp, exp.Extract, exp.Floor, exp.Greatest, exp.Least,
        exp.Left, exp.Length, exp.Ln, exp.Log, exp.Lower, exp.Month, exp.Monthname, exp.Nullif,
        exp.Pow, exp.Quarter, exp.Replace, exp.Reverse, exp.Right, exp.Round, exp.Sign,
        exp.SplitPart, exp.Sqrt, exp.StartsWith, exp.StrPosition, exp.Substring, exp.TimeToStr,
        exp.TimestampTrunc, exp.Trim, exp.Trunc, exp.TsOrDsToDate, exp.Upper, exp.Week,
        exp.WeekOfYear,
        exp.Year,
    }
)  # fmt: skip
AGGREGATES_AFTER: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.ApproxDistinct, exp.ArgMax, exp.ArgMin, exp.Avg, exp.Corr, exp.Count, exp.CountIf,
        exp.Filter, exp.GroupConcat, exp.Grouping, exp.LogicalAnd, exp.LogicalOr, exp.Max,
        exp.Median, exp.Min, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.Stddev,
        exp.StddevPop, exp.StddevSamp, exp.Sum, exp.Variance, exp.VariancePop, exp.WithinGroup,
    }
)  # fmt: skip
"""The aggregates over noised values."""

WINDOW_FUNCTIONS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.CumeDist, exp.DenseRank, exp.FirstValue, exp.IgnoreNulls, exp.Lag, exp.LastValue,
        exp.Lead, exp.NthValue, exp.Ntile, exp.PercentRank, exp.Rank, exp.RespectNulls,
        exp.RowNumber,
    }
)  # fmt: skip
ALLOWED = STRUCTURE | OPERATORS | SCALARS | AGGREGATES_AFTER | WINDOW_FUNCTIONS

FUNCTION_NAMES = tuple(
    sorted(
        kind.sql_names()[0]
        for kind in SCALARS | AGGREGATES_AFTER | WINDOW_FUNCTIONS
        if issubclass(kind, exp.Func)
    )
)
"""The names of the functions that are allowed over noised values."""

_CONSTANTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.WindowSpec: ("start", "end"),
    exp.Substring: ("start", "length"),
    **dict.fromkeys((exp.Left, exp.Right), ("expression",)),
    **dict.fromkeys((exp.DateDiff, exp.DateTrunc, exp.TimestampTrunc), ("unit",)),
    **dict.fromkeys((exp.Lag, exp.Lead, exp.NthValue), ("offset",)),
    exp.Ntile: ("this",),
    exp.SplitPart: ("part_index",),
    exp.TimeToStr: ("format",),
}
"""The arguments that could make a function fail, by type of node."""

_LEAST: dict[type[exp.Expr], int] = {
    exp.WindowSpec: 0, exp.Ntile: 1, exp.NthValue: 1,
    **dict.fromkeys(
        (exp.Substring, exp.Left, exp.Right, exp.Lag, exp.Lead, exp.SplitPart), -(10**6)
    ),
}  # fmt: skip
"""The least number in these clauses with which an engine computes them."""

TYPES = exp.DataType.NUMERIC_TYPES | exp.DataType.TEXT_TYPES | exp.DataType.TEMPORAL_TYPES
TYPES = TYPES | {exp.DataType.Type.BOOLEAN}
"""The types to which a value can be converted."""


def unlisted_nodes(tree: exp.Expr, tables: Iterable[str]) -> Iterator[exp.Expr]:
    """Yield the nodes of an outer statement that are not allowed.

    Of tables, only those named in `tables` and the CTEs of the statement are allowed.
    """
    names = {*tables, *(cte.alias.casefold() for cte in tree.find_all(exp.CTE))}
    for node in tree.walk():
        is_allowed = type(node) in ALLOWED
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

    Limits, window frames, intervals, places in texts, formats and units have to be constants.
    """
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
        return node.args.get("unit") is None or not _is_whole(node.this, -(10**6))
    least = _LEAST.get(type(node))
    return least is not None and not all(
        isinstance(part, exp.Interval) or _is_whole(part, least) for part in parts
    )


def _is_whole(node: exp.Expr | None, least: int) -> bool:
    """Return whether a constant is a whole number from `least` to a million."""
    is_negative = isinstance(node, exp.Neg)
    text = node.this.name if isinstance(node, exp.Neg) else "" if node is None else node.name
    number = re.fullmatch(r"(-?)([0-9]{1,7})", text)
    if number is None:
        return False
    value = int(number[2]) * (-1 if is_negative != bool(number[1]) else 1)
    return least <= value <= 10**6


def similar_function_text(name: str) -> str:
    """Return a text that suggests an allowed function, and where to find all of them."""
    similar = nearest(name, FUNCTION_NAMES).removeprefix("; ")
    return f"{similar}? " if similar else ""
