"""The nodes of a SELECT that are computed from noised values, and those that are measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from sqlglot import exp

from dprelease.errors import Place, QueryError

LONGEST = 60
"""Maximum number of characters that a message or a column name quotes of an expression."""

SQL_PLACE = Place(key="sql")

AFTER_NOISE = (
    "expressions",
    "having",
    "qualify",
    "windows",
    "distinct",
    "order",
    "limit",
    "offset",
    "with_",
)
"""The clauses of a SELECT that are computed from noised values, once its aggregates are."""

WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""The nodes that may stand around an aggregate."""

AGGREGATE_NODES = (exp.AggFunc, *WRAPPERS)


def refuse(code: str, **fields: Any) -> NoReturn:
    """Raise a query error about the statement."""
    raise QueryError(code, place=SQL_PLACE, **fields)


def quoted(node: exp.Expr) -> str:
    """Return the beginning of the SQL of a node, for a message."""
    return sql_text(node)[:LONGEST]


def sql_text(node: exp.Expr) -> str:
    """Return the SQL of a node, without comments."""
    return node.sql("duckdb", comments=False)


def alias_of(item: exp.Expr) -> str:
    """Return the name after AS of an item of a SELECT list, or ""."""
    return item.alias if isinstance(item, exp.Alias | exp.Subquery) else ""


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression, without those of nested queries."""
    return node.walk(prune=lambda part: isinstance(part, exp.Query))


INTERVALS = ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH")
"""The functions that return an end of the interval of an aggregate."""


def is_interval(node: exp.Expr) -> bool:
    """Return whether a node is one of the functions in `INTERVALS`."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in INTERVALS


def measured_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost aggregates of an expression, except the functions of windows."""
    todo = [(node, False)]
    while todo:
        part, of_window = todo.pop()
        if isinstance(part, exp.Query):
            continue
        if isinstance(part, AGGREGATE_NODES) and not of_window:
            yield part
            continue
        heads = isinstance(part, exp.Window) or (of_window and isinstance(part, WRAPPERS))
        children = list(part.iter_expressions())
        todo += [(child, heads and child is part.this) for child in reversed(children)]


def measured_nodes_of(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the aggregates of a SELECT, in the order of its clauses."""
    for part in clauses_after_noise(select):
        yield from measured_nodes(part)


def own_nodes_of(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the nodes of all clauses of a SELECT, without those of nested queries."""
    for part in (*clauses_after_noise(select), select.args.get("where"), select.args.get("group")):
        if part is not None:
            yield from own_nodes(part)


def clauses_after_noise(select: exp.Select) -> list[exp.Expr]:
    """Return the clauses of a SELECT that may contain aggregates."""
    parts = [*select.expressions, *(select.args.get("windows") or ())]
    parts += [select.args.get(name) for name in ("having", "qualify", "order", "distinct")]
    return [part for part in parts if part is not None]


def refuse_equal_names(items: Iterable[exp.Expr]) -> None:
    """Refuse a name that two columns of a SELECT list have after AS."""
    names = Counter(alias_of(item).casefold() for item in items if isinstance(item, exp.Alias))
    for name, count in names.items():
        if count > 1:
            fix = "give each column of the SELECT list a name of its own after AS"
            refuse("DP-SQL-006", name=f"The name {name[:LONGEST]} for two columns", nearest=fix)
