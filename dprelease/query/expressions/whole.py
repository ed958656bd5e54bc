"""Refuse statements and expressions with any argument that the rules do not read.

The parser turns a text into a tree, and rules that read the tree may overlook a part of the tree: a
sample of the rows, a version of the table, a second argument. So `KNOWN` lists, for every node
type, the arguments that the rules read. A text with any other argument is refused. If the parser
itself drops a word, so that the word is missing in the tree, the text is refused as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects import DuckDB

from dprelease.numerics.rounding import exact

_ONE, _TWO, _MANY = ("this",), ("this", "expression"), ("this", "expressions")
_BY_ARGS: dict[tuple[str, ...], tuple[type, ...]] = {
    (): (exp.Null,),
    _ONE: (
        exp.AnyValue, exp.Avg, exp.CountIf, exp.DayOfWeek, exp.Dayname, exp.Monthname, exp.Sign,
        exp.Date, exp.StddevPop, exp.VariancePop,
        exp.Boolean, exp.Ceil, exp.Day, exp.DayOfWeekIso, exp.DayOfYear, exp.Floor,
        exp.From, exp.Having, exp.Hour, exp.Length, exp.Lower, exp.Max, exp.Median, exp.Min,
        exp.Minute, exp.Mode, exp.Month, exp.Neg, exp.Not, exp.Paren, exp.Quarter, exp.Second,
        exp.Ln, exp.Sqrt, exp.TimeToUnix,
        exp.Stddev, exp.StddevSamp, exp.Sum, exp.Trim, exp.TsOrDsToDate, exp.Upper, exp.Var,
        exp.Variance, exp.Week, exp.WeekOfYear, exp.Where, exp.Year, exp.Abs,
    ),
    _TWO: (
        exp.Add, exp.And, exp.Filter, exp.IntDiv, exp.Pow, exp.WithinGroup,
        exp.DateAdd, exp.DateSub, exp.Div, exp.EQ, exp.RegrR2, exp.GT, exp.GTE, exp.Is,
        exp.Left, exp.Log, exp.Mod, exp.Mul, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Nullif,
        exp.LT, exp.LTE, exp.Or, exp.PercentileCont, exp.PercentileDisc, exp.StartsWith, exp.Sub,
    ),
    _MANY: (exp.Coalesce, exp.In),
    ("this", "expression", "negate"): (exp.ILike, exp.Like),
}  # fmt: skip
KNOWN: dict[type, tuple[str, ...]] = {
    **{kind: args for args, kinds in _BY_ARGS.items() for kind in kinds},
    exp.Select: (
        "expressions", "from_", "from", "joins", "where", "group", "having", "order", "limit",
    ),
    exp.Alias: ("this", "alias"),
    exp.ApproxQuantile: ("this", "quantile"),
    exp.Between: ("this", "low", "high"),
    exp.Case: ("this", "ifs", "default"),
    exp.Cast: ("this", "to"),
    exp.Column: ("this", "table"),
    exp.Count: ("this", "big_int"),
    exp.DataType: ("this", "expressions"),
    exp.DateDiff: ("this", "expression", "unit", "date_part_boundary"),
    exp.Distinct: ("expressions",),
    exp.Greatest: ("this", "expressions", "ignore_nulls"),
    exp.Group: ("expressions", "all"),
    exp.Identifier: ("this", "quoted"),
    exp.If: ("this", "true", "false"),
    exp.Least: ("this", "expressions", "ignore_nulls"),
    exp.Limit: ("expression",),
    exp.Literal: ("this", "is_string"),
    exp.Order: ("expressions",),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Quantile: ("this", "quantile"),
    exp.Round: ("this", "decimals"),
    exp.Array: ("expressions", "value_constructor"),
    exp.Extract: ("this", "expression"),
    exp.DateBin: ("this", "expression"),
    exp.Interval: ("this", "unit"),
    exp.Join: ("this", "on", "using", "side", "kind", "method"),
    exp.Star: ("except_", "replace"),
    exp.Subquery: ("this", "alias"),
    exp.TimeToStr: ("this", "format"),
    exp.TimestampTrunc: ("this", "unit"),
    exp.DateTrunc: ("this", "unit", "unabbreviate"),
    exp.DateFromParts: ("year", "month", "day"),
    exp.TryCast: ("this", "to", "safe"),
    exp.Substring: ("this", "start", "length"),
    exp.Table: ("this", "alias", "db"),
    exp.TableAlias: ("this",),
}  # fmt: skip
"""The arguments that the rules read, by node type. False or empty arguments are ignored."""

LONGEST = 60
_WORDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING}
_PHRASES = {
    "lambda",
    "nulls",
    "first",
    "last",
    "within",
    "unbounded",
    "preceding",
    "following",
    "current",
    "row",
}
"""The keywords that the tree stores as booleans or texts."""

_NAMED: dict[tuple[type, str], str] = {
    (exp.Table, "sample"): "TABLESAMPLE",
    (exp.Table, "when"): "AT, another version of the table",
    (exp.TableAlias, "columns"): "other names for the columns of the table",
    (exp.Limit, "limit_options"): "LIMIT by percent, or with ties",
    (exp.Limit, "expressions"): "LIMIT ... BY",
    (exp.Order, "this"): "ORDER BY inside an aggregate",
    (exp.Ordered, "with_fill"): "WITH FILL",
    (exp.Column, "db"): "a column's name of three parts",
}


def unread_argument_text(tree: exp.Expr) -> str | None:
    """Return a text that names the first unlisted argument; None if all arguments are listed.

    Node types that are not listed are refused by the rules that read the tree.
    """
    return next(_unread_arguments(tree), None)


def _unread_arguments(tree: exp.Expr) -> Iterator[str]:
    """Yield the names of the clauses of a statement that no code reads."""
    for node in tree.walk():
        known = KNOWN.get(type(node))
        for name, value in node.args.items() if known is not None else ():
            if value not in (None, False, "") and value != [] and name not in (known or ()):
                yield _clause_name(node, name, value)


def _clause_name(node: Any, name: str, value: object) -> str:
    """Return the name of an argument of a node, as a refusal shows it."""
    named = _NAMED.get((type(node), name))
    if named is not None:
        return named
    if isinstance(node, exp.Select | exp.Table | exp.Group):
        return name.rstrip("_").replace("_", " ").upper()
    if isinstance(node, exp.Func):
        parts = value if isinstance(value, list) else [value]
        shown = ", ".join(p.sql("duckdb") if isinstance(p, exp.Expression) else name for p in parts)
        return f"the further argument {shown[:LONGEST]} of {node.sql_name()}"
    return f"{name.rstrip('_').replace('_', ' ')} of {type(node).__name__.upper()}"


def dropped_word_text(tree: exp.Expr, text: str, dialect: type[DuckDB] = DuckDB) -> str | None:
    """Return a text that quotes a name or a constant that the parser dropped, if there is one."""
    tokens = list(dialect().tokenize(text))
    words = Counter(_normalized_word(text) for text in _names_and_constants(tokens))
    dropped = words - _words_of_tree(tree) - _interval_texts(tree)
    return next((f"'{word}', which nothing reads" for word in dropped), None)


def unwritten_word_text(tree: exp.Expr, text: str) -> str | None:
    """Return a text that quotes a constant of a tree that its SQL lacks, if there is one."""
    words = Counter(_normalized_word(token.text) for token in DuckDB().tokenize(text))
    missing = _words_of_tree(tree) - words
    return next((f"'{word}', which nothing reads" for word in missing), None)


def _interval_texts(tree: exp.Expr) -> Counter[str]:
    """Return the texts of intervals such as '10 days', which the parser splits."""
    parts = [(node.this, node.args.get("unit")) for node in tree.find_all(exp.Interval)]
    return Counter(f"{one.name} {unit.name}".casefold() for one, unit in parts if one and unit)


def _words_of_tree(tree: exp.Expr) -> Counter[str]:
    """Return how often each name and constant occurs in a tree."""
    return Counter(_normalized_word(str(node.this)) for node in tree.walk() if _contains_word(node))


def _names_and_constants(tokens: list[Token]) -> Iterator[str]:
    """Yield the names and constants among the tokens, without keywords and functions."""
    kinds = [None, *(token.token_type for token in tokens), None]
    for before, token, after in zip(kinds, tokens, kinds[2:], strict=False):
        if token.token_type not in _WORDS:
            continue
        if token.token_type is TokenType.NUMBER and before is TokenType.DOT:
            yield f"0.{token.text}"
            continue
        called = after is TokenType.L_PAREN or token.text.casefold() in _PHRASES
        if token.token_type is not TokenType.VAR or not called:
            yield token.text


def _contains_word(node: object) -> bool:
    """Return whether a node is a literal, an identifier or a keyword."""
    return isinstance(node, exp.Literal | exp.Identifier | exp.Var | exp.Placeholder)


def _normalized_word(text: str) -> str:
    """Return a number in one spelling, or a word in lower case."""
    try:
        return str(exact(text))
    except ValueError:
        return text.casefold()[:LONGEST]
