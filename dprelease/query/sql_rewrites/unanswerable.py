"""Aggregates that have no answer with noise, each with the reason and an alternative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.query.outer_sql.functions import function_name, written_name
from dprelease.schema.columns import Column

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
    if isinstance(node, exp.Ln | exp.Log | exp.Sqrt):
        value, least = quoted(node.this), 0 if isinstance(node, exp.Sqrt) else 1
        clamped = f"{node.key.upper()}(GREATEST({value}, {least}))"
        return f"clamp its argument, as in CASE WHEN {value} >= {least} THEN {clamped} END; or "
    return f"clamp it and keep missing values, as in {case}; or "


_ONE_ROW = "one row can change it, however many rows there are"
_A_VALUE = "it returns the value of a single row"
_ALL_VALUES = "it returns the values of single rows"
_NO_BOUNDS = "how far one row can change it has no limit that is known beforehand"
_MOMENTS = "it follows from other aggregates, which have intervals"

_SHARE = "use AVG(CASE WHEN {} THEN 1 ELSE 0 END), the share of rows in which it is true"
_MOST = "use {centre}, over many rows"
_COUNTS = "use COUNT(*) with GROUP BY {}"
_KEYS = (
    "use SELECT DISTINCT {}, the values that may be published, or COUNT(*) with GROUP BY {}; such "
    "an answer can be listed in a statement around it"
)
_SPREAD = "use STDDEV({}) or quantiles, as in QUANTILE_CONT({}, [0.1, 0.5, 0.9])"

_REASONS: dict[str, tuple[str, str]] = {
    "approx_count_distinct": (
        "its sketch has an error that one row can change, in addition to the noise",
        "use COUNT(DISTINCT {}), which is exact before noise, of the id or of declared values",
    ),
    **dict.fromkeys(("bool_and", "bool_or", "every"), (_ONE_ROW, _SHARE)),
    **dict.fromkeys(
        ("any_value", "first", "last", "arbitrary", "arg_max", "arg_min", "max_by", "min_by"),
        (_A_VALUE, _MOST),
    ),
    **dict.fromkeys(
        ("array_agg", "list", "listagg", "string_agg", "group_concat"), (_ALL_VALUES, _KEYS)
    ),
    **dict.fromkeys(("histogram", "approx_top_k"), (_ALL_VALUES, _COUNTS)),
    **dict.fromkeys(
        ("product", "geomean", "geometric_mean", "bit_and", "bit_or", "bit_xor"),
        (_NO_BOUNDS, "use SUM({}) or AVG({})"),
    ),
    **dict.fromkeys(
        ("skewness", "kurtosis", "kurtosis_pop", "mad"), (_NO_BOUNDS, _SPREAD)
    ),
    "sem": (_MOMENTS, "use STDDEV({}) / SQRT(COUNT({}))"),
    "entropy": (_NO_BOUNDS, f"{_COUNTS}, and compute it from the counts"),
    "regr_count": (_MOMENTS, "use COUNT(*) FILTER (WHERE {0} IS NOT NULL AND {1} IS NOT NULL)"),
    "regr_avgx": (_MOMENTS, "use AVG({1}) FILTER (WHERE {0} IS NOT NULL)"),
    "regr_avgy": (_MOMENTS, "use AVG({0}) FILTER (WHERE {1} IS NOT NULL)"),
    "regr_sxx": (_MOMENTS, "use VAR_POP({1}) * COUNT(*) with WHERE {0} IS NOT NULL"),
    "regr_syy": (_MOMENTS, "use VAR_POP({0}) * COUNT(*) with WHERE {1} IS NOT NULL"),
    "regr_sxy": (_MOMENTS, "use COVAR_POP({0}, {1}) * COUNT(*)"),
}  # fmt: skip


def reason_against(name: str) -> tuple[str, str] | None:
    """Return why an aggregate has no answer, and what to use instead; None for other names."""
    return _REASONS.get(name.lower())


def refuse_unanswerable(node: exp.Expr, columns: Mapping[str, Column]) -> None:
    """Raise QueryError DP-SQL-006 for an aggregate that has no answer with noise.

    `columns`: the declared columns, whose types decide what is answered instead.
    """
    node = node.this if isinstance(node, exp.IgnoreNulls) else node
    name = function_name(node)
    found = reason_against(name)
    if found is not None:
        reason, instead = found
        is_named = isinstance(node, exp.AnonymousAggFunc | exp.Anonymous)
        arguments = node.expressions if is_named else [node.this, node.args.get("expression")]
        shown = [_argument_text(one) for one in arguments if isinstance(one, exp.Expr)]
        x = shown[0] if shown else "x"
        fix = instead.replace("{}", "{0}").format(*shown, "x", "x", centre=_centre(x, columns))
        refuse(f"{written_name(node)}({', '.join(shown)})", reason, fix)


def _centre(x: str, columns: Mapping[str, Column]) -> str:
    """Return the aggregates that answer with a typical value of a column."""
    kind = getattr(columns.get(x, None), "type", "cut" if x in columns else "")
    if kind in ("category", "cut"):
        return f"MODE({x})"
    if kind in ("date", "timestamp"):
        return f"MEDIAN({x})"
    if kind == "text":
        return f"COUNT(*) with GROUP BY {x} and private_keys"
    return (
        f"MODE({x}), MEDIAN({x}) or AVG({x})" if kind == "integer" else f"MEDIAN({x}) or AVG({x})"
    )


def _argument_text(argument: exp.Expr) -> str:
    """Return the SQL of an argument of an aggregate, without DISTINCT and ORDER BY."""
    while isinstance(argument, exp.Distinct | exp.Order):
        argument = argument.this or argument.expressions[0]
    return quoted(argument)
