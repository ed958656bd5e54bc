"""The SQL functions that stand for aggregates, and the functions that a message suggests."""

from __future__ import annotations

from sqlglot import exp

from dprelease.errors.suggestions import nearest_name
from dprelease.query.outer_sql.functions import NAMES
from dprelease.schema.aggregate_keywords import WORDS
from dprelease.schema.field_types import Text
from dprelease.schema.yaml_text.reader import Plain

KEYWORD_OF_FUNCTION: dict[type, str] = {
    exp.FUNCTION_BY_NAME[name]: kind
    for kind, word in WORDS.items()
    for name in word.sql
    if name in exp.FUNCTION_BY_NAME and word.kind is Text and name != "COUNT"
}
"""The aggregate keyword of each SQL function that has one column as its argument."""

WEIGHTED_AVERAGE = ("WEIGHTED_AVG", "WAVG")
"""DuckDB's names of weighted means, for which sqlglot has no class."""

PAIR_KEYWORDS: dict[type, str] = {
    exp.CovarSamp: "covariance", exp.CovarPop: "covariance_pop", exp.Corr: "correlation",
    exp.RegrSlope: "slope", exp.RegrIntercept: "intercept",
}  # fmt: skip
"""The aggregate keyword of each SQL function of two columns; the outcome is the first one."""

FRACTION_ARGUMENT: dict[type[exp.Expr], str] = {
    exp.PercentileCont: "expression",
    exp.PercentileDisc: "expression",
    exp.Quantile: "quantile",
    exp.ApproxQuantile: "quantile",
}
"""The name of the argument that holds the fraction of a quantile, by quantile function."""

AGGREGATES = frozenset({exp.Count, *KEYWORD_OF_FUNCTION, *FRACTION_ARGUMENT, *PAIR_KEYWORDS})
SUGGESTED_FUNCTIONS = tuple(word.sql[0] for word in WORDS.values() if word.sql)
ADVICE = f"use {', '.join(SUGGESTED_FUNCTIONS[:-1])} or {SUGGESTED_FUNCTIONS[-1]}"
FUNCTIONS = (*SUGGESTED_FUNCTIONS, *sorted({name.upper() for name in NAMES}))
"""The functions that a message may suggest for an unknown name."""

FUNCTION_OF_KEYWORD = {"size": "COUNT", "to_char": "STRFTIME"} | {
    name: word.sql[0]
    for kind, word in WORDS.items()
    for name in (kind, word.pandas)
    if word.sql and name
}
"""The SQL functions of aggregates, by the aggregates' names in pandas and in release files.

STRFTIME has the name TO_CHAR in other databases."""


def is_measured(node: exp.Expr) -> bool:
    """Return whether an aggregate has an answer with noise."""
    return type(node) in AGGREGATES or is_weighted_mean(node)


def is_weighted_mean(node: exp.Expr) -> bool:
    """Return whether a node is DuckDB's weighted mean, for which sqlglot has no class."""
    is_other = isinstance(node, exp.AnonymousAggFunc) and len(node.expressions) == 2
    return is_other and str(node.this).upper() in WEIGHTED_AVERAGE


def pair_of(node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the two arguments of an aggregate of two columns; None for other aggregates."""
    if is_weighted_mean(node):
        first, second = node.expressions
        return first, second
    return (node.this, node.expression) if type(node) in PAIR_KEYWORDS else None


def pair_spec(node: exp.Expr, first: str, second: str) -> tuple[str, Plain]:
    """Return the keyword and the declaration of an aggregate of two columns."""
    kind = PAIR_KEYWORDS.get(type(node), "weighted_mean")
    if kind == "weighted_mean":
        return kind, {"of": first, "weight": second}
    return kind, {"of": first, "on": second} if kind in ("slope", "intercept") else [first, second]


def suggest_functions(name: str) -> str:
    """Return a text with the most similar function, and where all functions are listed."""
    meant = FUNCTION_OF_KEYWORD.get(name.lower()) or nearest_name(name, FUNCTIONS)
    found = f"did you mean {meant.upper()}? " if meant else ""
    if name.lower() in WORDS and name.lower() not in FUNCTION_OF_KEYWORD:
        found = f"declare a column with `{name.lower()}` in a release file; "
    return f"{found}the manual lists the functions, on the page 'Functions in SQL'"
