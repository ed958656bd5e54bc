"""Sub-queries and joins of public tables, replaced by their values before rows of people are read.

A row of a statement then reads constants in place of a public table: IN (SELECT code ...) is IN
with a list, and a column of a joined table is a CASE with an arm for each of its values. The rows
that count, and what each of them contributes, are the same as with the public table, and depend on
one row about people and on public data alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from dprelease.errors import QueryError
from dprelease.query.expressions.term_checker import LENGTH_LIMIT
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.query.outer_sql.parameters import constant
from dprelease.query.outer_sql.public_queries import PublicRows, public_tables_of
from dprelease.query.sql_rewrites.aggregate_forms import own_aggregates
from dprelease.query.sql_rewrites.row_sources import conjuncts
from dprelease.query.sql_rewrites.unanswerable import PLACE, quoted, refuse
from dprelease.schema.columns import CategoryColumn, Column
from dprelease.schema.table import Table

MOST_LETTERS = LENGTH_LIMIT // 2
"""Maximum number of characters of the values in place of one table; expressions have a limit."""


def insert_public_values(
    select: exp.Select, tables: Mapping[str, Table], rows_of: PublicRows
) -> None:
    """Replace the sub-queries of public tables in the conditions and aggregates of a SELECT."""
    for clause in [
        select.args.get("where"),
        *_keys(select),
        *select.find_all(exp.AggFunc, exp.Filter),
    ]:
        _write_lists(clause, tables)
    for node in list(_row_queries(select)):
        known = public_tables_of(node, tables)
        if known and isinstance(node, exp.Exists):
            node.replace(_exists(node, known, tables, rows_of))
        elif known and isinstance(node, exp.In):
            node.replace(_in_values(node, known, tables, rows_of))
        elif known and isinstance(node, exp.Subquery):
            node.replace(_single_value(node, known, tables, rows_of))


def _write_lists(clause: exp.Expr | None, tables: Mapping[str, Table]) -> None:
    """Write x = ANY (SELECT ...) as IN, and x <> ALL (SELECT ...) as NOT IN."""
    for node in [] if clause is None else list(clause.find_all(exp.Any, exp.All)):
        around, query = node.parent, node.this
        query = query.this if isinstance(query, exp.Subquery) else query
        is_public = isinstance(query, exp.Query) and bool(public_tables_of(query, tables))
        if around is None or not is_public:
            continue
        listed = exp.In(this=around.this.copy(), query=exp.Subquery(this=query.copy()))
        if isinstance(node, exp.Any) and isinstance(around, exp.EQ):
            around.replace(listed)
        elif isinstance(node, exp.All) and isinstance(around, exp.NEQ):
            around.replace(exp.Not(this=listed))
        else:
            fix = "compare with the MIN or MAX of the sub-query, as in x > (SELECT MAX(y) FROM t)"
            refuse(around, "rows are compared with one value, or with a list of equal ones", fix)


def _row_queries(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield EXISTS, IN and values of sub-queries that a SELECT computes for each row."""
    parts: list[exp.Expr | None] = [select.args.get("where"), select.args.get("group")]
    parts += _keys(select)
    parts += [one for item in select.expressions for one in own_aggregates(item)]
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    parts += [where for one in clauses if one is not None for where in one.find_all(exp.Where)]
    for part in parts:
        yield from () if part is None else _outermost_queries(part)


def _keys(select: exp.Select) -> list[exp.Expr]:
    """Return the items of the SELECT list that are keys, also by their alias or position."""
    group = select.args.get("group")
    if group is None:
        return []
    names = [one.name for one in group.expressions]
    return [
        item
        for place, item in enumerate(select.expressions, 1)
        if next(own_aggregates(item), None) is None
        and (
            group.args.get("all")
            or item.alias in names
            or str(place) in names
            or item.unalias() in group.expressions
        )
    ]


def _outermost_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    is_list = isinstance(node, exp.In) and node.args.get("query") is not None
    if is_list or isinstance(node, exp.Exists | exp.Subquery):
        yield node
        return
    for part in node.iter_expressions():
        yield from _outermost_queries(part)


def outer_columns(query: exp.Expr, known: Mapping[str, Table]) -> list[exp.Column]:
    """Return the columns of a sub-query that are not those of its own tables."""
    aliases = {one.alias_or_name.casefold() for one in query.find_all(exp.Table, exp.Subquery)}
    names = {name.casefold() for table in known.values() for name in table.columns}
    names |= {item.alias.casefold() for item in query.find_all(exp.Alias)}
    return [
        column
        for column in query.find_all(exp.Column)
        if (
            column.table.casefold() not in aliases
            if column.table
            else column.name.casefold() not in names
        )
    ]


