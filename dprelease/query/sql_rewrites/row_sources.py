"""Sources of the rows of a SELECT, and the columns that the SELECT sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from dprelease.errors import QueryError
from dprelease.query.expressions.nodes import operands_of_chain
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.query.sql_rewrites.unanswerable import PLACE, refuse
from dprelease.schema.table import Table


@dataclass
class Source:
    """A source of rows: the columns that the SELECT sees, as expressions over a declared table.

    `alias`: the name before the columns. `conditions`: the conditions of merged sub-queries.
    """

    alias: str
    table: Table
    columns: dict[str, exp.Expr]
    conditions: list[exp.Expr] = field(default_factory=list)
    join: Joined | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the source is the declared table itself, without computed values."""
        names = {name: column.name for name, column in self.columns.items()}
        same = all(isinstance(one, exp.Column) for one in self.columns.values())
        return same and not self.conditions and all(a == b for a, b in names.items())

    @property
    def is_renamed(self) -> bool:
        """Whether the source has all rows of a declared table, and only columns of it."""
        return not self.conditions and all(
            isinstance(one, exp.Column) for one in self.columns.values()
        )

    @property
    def is_complete(self) -> bool:
        """Whether the SELECT sees all columns of the declared tables, and no others."""
        return self.is_whole and self.join is None and set(self.columns) == set(self.table.columns)


@dataclass(frozen=True)
class Joined:
    """The join of a SELECT: the joined source, pairs of equal columns, and what else it needs.

    `pairs`: columns of the first and of the joined table. `matched`: whether rows without a match
    are left out. `without`: columns that only the first table has in the query, because both
    tables have a column of this name. `keys`: the equal columns of a LEFT JOIN with the
    same name in both tables, which the joined rows have once. `hidden`: other names of columns
    that can't be read for these reasons, each with its SQL and the column.
    """

    source: Source
    pairs: tuple[tuple[str, str], ...]
    by_unit: bool
    matched: bool
    without: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    hidden: tuple[tuple[str, str, str], ...] = ()


def visible(source: Source) -> dict[str, exp.Expr]:
    """Return the columns that a SELECT sees without a table's name."""
    joined = {} if source.join is None else source.join.source.columns
    return {**joined, **source.columns}


def resolved(node: exp.Expr, source: Source, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
    """Return an expression with its columns replaced by expressions over declared tables.

    Names of `aliases` that are no columns are replaced as well.
    """
    return node.copy().transform(lambda one: _resolved_column(one, source, aliases))


def _resolved_column(node: exp.Expr, source: Source, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
    """Return the expression of a column; other nodes stay."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        return node
    known = columns_of_qualifier(node, source)
    name = declared_name(node.name, known)
    _refuse_name_of_both_tables(node, source)
    if name is not None:
        value = known[name]
        if isinstance(value, exp.Column) and value.name == node.name:
            return exp.Column(this=node.this)  # as it is written, with or without quotes
        return as_operand(value.copy(), node)
    if not node.table and node.name in aliases:
        return as_operand(resolved(aliases[node.name], source, {}), node)
    named = source.table.model_copy(update={"name": node.table or source.alias})
    columns = {name: source.table.columns.get(name) for name in known}
    fields = unknown_column(named.model_copy(update={"columns": columns}), node.name)
    raise QueryError("DP-WHERE-005", place=PLACE, **fields)


def _refuse_name_of_both_tables(node: exp.Column, source: Source) -> None:
    """Refuse a name that two tables have, unless it is that of the first table."""
    join = source.join
    if join is None or node.table == source.alias or not (node.table or join.source.columns):
        return  # a sub-query's column, or one of the first table
    if node.table and declared_name(node.name, join.keys) is not None:
        _refuse_key_of_left_join(node, source.alias, join)
    name = declared_name(node.name, join.without)
    if name is not None:
        both = f"'{source.alias}' and '{join.source.alias}' have a column '{name}'"
        reason = f"{both}, and only that of '{source.alias}' can be read"
        fix = f"write {source.alias}.{name}, or rename the column in the schema of "
        refuse(node, reason, f"{fix}'{join.source.table.name}'")
    is_joined = node.table or node.name not in source.columns
    for _, text, column in (one for one in join.hidden if is_joined and one[0] == node.name):
        reason = f"it reads the column '{column}', which '{source.alias}' has, too"
        fix = f"add `{node.name}: {{expression: {text}}}` with its type and bounds to the schema "
        refuse(node, reason, f"{fix}of '{join.source.table.name}', and read {node.name}")


def _refuse_key_of_left_join(node: exp.Column, first: str, join: Joined) -> NoReturn:
    """Refuse to read a key of the joined table, which would be NULL in rows without a match."""
    joined, other = join.source, next(iter(join.source.columns), "x")
    reason = f"a LEFT JOIN keeps one column '{node.name}', that of '{first}'"
    fix = f"write {first}.{node.name}; to find rows without a match, write {joined.alias}.{other} "
    fix += f"IS NULL, with a column that every row of '{joined.table.name}' has, or rename the key"
    refuse(node, reason, f"{fix} in one of the tables and compare the two names in ON")


def declared_name(name: str, known: Iterable[str]) -> str | None:
    """Return a known name as it is declared; SQL does not distinguish upper and lower case."""
    if name in known:
        return name
    found = [one for one in known if one.casefold() == name.casefold()]
    return found[0] if len(found) == 1 else None


def columns_of_qualifier(node: exp.Column, source: Source) -> Mapping[str, exp.Expr]:
    """Return the columns of the table that a column's qualifier names."""
    if not node.table:
        return visible(source)
    if node.table == source.alias:
        return source.columns
    if source.join is not None and node.table == source.join.source.alias:
        return source.join.source.columns
    known = source.alias if source.join is None else f"{source.alias}, {source.join.source.alias}"
    raise QueryError(
        "DP-SQL-003",
        place=PLACE,
        name=f"'{node.table[:60]}', which is not one of its tables",
        known=known,
    )


def as_operand(value: exp.Expr, place: exp.Expr) -> exp.Expr:
    """Return an expression that replaces a column, in parentheses if it may bind differently."""
    simple = isinstance(value, exp.Column | exp.Literal | exp.Paren)
    alone = not isinstance(place.parent, exp.Binary | exp.Unary | exp.Between | exp.In | exp.Cast)
    return value if simple or alone else exp.Paren(this=value)


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the parts of a condition that AND combines."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if condition is not None:
        yield from operands_of_chain(condition) if isinstance(condition, exp.And) else [condition]
