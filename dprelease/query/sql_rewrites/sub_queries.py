"""Sub-queries of rows: a declared table whose rows are filtered, with values computed in each row.

Such a sub-query is merged into the SELECT around it: its columns are replaced by their expressions,
and its conditions are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dprelease.query.sql_rewrites.public_values import outer_columns
from dprelease.query.sql_rewrites.row_sources import (
    Joined,
    Source,
    columns_of_qualifier,
    conjuncts,
    resolved,
    visible,
)
from dprelease.query.sql_rewrites.unanswerable import quoted, refuse
from dprelease.schema.table import Table

# The join of a SELECT: with a public table by its key, or with a table about the same people.


def join_listed_keys(select: exp.Select, tables: Mapping[str, Table]) -> None:
    """Write WHERE x IN (SELECT key FROM public WHERE ...) as a join with the public table.

    Each row matches one row of the table at most, because its key is unique.
    """
    source, where = select.args.get("from_"), select.args.get("where")
    parts = [] if where is None or select.args.get("joins") else list(conjuncts(where.this))
    listed = [part for part in parts if _keys_of(part, tables) is not None]
    if source is None or len(listed) != 1:
        return
    (found,) = listed
    keys, own = found.args["query"].copy(), source.this.alias_or_name
    name = keys.this.args["from_"].this.name
    if not own or own.casefold() == name.casefold():
        return
    keys.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
    keys.this.set("distinct", None)  # each key occurs once
    left = exp.column(found.this.this.copy(), found.this.args.get("table") or own)
    right = exp.column(keys.this.expressions[0].this.copy(), name)
    select.set("joins", [exp.Join(this=keys, on=exp.EQ(this=left, expression=right))])
    others = [part for part in parts if part is not found]
    select.set("where", exp.Where(this=exp.and_(*others)) if others else None)


def _keys_of(node: exp.Expr, tables: Mapping[str, Table]) -> exp.Select | None:
    """Return the SELECT of one column of a public table that a condition lists by IN, if any."""
    query = node.args.get("query") if isinstance(node, exp.In) else None
    found = query.this if isinstance(query, exp.Subquery) else None
    if not isinstance(found, exp.Select) or not isinstance(node.this, exp.Column):
        return None
    clause, items = found.args.get("from_"), found.expressions
    table = tables.get(clause.this.name) if clause is not None else None
    is_column = len(items) == 1 and isinstance(items[0], exp.Column)
    distinct = found.args.get("distinct")
    others = any(found.args.get(name) for name in found.args if name not in _OF_KEYS)
    others = others or (distinct is not None and distinct.args.get("on") is not None)
    if table is None or not table.public or not is_column or others:
        return None
    return None if outer_columns(found, {table.name: table}) else found


_OF_KEYS = ("expressions", "from_", "where", "kind", "distinct")


def joined_source(select: exp.Select, join: exp.Join, left: Source, right: Source) -> Source:
    """Return the source of a SELECT over two tables.

    The equalities in WHERE that a comma join needs are removed from the SELECT.
    """
    refuse_other_joins(join)
    is_left = join.side == "LEFT"
    if left.table.public and not right.table.public:
        if is_left:
            reason = "rows of the public table that no person has would be added"
            refuse("LEFT JOIN", reason, f"write {right.alias} LEFT JOIN {left.alias}, or JOIN")
        # Rows of people come first: each matches at most one public row, but not the reverse.
        left, right = right, left
    if right.join is not None:
        refuse(*_THIRD_TABLE)
    if is_left and not right.is_renamed:
        reason = "a row without a match would have none of its values"
        fix = "use JOIN, or filter and compute values in the statement itself"
        refuse(f"LEFT JOIN of the sub-query '{right.alias}'", reason, fix)
    pairs = _pairs(select, join, left, right, inner=not is_left)
    return _source(left, right, pairs, is_left=is_left)


_THIRD_TABLE = (
    "A third table",
    "a query joins two tables about people at most, and no sub-query with a join",
    "join all public tables in one FROM, and write one statement for each pair of other tables",
)


def refuse_other_joins(join: exp.Join) -> None:
    """Refuse a join that is neither an inner join nor a LEFT JOIN."""
    side, kind, method = (str(join.args.get(name) or "") for name in ("side", "kind", "method"))
    if method or kind not in ("", "INNER", "CROSS", "OUTER") or side not in ("", "LEFT"):
        name = " ".join(filter(None, (method, side, kind, "JOIN")))
        refuse(name, _reason_against(side, method), "use JOIN ... USING, or LEFT JOIN")


def _reason_against(side: str, method: str) -> str:
    """Return why a kind of join has no answer."""
    if side in ("RIGHT", "FULL"):
        return "rows of the second table that no row of the first matches would be added"
    if method == "NATURAL":
        return "the columns that it compares are not named"
    return "a row is joined only with the row of equal keys"


def _source(
    left: Source, right: Source, pairs: tuple[tuple[str, str], ...], *, is_left: bool
) -> Source:
    """Return the source of the joined rows, whose equal columns are those of the first table."""
    by_unit = not right.table.public
    if left.table.name == right.table.name:
        reason = "rows of the same table would be combined with each other"
        refuse(f"A join of '{left.table.name}' with itself", reason, "aggregate its rows once")
    ids = left.table.unit.id, right.table.unit.id
    if not by_unit and not pairs:
        fix = f"write {left.alias} JOIN {right.alias} ON {left.alias}.a = {right.alias}.b"
        refuse(
            "A join without an equality of two columns",
            "each row would match any number of rows",
            fix,
        )
    if by_unit and (None in ids or ids[0] != ids[1] or set(pairs) != {ids}):
        reason = "a row of a person may match rows of other people"
        shared = ids[0] is not None and ids[0] == ids[1]
        fix = f"write USING ({ids[0]})" if shared else "declare the same id in both tables"
        refuse("A join of two tables about people by other columns than their id", reason, fix)
    if by_unit and is_left:
        reason = "two tables about people are joined by their common people only"
        refuse("LEFT JOIN", reason, "use JOIN, or two statements")
    equal = {theirs: ours for ours, theirs in pairs if ours == theirs}
    own = {name.casefold() for name in left.table.columns}
    clash = [name for name in right.table.columns if name.casefold() in own and name not in equal]
    keys = tuple(equal) if is_left else ()  # a row without a match has no such value
    hidden = {*clash, *keys}
    reads = {
        name: next((c.name for c in one.find_all(exp.Column) if c.name in hidden), None)
        for name, one in right.columns.items()
    }
    columns = {name: one for name, one in right.columns.items() if reads[name] is None}
    renamings = tuple(
        (name, right.columns[name].sql("duckdb"), column)
        for name, column in reads.items()
        if column is not None and name not in hidden
    )
    conditions = [*left.conditions, *right.conditions]
    _refuse_hidden(right, clash)
    matched = not is_left and not by_unit
    renamed = replace(right, columns=columns)
    joined = Joined(renamed, pairs, by_unit, matched, tuple(clash), keys, renamings)
    return replace(left, conditions=conditions, join=joined)


def _refuse_hidden(right: Source, clash: Sequence[str]) -> None:
    """Refuse conditions of a joined sub-query that read a column which both tables have."""
    for condition in right.conditions:
        for column in condition.find_all(exp.Column):
            if column.name in clash:
                reason = f"both tables have a column '{column.name}'"
                refuse(condition, reason, f"rename it in the schema of '{right.table.name}'")


def _pairs(
    select: exp.Select, join: exp.Join, left: Source, right: Source, *, inner: bool
) -> tuple[tuple[str, str], ...]:
    """Return the pairs of equal columns; other conditions of an inner join go to WHERE."""
    using = join.args.get("using")
    if using:
        return tuple((_column_name(left, one.name), _column_name(right, one.name)) for one in using)
    pairs, others = [], []
    for condition in conjuncts(join.args.get("on")):
        pair = _pair(condition, left, right)
        if pair is not None:
            pairs.append(pair)
        elif not inner:
            reason = "a LEFT JOIN compares columns only"
            fix = "write it in WHERE or use JOIN, which leave out the rows where it isn't true; to "
            fix += f"keep them, write CASE WHEN {quoted(condition)} THEN ... END around columns of "
            refuse(condition, reason, f"{fix}'{right.alias}'")
        else:
            others.append(condition)
    where = select.args.get("where")
    if join.args.get("on") is None and inner:
        for condition in conjuncts(None if where is None else where.this):
            pair = _pair(condition, left, right)
            if pair is None:
                others.append(condition)
            else:
                pairs.append(pair)
        select.set("where", None)
        where = None
    if others:
        parts = [*([] if where is None else [where.this]), *others]
        select.set("where", exp.Where(this=exp.and_(*(part.copy() for part in parts))))
    return tuple(pairs)


def _pair(condition: exp.Expr, left: Source, right: Source) -> tuple[str, str] | None:
    """Return the columns of a condition a.x = b.y; None for any other condition."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    sides = [condition.this, condition.expression] if isinstance(condition, exp.EQ) else []
    if not sides or not all(isinstance(side, exp.Column) for side in sides):
        return None
    owners = [_owner(side, left, right) for side in sides]
    if set(owners) != {"left", "right"}:
        return None
    if owners == ["right", "left"]:
        sides.reverse()
    return _column_name(left, sides[0].name), _column_name(right, sides[1].name)