def _refuse_outer_columns(
    query: exp.Expr, known: Mapping[str, Table], tables: Mapping[str, Table]
) -> None:
    for column in outer_columns(query, known):
        if not column.table and not _is_of_people(column, tables):
            fields = unknown_column(next(iter(known.values())), column.name)
            raise QueryError("DP-WHERE-005", place=PLACE, **fields)
        reason = f"it reads {quoted(column)} of rows about people"
        refuse(query, reason, "write EXISTS with one equality, as in WHERE t.code = people.code")


def _is_of_people(column: exp.Column, tables: Mapping[str, Table]) -> bool:
    private = (name for table in tables.values() if not table.public for name in table.columns)
    return column.name.casefold() in map(str.casefold, private)


def _in_values(
    node: exp.In, known: Mapping[str, Table], tables: Mapping[str, Table], rows_of: PublicRows
) -> exp.Expr:
    """Return x IN (SELECT ...) with the values of the sub-query."""
    query = node.args["query"].this
    _refuse_outer_columns(query, known, tables)
    rows = rows_of(query)
    if len(query.selects) != 1 or any(len(row) != 1 for row in rows):  # a * may be several columns
        refuse(node, "its sub-query has several columns", "compare one column")
    values = [row[0] for row in rows]
    found = _listed(node, node.this, values, tables)
    if None in values:  # as in SQL, x NOT IN (..., NULL) is never true
        return exp.Paren(this=exp.Case(ifs=[exp.If(this=found, true=exp.true())]))
    return found


def _exists(
    node: exp.Exists, known: Mapping[str, Table], tables: Mapping[str, Table], rows_of: PublicRows
) -> exp.Expr:
    """Return EXISTS (SELECT ... WHERE t.code = x) with the codes of the sub-query."""
    query = node.this.copy()
    outer = {id(column) for column in outer_columns(query, known)}
    where = query.args.get("where")
    parts = list(conjuncts(None if where is None else where.this))
    outer_parts = [one for one in parts if any(id(c) in outer for c in one.find_all(exp.Column))]
    if not outer:
        one = query if query.args.get("limit") else query.limit(1)
        return exp.true() if rows_of(one) else exp.false()
    _refuse_other_rows(query, node)
    equal = outer_parts[0] if len(outer_parts) == 1 else None
    sides = [equal.this, equal.expression] if isinstance(equal, exp.EQ) else []
    own = [
        one
        for one in sides
        if isinstance(one, exp.Column) and not any(id(c) in outer for c in one.find_all(exp.Column))
    ]
    in_where = sum(id(c) in outer for one in outer_parts for c in one.find_all(exp.Column))
    if len(own) != 1 or in_where < len(outer):
        fix = "compare one column of the public table with rows by =, and combine it by AND"
        refuse(node, "each row would be compared in another way than by one equality", fix)
    other = next(one for one in sides if one is not own[0])
    codes = exp.Select(expressions=[own[0].copy()], distinct=exp.Distinct(), **_sources_of(query))
    rest = [one.copy() for one in parts if one is not equal]
    if rest:
        codes.set("where", exp.Where(this=exp.and_(*rest)))
    found = _listed(node, other, [row[0] for row in rows_of(codes)], tables)
    present = exp.Not(this=exp.Is(this=other.copy(), expression=exp.Null()))
    return exp.Paren(this=exp.And(this=present, expression=found))


_OF_EXISTS = ("expressions", "from_", "joins", "where", "kind", "distinct", "order", "limit")


def _refuse_other_rows(query: exp.Expr, node: exp.Exists) -> None:
    """Refuse a sub-query that may have a row where no row of its sources meets its conditions.

    The same holds for one that may have no row where a row of its sources meets them.
    """
    limit = query.args.get("limit")
    count = None if limit is None else limit.args.get("count") or limit.expression
    is_positive = isinstance(count, exp.Literal) and re.fullmatch("0*[1-9][0-9]*", count.name)
    options = None if limit is None else limit.args.get("limit_options")
    others = ["percent"] if options is not None and options.args.get("percent") else []
    others += [name for name in query.args if query.args.get(name) and name not in _OF_EXISTS]
    others += [name for item in query.expressions for name in _names_of_rows(item)]
    if others or not (count is None or is_positive) or not isinstance(query, exp.Select):
        reason = "it tests more than whether the public table has a row with equal values"
        refuse(node, reason, "write EXISTS (SELECT 1 FROM t WHERE t.code = people.code)")


