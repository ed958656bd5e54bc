"""Queries over public tables alone, whose results are constants of a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from dprelease.query.outer_sql.null_safe import replace_fallible
from dprelease.query.outer_sql.parsing import refuse_node
from dprelease.query.outer_sql.strict_types import type_constants
from dprelease.query.outer_sql.syntax import unlisted_nodes
from dprelease.query.select_nodes import quoted, refuse
from dprelease.schema.table import Table

PublicRows = Callable[[exp.Query], Sequence[tuple[object, ...]]]
"""Returns the rows of a query over public tables."""


def public_tables_of(query: exp.Expr, tables: Mapping[str, Table]) -> dict[str, Table]:
    """Return the tables that a query reads, by name; empty unless all of them are public."""
    read = list(query.find_all(exp.Table))
    found = {one.name: tables[one.name] for one in read if one.name in tables}
    is_public = all(one.name in found and not one.args.get("db") for one in read)
    return found if is_public and all(table.public for table in found.values()) else {}


def safe_public_query(query: exp.Query, tables: Mapping[str, Table]) -> str:
    """Return the SQL of a query that reads these tables, and nothing else.

    Raises QueryError: DP-SQL-006 for a function that reads anything else.
    """
    tree = query.copy()
    for node in unlisted_nodes(tree, [name.casefold() for name in tables]):
        refuse_node(node)
    replace_fallible(tree)
    type_constants(tree)
    return tree.sql("duckdb", comments=False)


def columns_read(tree: exp.Query, table: Table) -> tuple[str, ...]:
    """Return the columns of a public table that a query names, or all if it has a *."""
    names = {node.name.casefold() for node in tree.find_all(exp.Identifier)}
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
    # A NATURAL JOIN reads columns that it doesn't name.
    if stars or any(join.args.get("method") for join in tree.find_all(exp.Join)):
        return tuple(table.columns)
    read = tuple(name for name in table.columns if name.casefold() in names)
    # COUNT(*) names no column, but a table without columns has no rows.
    return read or tuple(table.columns)[:1]


def refuse_hidden_tables(select: exp.Select, tables: Iterable[str], ctes: Iterable[str]) -> None:
    """Refuse names in conditions and values of rows that mean both a table and a CTE.

    `ctes`: the names of CTEs in lower case. The tables of FROM and JOIN are already replaced.
    """
    hidden = {name.casefold() for name in tables} & {*ctes}
    clauses = [select.args["from_"], *(select.args.get("joins") or [])]
    sources = {id(table) for one in clauses for table in one.this.find_all(exp.Table)}
    for table in select.find_all(exp.Table) if hidden else ():
        if id(table) not in sources and table.name.casefold() in hidden:
            fix = "give the sub-query in WITH another name"
            name = f"'{table.name}', because a table and a sub-query in WITH have this name,"
            refuse("DP-SQL-006", name=name, nearest=fix)


def no_rows(query: exp.Query) -> Sequence[tuple[object, ...]]:
    """Refuse a query over public tables where none can be read."""
    refuse("DP-SQL-006", name=quoted(query), nearest="list its values, as in IN ('a', 'b')")