def _owner(column: exp.Column, left: Source, right: Source) -> str:
    """Return which source a column belongs to; empty if it isn't clear."""
    if column.table:
        return {left.alias: "left", right.alias: "right"}.get(column.table, "")
    found = [
        name for name, source in (("left", left), ("right", right)) if column.name in source.columns
    ]
    return found[0] if len(found) == 1 else ""


def _column_name(source: Source, name: str) -> str:
    """Return the declared column behind a column of a source, with which rows are compared."""
    column = resolved(exp.column(name, quoted=True), replace(source, join=None), {})
    if not isinstance(column, exp.Column):
        reason = "a computed value can't be compared in a join"
        refuse(column, reason, "declare it as a column of the table's schema")
    return str(column.name)


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
    join = inner.join  # its columns are seen only if the sub-query selects them
    if join is not None:
        join = replace(join, source=replace(join.source, columns={}))
    return Source(alias, inner.table, seen, conditions, join)


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
    shown = columns_of_qualifier(item, source) if isinstance(item, exp.Column) else visible(source)
    found = {name: column.copy() for name, column in shown.items()}
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
        for join in joins:
            refuse_other_joins(join)
        refuse(*_THIRD_TABLE)
    right = source_of(joins[0].this, tables)
    return None if right is None else joined_source(select, joins[0], found, right)
