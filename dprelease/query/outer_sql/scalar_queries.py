"""Sub-queries in the place of one value, which may have several rows."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from dprelease.query.sql_rewrites.unanswerable import refuse

_SELECTING = ("joins", "where", "having", "qualify", "limit", "distinct", "group")


def check_scalar_queries(tree: exp.Query, tables: Collection[str]) -> None:
    """Let a sub-query in the place of a value be NULL if it has several rows.

    `tables`: the noised tables with a row for each key.

    Raises QueryError: DP-SQL-006 for a sub-query that has all rows of such a table.
    """
    names = {name.casefold() for name in tables}
    ctes = {cte.alias.casefold(): cte.this for cte in tree.find_all(exp.CTE)}
    for node in list(tree.find_all(exp.Subquery)):
        if isinstance(node.parent, exp.Subquery | None) or _is_table(node):
            continue
        query = node.unnest()
        if _has_all_rows(query, names, ctes):
            reason = "a value is needed, and the sub-query has a row for each key"
            refuse(node, reason, "write an aggregate, as in (SELECT MAX(n) FROM t), or a condition")
        if not _has_one_row(query):
            node.set("this", _one_or_null(query))


def _is_table(node: exp.Subquery) -> bool:
    """Return whether a sub-query stands in a place where it may have several rows."""
    if isinstance(node.parent, exp.From | exp.Join):
        return node.arg_key == "this"
    is_part = isinstance(node.parent, exp.Exists | exp.SetOperation | exp.CTE)
    return is_part or node.arg_key == "query"  # IN (SELECT ...)


def _has_all_rows(query: exp.Expr, names: set[str], ctes: dict[str, exp.Expr]) -> bool:
    """Return whether a query certainly has a row for each row of a table with keys."""
    seen: set[str] = set()
    while isinstance(query, exp.Select):
        source = query.args.get("from_")
        if source is None or any(query.args.get(name) for name in _SELECTING) or _aggregates(query):
            return False
        query = source.this
        if isinstance(query, exp.Subquery):
            query = query.unnest()
        elif isinstance(query, exp.Table):
            name = query.name.casefold()
            if name in names:
                return True
            if name not in ctes or name in seen:
                return False
            seen.add(name)
            query = ctes[name]
    return False


def _aggregates(select: exp.Select) -> bool:
    """Return whether the SELECT list of a query has aggregates, except those of windows."""
    return any(
        node.find_ancestor(exp.Window, exp.Query) is select
        for item in select.expressions
        for node in item.find_all(exp.AggFunc)
    )


def _has_one_row(query: exp.Expr) -> bool:
    """Return whether a query has one row at most: an aggregate of all rows, or LIMIT 1."""
    limit = query.args.get("limit")
    if isinstance(limit, exp.Limit) and limit.expression == exp.Literal.number(1):
        return True
    return isinstance(query, exp.Select) and not query.args.get("group") and _aggregates(query)


def _one_or_null(query: exp.Expr) -> exp.Select:
    """Return a query for the only row of a query; its value is NULL if there are several rows."""
    count = exp.LTE(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(1))
    first = exp.First(this=exp.Columns(this=exp.Star()))
    alias = exp.TableAlias(this=exp.to_identifier("dprelease_rows"))
    value = exp.Case(ifs=[exp.If(this=count, true=first)])
    source = exp.From(this=exp.Subquery(this=query, alias=alias))
    return exp.Select(expressions=[value], from_=source)
