"""Refusals of functions and syntax over noised values, each with what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from dprelease.query.outer_sql.functions import (
    LEFT_OUT,
    NAMES,
    NOT_PURE,
    ZONES,
    function_name,
    written_name,
)
from dprelease.query.outer_sql.syntax import may_fail
from dprelease.query.select_nodes import is_interval, quoted, refuse
from dprelease.query.sql_functions import suggest_functions
from dprelease.query.sql_rewrites.unanswerable import refuse_unanswerable
from dprelease.schema.table import Table


def refuse_functions_as_names(tree: exp.Query, tables: Mapping[str, Table]) -> None:
    """Refuse names such as "current_date" of no column, for which the engine calls a function."""
    known = {name.casefold() for table in tables.values() for name in table.columns}
    known |= {item.alias.casefold() for item in tree.find_all(exp.Alias)}
    known |= {name.name.casefold() for one in tree.find_all(exp.TableAlias) for name in one.columns}
    for column in tree.find_all(exp.Column):
        name = column.name.casefold()
        if not column.table and name in NOT_PURE and name not in known:
            reason, fix = NOT_PURE[name]
            refuse("DP-SQL-006", name=f"The function {name.upper()}{reason}", nearest=fix)


def refuse_unknown_functions(nodes: Iterable[exp.Expr]) -> None:
    """Refuse functions that neither rows nor noised values have."""
    for node in nodes:
        is_call = isinstance(node, exp.Anonymous) and not is_interval(node)
        if is_call and function_name(node) not in NAMES:
            refuse_node(node)


def refuse_node(node: exp.Expr) -> None:
    """Refuse a node that is not allowed over noised values."""
    if is_interval(node):
        name = f"{quoted(node)}, because it needs the aggregate itself,"
        fix = "use it in the SELECT of the aggregate, as in DP_INTERVAL_LOW(COUNT(*)) AS low"
        refuse("DP-SQL-006", name=name, nearest=fix)
    if isinstance(node, exp.Comprehension):
        fix = "write list_transform(l, lambda x: x + 1), or list_filter(l, lambda x: x > 1)"
        refuse("DP-SQL-006", name="A list comprehension", nearest=fix)
    if isinstance(node, exp.Anonymous):
        refuse_unanswerable(node, {})
    if may_fail(node):
        name = f"{written_name(node)} with a computed value, because it could fail for some values,"
        refuse("DP-SQL-006", name=name, nearest="write a constant, as in LAG(n, 1) or LIMIT 10")
    if isinstance(node, exp.AtTimeZone):
        reason, fix = ZONES
        refuse("DP-SQL-006", name=f"AT TIME ZONE{reason}", nearest=fix)
    name = written_name(node)[:60] if isinstance(node, exp.Func) else ""
    if name:
        reason, fix = LEFT_OUT.get(name.lower(), ("", suggest_functions(name)))
        kind = "unknown function" if isinstance(node, exp.Anonymous) and not reason else "function"
        refuse("DP-SQL-006", name=f"The {kind} {name}{reason}", nearest=fix)
    refuse("DP-SQL-004", what=quoted(node))
