"""Sub-queries of rows: a declared table whose rows are filtered, with values computed in each row.

Such a sub-query is merged into the SELECT around it: its columns are replaced by their expressions,
and its conditions are added.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dprelease.query.sql_rewrites.joins import joined_source
from dprelease.query.sql_rewrites.refusal import quoted, refuse
from dprelease.query.sql_rewrites.row_sources import Source, resolved, visible
from dprelease.schema.table import Table

MOST_NODES = 500
"""Maximum number of nodes of a computed value, in which each use of a name counts again."""

ROWS_CLAUSES = {"expressions", "from_", "joins", "where", "order"}
"""The clauses of a sub-query that is merged; the order of rows has no influence on an answer."""

_REASONS: dict[str, tuple[str, str]] = {
    "distinct": (
        "whether a person's row remains would depend on the rows of other people",
        "leave out DISTINCT, and use COUNT(DISTINCT ...) of the id or of declared values",
    ),
    "limit": (
        "which rows remain would depend on the rows of other people and on their order",
        "select rows by a condition in WHERE; LIMIT may follow the aggregates",
    ),
    "group": (
        "aggregates for each person are no part of one statement",
        "declare a table with one row for each person, or aggregate the rows themselves",
    ),
    "qualify": (
        "window functions over rows combine the rows of several people",
        "select rows by a condition in WHERE",
    ),
    "sample": (
        "a random selection of rows would change the privacy guarantee",
        "leave out the sample",
    ),
}
_ANOTHER_CLAUSE = (
    "a sub-query of rows may only select columns, compute values in each row, and filter rows",
    "use SELECT, FROM and WHERE in it",
)


def table_of(node: exp.Expr, tables: Mapping[str, Table]) -> Table | None:
    """Return the declared table that a node names, if it does."""
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        return None if node.args.get("db") else tables.get(node.name)
    return None


def source_of(node: exp.Expr, tables: Mapping[str, Table]) -> Source | None:
    """Return the source that a node of FROM names; None if it is no declared table.

    Raises QueryError: DP-SQL-006 for a sub-query that can't be merged, and DP-WHERE-005 for unknown
    columns.
    """
    if isinstance(node, exp.Subquery):
        if not isinstance(node.this, exp.Select):
            reason = "rows of several sub-queries would be combined"
            fix = "write one sub-query, or several statements"
            refuse("A set operation over rows", reason, fix)
        return _merged(node.this, node.alias, tables)
    table = table_of(node, tables)
    if table is None:
        return None
    columns = {name: exp.column(name, quoted=True) for name in table.columns}
    return Source(node.alias or table.name, table, dict(columns))


def _merged(select: exp.Select, alias: str, tables: Mapping[str, Table]) -> Source | None:
    """Return the source of a sub-query's rows."""
    for name, value in select.args.items():
        if value and name not in ROWS_CLAUSES:
            reason, instead = _REASONS.get(name.rstrip("_"), _ANOTHER_CLAUSE)
            clause = name.rstrip("_").replace("_", " ").upper()
            refuse(f"{clause} in a sub-query of rows", reason, instead)
    inner = sources(select, tables)
    if inner is None:
        return None
    seen: dict[str, exp.Expr] = {}
    where = select.args.get("where")
    conditions = [*inner.conditions]
    if where is not None:
        aliases = {item.alias: item.this for item in select.expressions if item.alias}
        conditions.append(resolved(where.this, inner, aliases))
    for item in select.expressions:
        _refuse_other_rows(item)
        if _is_star(item):
            seen |= _star_columns(item, inner)
            continue
        body = resolved(item.unalias(), inner, seen)
        if sum(1 for _ in body.walk()) > MOST_NODES:
            reason = "its names stand for an expression that is too long"
            refuse(item, reason, "write shorter expressions, or declare computed columns")
        name = item.alias or (body.name if isinstance(body, exp.Column) else quoted(item))
        if name in seen:
            refuse(
                item, f"the sub-query has two columns named {name[:60]}", "write * EXCLUDE (...)"
            )
        seen[name] = body
    return Source(alias, inner.table, seen, conditions, inner.join)


def _refuse_other_rows(item: exp.Expr) -> None:
    """Refuse what reads more than one row in a sub-query of rows."""
    for node in item.walk():
        if isinstance(node, exp.Window):
            refuse(node, *_REASONS["qualify"])
        if isinstance(node, exp.AggFunc):
            refuse(node, *_REASONS["group"])


def _is_star(item: exp.Expr) -> bool:
    """Return whether an item is *, or t.*."""
    return isinstance(item, exp.Star) or (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


def _star_columns(item: exp.Expr, source: Source) -> dict[str, exp.Expr]:
    """Return the columns of *, without those of EXCLUDE and with those of REPLACE."""
    star = item.this if isinstance(item, exp.Column) else item
    if isinstance(item, exp.Column) and item.table != source.alias:
        refuse(item, "it names one table of several", "use *, or list the columns")
    found = {name: column.copy() for name, column in visible(source).items()}
    for excluded in star.args.get("except_") or []:
        found.pop(excluded.name, None)
    for replacement in star.args.get("replace") or []:
        found[replacement.alias] = resolved(replacement.this, source, {})
    if star.args.get("rename"):
        refuse(item, "columns are renamed by AS only", "list the columns, as in age AS years")
    return found


def sources(select: exp.Select, tables: Mapping[str, Table]) -> Source | None:
    """Return the source of a SELECT, with its join; None if FROM names no declared table."""
    clause = select.args.get("from_")
    found = None if clause is None else source_of(clause.this, tables)
    joins = select.args.get("joins") or []
    if found is None or not joins:
        return found
    if len(joins) > 1 or found.join is not None:
        fix = "join one public table; put the columns of several public tables into one table"
        refuse("A third table", "a query joins two tables at most", fix)
    right = source_of(joins[0].this, tables)
    return None if right is None else joined_source(select, joins[0], found, right)
