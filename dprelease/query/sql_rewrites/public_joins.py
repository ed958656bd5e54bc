"""Joins of several tables, of which all public ones but one are replaced by their values.

A query has one join. In a statement with more of them, each column of a further public table is a
CASE of the value that its key equals. An inner join leaves out the rows whose value is no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dprelease.query.outer_sql.parameters import constant
from dprelease.query.outer_sql.public_queries import PublicRows, public_tables_of
from dprelease.query.sql_rewrites.key_columns import filled
from dprelease.query.sql_rewrites.public_values import (
    MOST_LETTERS,
    is_declared,
    one_of,
    people_column,
)
from dprelease.query.sql_rewrites.row_sources import as_operand, conjuncts
from dprelease.query.sql_rewrites.unanswerable import quoted, refuse
from dprelease.schema.columns import Column
from dprelease.schema.table import Table


@dataclass
class _Lookup:
    """A joined public table, whose key equals a value of rows.

    `columns`: its columns, and whether their names alone mean them. `equality`: the condition that
    compares the column `key` with `value`. `rows`: its rows with the columns `names`.
    """

    join: exp.Join
    alias: str
    is_left: bool
    table: Table | None = None
    columns: dict[str, bool] = field(default_factory=dict)
    equality: exp.Expr = field(default_factory=exp.Null)
    key: str = ""
    value: exp.Expr = field(default_factory=exp.Null)
    names: list[str] = field(default_factory=list)
    rows: list[tuple[object, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, select: exp.Select, join: exp.Join, tables: Mapping[str, Table]) -> _Lookup:
        """Return a joined table, still without its key and rows."""
        table = tables.get(join.this.name) if isinstance(join.this, exp.Table) else None
        columns = _own_names(select, join, tables)
        return cls(join, join.this.alias_or_name, join.side == "LEFT", table, columns)

    def find_key(self, select: exp.Select, unknown: list[_Lookup]) -> bool:
        """Find the equality of a column and a value that reads no column of unknown tables."""
        where = select.args.get("where")
        condition = self.join.args.get("on") if self.is_left else where.this if where else None
        for part in conjuncts(condition):
            sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
            keys = [one for one in sides if self.owns(one)]
            others = [
                one
                for one in sides
                if one.find(exp.Column)
                and one.find(exp.Query) is None
                and not any(lookup.owns(node) for lookup in unknown for node in one.walk())
            ]
            if len(keys) == len(others) == 1:
                self.equality, self.value = part, others[0].copy()
                self.key = self.declared_name(keys[0])
                return True
        return False

    def declared_name(self, node: exp.Expr) -> str:
        """Return the name of a column of the table as it is declared; "" for any other column."""
        name = node.name.casefold() if isinstance(node, exp.Column) else ""
        return next((one for one in self.columns if one.casefold() == name), "")

    def owns(self, node: exp.Expr) -> bool:
        """Return whether a node is a column of this table."""
        name = self.declared_name(node)
        if not name or not isinstance(node, exp.Column):
            return False
        return node.table == self.alias if node.table else self.columns[name]

    @property
    def is_short(self) -> bool:
        """Whether an expression can contain all keys."""
        return sum(len(str(row[0])) + 4 for row in self.rows) <= MOST_LETTERS

    def matched(self) -> exp.Expr:
        """Return the condition that a row has a match."""
        return self._is_one_of([row[0] for row in self.rows])

    def column(self, name: str) -> exp.Expr:
        """Return a column of the table as an expression of the value that its key equals."""
        if name == self.key:
            arms = [exp.If(this=self.matched(), true=self.value.copy())]
            return exp.Case(ifs=arms) if self.is_left else self.value.copy()
        place = self.names.index(name)
        keys: dict[object, list[object]] = {}
        for row in self.rows:
            keys.setdefault(row[place], []).append(row[0])
        arms = [
            exp.If(this=self._is_one_of(found), true=constant(name, cell))
            for cell, found in keys.items()
            if cell is not None
        ]
        return exp.Case(ifs=arms) if arms else exp.Null()

    def _is_one_of(self, keys: list[object]) -> exp.Expr:
        listed = [constant(self.key, key) for key in keys]
        return one_of(self.value, listed) if keys else exp.false()


def insert_joined_values(
    select: exp.Select, tables: Mapping[str, Table], rows_of: PublicRows
) -> None:
    """Replace the public tables that a SELECT joins by their values, except one or none.

    The same happens in its sub-queries of rows. A SELECT with one join stays as it is, and so does
    one with joins that have no answer.
    """
    if select.args.get("from_") is None:
        return
    for source in _sources(select):
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
            insert_joined_values(source.this, tables, rows_of)
    joins = select.args.get("joins") or []
    if len(joins) < 2 or not all(map(_is_plain, joins)):
        return
    _refuse_stars(select)
    _write_conditions_in_where(select, tables)
    _start_with_people(select, tables)
    lookups = _lookups(select, tables)
    for place, lookup in enumerate(lookups):
        people = people_column(_without_keys(lookup.value, lookups[:place]), select, tables)
        _read_rows(lookup, select, people, rows_of)
    others = [join for join in select.args["joins"] if all(join is not x.join for x in lookups)]
    long = [one for one in lookups if not one.is_short]
    if len(long) + len(others) > 1 and long:
        name = " and ".join([f"'{one.alias}'" for one in long] + [quoted(x.this) for x in others])
        reason = "only one joined table may have more keys than an expression can contain"
        refuse(f"The join of {name}", reason, "put the columns of public tables into one table")
    for place, lookup in enumerate(lookups):
        if lookup.is_short:
            _replace(select, lookup, lookups[place + 1 :])
    select.set("joins", [*others, *(one.join for one in long)])


def _lookups(select: exp.Select, tables: Mapping[str, Table]) -> list[_Lookup]:
    """Return the joined public tables, each behind those that its key equals a column of."""
    todo = [
        _Lookup.of(select, join, tables)
        for join in select.args["joins"]
        if public_tables_of(join.this, tables)
    ]
    for column in _columns(select):
        owners = [one for one in todo if not column.table and one.declared_name(column)]
        if len(owners) > 1 and any(one.owns(column) for one in owners):
            names = " and ".join(f"'{one.alias}'" for one in owners)
            fix = f"write {owners[0].alias}.{column.name}"
            refuse(column, f"{names} have a column of this name", fix)
    found: list[_Lookup] = []
    while todo:
        known = next((one for one in todo if one.find_key(select, todo)), None)
        if known is None:
            name, fix = todo[0].alias, "write JOIN {0} ON {0}.code = people.code, with its key"
            reason = "no equality compares one of its columns"
            refuse(f"The join of '{name}'", reason, fix.format(name))
        todo.remove(known)
        found.append(known)
    return found


def _refuse_stars(select: exp.Select) -> None:
    """Refuse *, and t.* of a joined table, in a sub-query with several joins."""
    first = select.args["from_"].this.alias_or_name
    for item in select.expressions:
        is_star = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        if isinstance(item, exp.Star) or (is_star and item.table != first):
            fix = f"write {first}.*, and list the columns of the joined tables"
            refuse(item, "values of several joined tables replace their columns by name", fix)


def _is_plain(join: exp.Join) -> bool:
    """Return whether a join is an inner join or a LEFT JOIN."""
    side, kind, method = (str(join.args.get(name) or "") for name in ("side", "kind", "method"))
    return not method and kind in ("", "INNER", "CROSS", "OUTER") and side in ("", "LEFT")


def _sources(select: exp.Select) -> list[exp.Expr]:
    joins = select.args.get("joins") or []
    return [select.args["from_"].this, *(join.this for join in joins)]


def _columns_of(source: exp.Expr, tables: Mapping[str, Table]) -> list[str]:
    """Return the names of the columns of a source of FROM."""
    if isinstance(source, exp.Table):
        return [*tables[source.name].columns] if source.name in tables else []
    items = source.this.expressions if isinstance(source, exp.Subquery) else []
    found = [item.alias_or_name for item in items if item.alias_or_name not in ("", "*")]
    if source.find(exp.Star):
        for one in source.find_all(exp.Table):
            found += _columns_of(one, tables)
    return found


def _write_conditions_in_where(select: exp.Select, tables: Mapping[str, Table]) -> None:
    """Move the conditions of all inner joins to WHERE."""
    found: list[exp.Expr] = []
    before = [select.args["from_"].this]
    for join in select.args["joins"]:
        for name in join.args.get("using") or []:
            owner = next(
                (one for one in before if name.name in _columns_of(one, tables)), before[0]
            )
            sides = [exp.column(name.name, one.alias_or_name) for one in (owner, join.this)]
            found.append(exp.EQ(this=sides[0], expression=sides[1]))
            if join.side == "LEFT":
                join.set("on", exp.and_(join.args.get("on"), found.pop()))
        join.set("using", None)
        if join.side != "LEFT":
            found += conjuncts(join.args.get("on"))
            for name in ("on", "kind"):
                join.set(name, None)
        before.append(join.this)
    _add_conditions(select, found)


def _add_conditions(select: exp.Select, conditions: list[exp.Expr]) -> None:
    where = select.args.get("where")
    parts = [*conjuncts(None if where is None else where.this), *conditions]
    select.set("where", exp.Where(this=exp.and_(*(one.copy() for one in parts))) if parts else None)


def _start_with_people(select: exp.Select, tables: Mapping[str, Table]) -> None:
    """Let FROM begin with a table about people; the order of inner joins has no meaning."""
    first = select.args["from_"].this
    joins = [join for join in select.args["joins"] if not public_tables_of(join.this, tables)]
    inner = all(join.side != "LEFT" for join in select.args["joins"])
    if public_tables_of(first, tables) and joins and inner:
        other = joins[0].this
        joins[0].set("this", first.copy())
        select.args["from_"].set("this", other.copy())


def _without_keys(value: exp.Expr, known: Sequence[_Lookup]) -> exp.Expr:
    """Return what a key of a known table equals, in place of the key; other values stay."""
    for one in reversed(known):
        if one.owns(value) and one.declared_name(value) == one.key:
            value = one.value
    return value


def _read_rows(
    lookup: _Lookup, select: exp.Select, people: Column | None, rows_of: PublicRows
) -> None:
    """Read the columns of a joined table that a SELECT names.

    `people`: the column of rows about people that its key equals, if it equals one.
    """
    on = conjuncts(lookup.join.args.get("on")) if lookup.is_left else ()
    rest = [part for part in on if part is not lookup.equality]
    for part in rest:
        if not all(map(lookup.owns, part.find_all(exp.Column))):
            reason = "a LEFT JOIN compares its key with rows, and else columns of the joined table"
            refuse(part, reason, "write it in WHERE, or in a CASE around the joined columns")
    names = [lookup.declared_name(column) for column in _columns(select) if lookup.owns(column)]
    lookup.names = list(dict.fromkeys([lookup.key, *names]))
    query = exp.select(*(exp.column(name, lookup.alias, quoted=True) for name in lookup.names))
    query = query.from_(lookup.join.this.copy())
    query = query.where(*(part.copy() for part in rest)) if rest else query
    lookup.rows = _matching_rows(lookup, rows_of(query), people)


def _matching_rows(
    lookup: _Lookup, rows: Sequence[tuple[object, ...]], people: Column | None
) -> list[tuple[object, ...]]:
    """Return the rows that a row of people can match, and refuse a key of several rows."""
    found = [row for row in rows if row[0] is not None]
    if len({row[0] for row in found}) < len(found):
        reason = f"several of its rows have the same {lookup.key}, and a row would count repeatedly"
        refuse(f"The join of '{lookup.alias}'", reason, "keep one row for each key")
    return [row for row in found if is_declared(row[0], people)]


def _own_names(select: exp.Select, join: exp.Join, tables: Mapping[str, Table]) -> dict[str, bool]:
    """Return the columns of a joined table, and whether their names alone mean this table.

    A name without a table is that of rows about people, or of the first table that has it.
    """
    others: set[str] = set()
    is_later = False
    for source in _sources(select):
        is_later = is_later or source is join.this
        if not is_later or not public_tables_of(source, tables):
            others |= {name.casefold() for name in _columns_of(source, tables)}
    return {name: name.casefold() not in others for name in _columns_of(join.this, tables)}


def _columns(select: exp.Select) -> Iterator[exp.Column]:
    """Yield the columns of a SELECT, without those of its sources.

    Of sub-queries in conditions and values, it has the columns that name a table around them. Names
    of the SELECT list in HAVING, QUALIFY and ORDER BY are no columns.
    """
    aliases = {item.alias_or_name.casefold() for item in select.expressions}
    for node in select.walk(prune=lambda one: isinstance(one, exp.Query) and one is not select):
        if isinstance(node, exp.Query) and node is not select:
            yield from _outer_columns(node)
        if not isinstance(node, exp.Column):
            continue
        around = node.find_ancestor(exp.AggFunc, exp.Having, exp.Qualify, exp.Order)
        is_later = not isinstance(around, exp.AggFunc | None) and around.parent is select
        if node.table or node.name.casefold() not in aliases or not is_later:
            yield node


def _outer_columns(query: exp.Query) -> Iterator[exp.Column]:
    """Yield the columns of a sub-query, unless it is one of FROM, that name a table around it."""
    own = {one.alias_or_name for one in query.find_all(exp.Table, exp.Subquery)}
    is_source = isinstance(query.parent, exp.From | exp.Join)
    for column in () if is_source else query.find_all(exp.Column):
        if column.table and column.table not in own:
            yield column


def _replace(select: exp.Select, lookup: _Lookup, later: list[_Lookup]) -> None:
    """Replace the columns of a joined table, and the equality of an inner join."""
    if not lookup.is_left:
        lookup.equality.replace(lookup.matched())
    for column in list(_columns(select)):
        if lookup.owns(column):
            column.replace(_value_at(column, select, lookup))
    for one in later:
        one.value = one.value.transform(
            lambda node: _value_at(node, select, lookup) if lookup.owns(node) else node
        )


def _value_at(column: exp.Expr, select: exp.Select, lookup: _Lookup) -> exp.Expr:
    """Return the value of a column of a joined table at its place in a SELECT.

    The `fill` of the column replaces missing values of a key, and of the argument of an aggregate.
    """
    name, around = lookup.declared_name(column), column.parent
    value = lookup.column(name)
    is_item = around is select or (isinstance(around, exp.Alias) and around.parent is select)
    if lookup.table is not None and (is_item or isinstance(around, exp.Group | exp.AggFunc)):
        value = filled(value, exp.column(name), lookup.table)
    if around is select and column.arg_key == "expressions":
        return exp.alias_(value, column.name, quoted=True)
    return as_operand(value, column)