def _names_of_rows(item: exp.Expr) -> list[str]:
    """Return the functions of an item that make one row of all, or several or none of each."""
    return [one.key for one in (*own_aggregates(item), *item.find_all(exp.Explode, exp.Unnest))]


def _sources_of(query: exp.Select) -> dict[str, Any]:
    return {name: query.args[name] for name in ("from_", "joins") if query.args.get(name)}


def _single_value(
    node: exp.Subquery, known: Mapping[str, Table], tables: Mapping[str, Table], rows_of: PublicRows
) -> exp.Expr:
    """Return the constant that a sub-query in the place of a value has."""
    _refuse_outer_columns(node.this, known, tables)
    rows = rows_of(node.this)
    if len(rows) > 1 or len(node.this.selects) != 1 or any(len(row) != 1 for row in rows):
        refuse(node, "it has several values", "select one value, as in SELECT MAX(x)")
    value = constant(quoted(node), rows[0][0] if rows else None)
    return exp.Paren(this=value) if isinstance(value, exp.Neg) else value


def _listed(
    node: exp.Expr, value: exp.Expr, others: Sequence[object], tables: Mapping[str, Table]
) -> exp.Expr:
    """Return the condition, in place of a node, that a value is one of others."""
    around = node.find_ancestor(exp.Select)
    column = None if around is None else people_column(value, around, tables)
    found = [one for one in dict.fromkeys(others) if one is not None and is_declared(one, column)]
    constants = [constant(quoted(value), one) for one in found]
    if sum(len(one.sql()) + 2 for one in constants) > MOST_LETTERS:
        fix = (
            "write LEFT JOIN of the public table by its key, with IS NOT NULL, or with IS NULL for "
        )
        fix += "NOT IN, of another column that all its rows have"
        refuse(f"A list of values for {quoted(value)}", "it is too long for an expression", fix)
    if constants:
        return one_of(value, constants)
    if all(one is None for one in others):
        return exp.false()
    # No row has one of the values, and a missing value is neither one of them nor another one.
    is_missing = exp.Is(this=value.copy(), expression=exp.Null())
    arms = [exp.If(this=exp.Not(this=is_missing), true=exp.false())]
    return exp.Paren(this=exp.Case(ifs=arms))


def one_of(value: exp.Expr, constants: list[exp.Expr]) -> exp.Expr:
    """Return the condition that a value is one of constants; a list has no booleans."""
    if any(isinstance(one, exp.Boolean) for one in constants):
        equal = (exp.EQ(this=value.copy(), expression=one) for one in constants)
        return exp.Paren(this=exp.or_(*equal))
    return exp.In(this=value.copy(), expressions=constants)


def people_column(value: exp.Expr, select: exp.Expr, tables: Mapping[str, Table]) -> Column | None:
    """Return the column of a table about people that a value in a SELECT is, if it is one.

    A name without a table is that of the first table about people that has it.
    """
    if not isinstance(value, exp.Column):
        return None
    joins = select.args.get("joins") or []
    clauses = [one for one in (select.args.get("from_"), *joins) if one is not None]
    for source in (one.this for one in clauses):
        is_read = value.table.casefold() in ("", source.alias_or_name.casefold())
        if is_read and not public_tables_of(source, tables):
            has_name, column = _column_of_source(source, value.name.casefold(), tables)
            if has_name:
                return column
    return None


def _column_of_source(
    source: exp.Expr, name: str, tables: Mapping[str, Table]
) -> tuple[bool, Column | None]:
    """Return whether a source of FROM has a column of this name, and which declared one it is."""
    if isinstance(source, exp.Table):
        table = tables.get(source.name)
        columns = {} if table is None else table.columns
        found = next((one for one in columns if one.casefold() == name), None)
        return found is not None, None if found is None else columns[found]
    select = source.this if isinstance(source, exp.Subquery) else source
    items = select.expressions if isinstance(select, exp.Select) else []
    for item in items:
        if item.alias_or_name.casefold() == name:
            return True, people_column(item.unalias(), select, tables)
    # A star with REPLACE or RENAME contains computed columns.
    if not any(item.is_star and item.find(exp.Alias) is None for item in items):
        return False, None
    column = people_column(exp.column(name), select, tables)
    return column is not None, column


def is_declared(value: object, column: Column | None) -> bool:
    """Return whether a column of rows may have a value; conditions name declared codes only."""
    if not isinstance(column, CategoryColumn) or column.values is None:
        return True
    return str(value) in column.values
