"""Rewrite a SELECT of aggregates over rows of people into columns, keys and aggregates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dprelease.errors import QueryError
from dprelease.query.expressions.whole import unread_argument_text
from dprelease.query.outer_sql.public_queries import PublicRows, no_rows
from dprelease.query.sql_rewrites.aggregate_forms import (
    AggregateForms,
    is_aggregate,
    own_aggregates,
    replace_own,
)
from dprelease.query.sql_rewrites.key_columns import key_column
from dprelease.query.sql_rewrites.public_joins import insert_joined_values
from dprelease.query.sql_rewrites.public_values import insert_public_values
from dprelease.query.sql_rewrites.row_forms import row_form
from dprelease.query.sql_rewrites.row_sources import (
    Source,
    as_operand,
    declared_name,
    resolved,
    visible,
)
from dprelease.query.sql_rewrites.sub_queries import join_listed_keys, sources
from dprelease.query.sql_rewrites.unanswerable import PLACE, quoted, refuse, refuse_unanswerable
from dprelease.query.view import visible_columns
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.reader import Plain

LONGEST_NAME = 40
AFTER_AGGREGATES = ("having", "qualify", "windows", "distinct", "order")
"""The clauses that read noised values; they may name columns of the SELECT list."""


@dataclass
class RowsOfSelect:
    """What a SELECT declares in addition to its columns: computed columns, and a join."""

    derive: dict[str, dict[str, Plain]] = field(default_factory=dict)
    join: dict[str, Plain] | None = None


def rewrite_rows(
    select: exp.Select, tables: Mapping[str, Table], rows_of: PublicRows = no_rows
) -> RowsOfSelect:
    """Rewrite a SELECT in place, and return its computed columns and its join.

    `rows_of`: returns the rows of a query over public tables.

    Afterwards, the SELECT reads one declared table, groups by columns, and its aggregates are those
    of columns. A SELECT that reads from no declared table stays as it is.

    Raises QueryError: DP-SQL-006 for a part that can't be answered; DP-WHERE-004 to 010 for an
    expression over rows.
    """
    join_listed_keys(select, tables)
    insert_joined_values(select, tables, rows_of)
    insert_public_values(select, tables, rows_of)
    _refuse_queries(select.args.get("where"), tables)
    source = sources(select, tables)
    parts = [select.args.get(name) for name in ("from_", "where", "group")]
    parts += select.args.get("joins") or []
    aggregates = [node for item in _clauses_after(select) for node in own_aggregates(item)]
    if source is not None and not source.table.public:
        for node in aggregates:
            plain = node.this if isinstance(node, exp.Filter) else node
            refuse_unanswerable(plain, source.table.columns)
    parts += aggregates
    what = next(filter(None, (unread_argument_text(part) for part in parts if part)), None)
    if what is not None:
        raise QueryError("DP-SQL-002", place=PLACE, what=what)
    if source is None or source.table.public:
        if select.args.get("joins"):
            reason = "people are joined with declared tables only"
            refuse(select.args["joins"][0].this, reason, "declare it as a public table")
        return RowsOfSelect()
    return _Rewriter(select, source).rewritten()


def _refuse_queries(where: exp.Expr | None, tables: Mapping[str, Table]) -> None:
    for query in () if where is None else where.find_all(exp.Query):
        reason = "a condition reads one row, and no other rows"
        fix = "join one public table by its key, or list constants in IN"
        if query.find(exp.AggFunc) and not query.find(exp.Group):
            fix = "ask for this value in a statement before, and pass its answer as a parameter, "
            fix += "as in WHERE x > $value with params={'value': 40}"
        private = [one for one in query.find_all(exp.Table) if one.name in tables]
        unit = tables[private[0].name].unit.id if private else None
        if unit is not None and isinstance(query.parent, exp.In | exp.Exists):
            fix = (
                f"join {private[0].name} by the id, and count people, as in COUNT(DISTINCT {unit})"
            )
        refuse(query, reason, fix)


def _clauses_after(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the parts of a SELECT that read keys and aggregates."""
    yield from list(select.expressions)
    for name in AFTER_AGGREGATES:
        found = select.args.get(name)
        yield from list(found) if isinstance(found, list) else [] if found is None else [found]


class _Rewriter:
    """Rewrites one SELECT over one source of rows."""

    def __init__(self, select: exp.Select, source: Source) -> None:
        self.select, self.source = select, source
        self.table = _joined_table(source)
        self.found = RowsOfSelect()
        # Copies, because the items themselves are rewritten before WHERE and GROUP BY read them.
        self.aliases = {i.alias: i.this.copy() for i in select.expressions if i.alias}
        self.texts: dict[str, str] = {}
        self.keys: dict[str, exp.Expr] = {}

    def rewritten(self) -> RowsOfSelect:
        """Rewrite the clauses of the SELECT in the order in which they are computed."""
        names = [_shown_name(item) for item in self.select.expressions]
        before = [item.sql("duckdb") for item in self.select.expressions]
        self._merge_source()
        self._move_common_condition()
        self._rewrite_where()
        self._rewrite_keys()
        forms = AggregateForms(self.table, self._declared)
        for clause in self._clauses():
            replace_own(clause, self._key_value, is_key=True)
            replace_own(clause, lambda node: forms.form(node) if is_aggregate(node) else None)
        for item, text, name in zip(list(self.select.expressions), before, names, strict=True):
            if item.sql("duckdb") != text and not item.alias and item.output_name != name:
                item.replace(exp.alias_(item.copy(), name, quoted=True))
        return self.found

    def _is_derived(self, item: exp.Expr) -> bool:
        """Return whether an item of the SELECT list is computed from names of other items alone."""
        names = {one.name for one in item.find_all(exp.Column)}
        own = {name for name in names if declared_name(name, visible(self.source)) is not None}
        return bool(names) and not own and names <= {*self.aliases}

    def _clauses(self) -> Iterator[exp.Expr]:
        """Yield the parts of the SELECT that read keys and aggregates."""
        yield from _clauses_after(self.select)

    def _merge_source(self) -> None:
        """Let the SELECT read the declared table, and name its columns."""
        source, select = self.source, self.select
        for clause in (*self._clauses(), *self._row_clauses()):
            is_of_rows = isinstance(clause, exp.Where | exp.Group)
            replace_own(clause, self._resolved_in_rows if is_of_rows else self._resolved)
        parts = [*source.conditions]
        if source.join is not None:
            self._declare_join(source.join.matched)
        where = select.args.get("where")
        parts += [] if where is None else [where.this]
        if source.conditions:
            select.set("where", exp.Where(this=exp.and_(*(part.copy() for part in parts))))
        table = exp.Table(this=exp.to_identifier(source.table.name, quoted=True))
        select.args["from_"].set("this", table)
        select.set("joins", None)

    def _row_clauses(self) -> Iterator[exp.Expr]:
        for name in ("where", "group"):
            clause = self.select.args.get(name)
            if clause is not None:
                yield clause

    def _declare_join(self, matched: bool) -> None:
        join = self.source.join
        if join is None:
            return
        self.found.join = {"table": join.source.table.name}
        if join.by_unit:
            self.found.join["on_unit"] = "true"
        else:
            self.found.join["on"] = dict(join.pairs)
            self.found.join |= {"unmatched": "drop"} if matched else {}
        if join.without:
            self.found.join["without"] = list(join.without)

    def _resolved(self, node: exp.Expr) -> exp.Expr | None:
        """Return the expression of a column of the source; names of the SELECT list stay."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        known = visible(self.source)
        is_unknown = not node.table and declared_name(node.name, known) is None
        if is_unknown and (node.name in self.aliases or self.source.is_complete):
            return None
        return as_operand(resolved(node, self.source, {}), node)

    def _resolved_in_rows(self, node: exp.Expr) -> exp.Expr | None:
        """Return the expression of a column in WHERE or GROUP BY, or of a name of the SELECT list.

        A column of the source precedes a name of the SELECT list.
        """
        is_name = isinstance(node, exp.Column) and not node.table and node.name in self.aliases
        if is_name and declared_name(node.name, visible(self.source)) is None:
            body = self.aliases[node.name]
            if any(own_aggregates(body)):
                return None  # a key is refused, and a condition as well
            return as_operand(resolved(body, self.source, {}), node)
        return self._resolved(node)

    def _move_common_condition(self) -> None:
        """Move a FILTER that all aggregates share to WHERE, so that ids can be counted."""
        found = [node for clause in self._clauses() for node in own_aggregates(clause)]
        split = [_split_condition(node, self.table) for node in found]
        conditions = {"" if one is None else one.sql("duckdb") for _, one in split}
        counts_ids = any(_counts_ids(node, self.table) for node, _ in split)
        if len(conditions) != 1 or "" in conditions or not counts_ids:
            return
        for node, (plain, _) in zip(found, split, strict=True):
            node.replace(plain)
        where, condition = self.select.args.get("where"), split[0][1]
        parts = [*([] if where is None else [where.this]), condition]
        self.select.set("where", exp.Where(this=exp.and_(*(p.copy() for p in parts if p))))

    def _rewrite_where(self) -> None:
        """Rewrite the condition on rows."""
        where = self.select.args.get("where")
        if where is not None:
            where.set("this", row_form(where.this, self.table))

    def _rewrite_keys(self) -> None:
        """Replace the keys by columns, which are computed if necessary."""
        group = self.select.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            items = [item.unalias() for item in self.select.expressions]
            items = [item for item in items if not self._is_derived(item)]
            keys = [item for item in items if not any(own_aggregates(item))]
        else:
            parts = [
                part
                for item in group.expressions
                for part in (item.expressions if isinstance(item, exp.Tuple) else [item])
            ]
            keys = [self._key_expression(part) for part in parts]
        # A constant divides no rows into groups.
        columns = [self._key(key) for key in keys if not isinstance(key, exp.Literal)]
        unique = {column.name: column for column in columns}
        rest = {k: v for k, v in group.args.items() if k not in ("all", "expressions") and v}
        new = exp.Group(expressions=list(unique.values()), **rest)
        self.select.set("group", new if unique or rest else None)

    def _key_expression(self, item: exp.Expr) -> exp.Expr:
        """Return the expression of a key, which may be a position or a name of the SELECT list."""
        if isinstance(item, exp.Literal) and item.name.isdigit() and not item.is_string:
            if not 1 <= int(item.name) <= len(self.select.expressions):
                last = len(self.select.expressions)
                refuse(
                    f"GROUP BY {item.name}",
                    f"the SELECT list has {last} columns",
                    f"use 1 to {last}",
                )
            item = self.select.expressions[int(item.name) - 1].unalias()
        elif isinstance(item, exp.Column) and item.name not in self.table.columns:
            item = self.aliases.get(item.name, item)
        while isinstance(item, exp.Paren):
            item = item.this
        if any(own_aggregates(item)):
            fix = "compare with a constant, or with a parameter that has an earlier answer"
            refuse(item, "a key is computed from one row, and not from an aggregate", fix)
        return item

    def _key(self, node: exp.Expr) -> exp.Expr:
        """Return the column of a key, and note by what its expression is replaced."""
        if isinstance(node, exp.Column):
            return node.copy()
        key = key_column(node, self.table)
        items = self.select.expressions
        alias = next((one.alias for one in items if one.alias and one.this == node), "")
        column = self._declared(key.expression, key.declaration, alias if key.is_plain else "")
        self.keys[node.sql("duckdb")] = key.restored(column)
        return column

    def _key_value(self, node: exp.Expr) -> exp.Expr | None:
        """Return the value of a key over the noised table, if a node is a key."""
        found = self.keys.get(node.sql("duckdb")) if self.keys else None
        return None if found is None else found.copy()

    def _declared(
        self, expression: exp.Expr, declaration: dict[str, Any], name: str = ""
    ) -> exp.Expr:
        """Return a computed column, which is declared once for each expression."""
        text = expression.sql("duckdb")
        key = f"{text} {declaration}"
        if key not in self.texts:
            taken = {one.casefold() for one in (*self.table.columns, *self.found.derive)}
            if not name or name.casefold() in taken or not name.isidentifier():
                taken |= {alias.casefold() for alias in self.aliases}
                name = _unused_name(text, taken)
            self.texts[key] = name
            self.found.derive[name] = {"expression": text, **declaration}
        return exp.column(self.texts[key])


def _joined_table(source: Source) -> Table:
    """Return the declared table with the columns that the join adds."""
    join = source.join
    if join is None:
        return source.table
    right = join.source.table.columns
    added = {name: right[name] for name in visible_columns(right, join.pairs, join.without)}
    return source.table.model_copy(update={"columns": {**source.table.columns, **added}})


def _shown_name(item: exp.Expr) -> str:
    return item.alias or (item.name if isinstance(item, exp.Column) else quoted(item))


def _unused_name(text: str, taken: set[str]) -> str:
    """Return a name that is derived from the SQL of an expression."""
    name = re.sub("[^a-z0-9]+", "_", text.lower())[:LONGEST_NAME].strip("_")
    name = name if re.match("[a-z]", name) else f"value_{name}".rstrip("_")
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _split_condition(node: exp.Expr, table: Table) -> tuple[exp.Expr, exp.Expr | None]:
    """Return an aggregate without its FILTER, and the condition of the FILTER, if it has one.

    COUNT(DISTINCT CASE WHEN c THEN id END) is COUNT(DISTINCT id) with the FILTER c.
    """
    if isinstance(node, exp.Filter):
        return node.this.copy(), node.expression.this
    inner = node.this
    if isinstance(node, exp.Count) and isinstance(inner, exp.Distinct):
        value = inner.expressions[0] if len(inner.expressions) == 1 else None
        if isinstance(value, exp.Case) and value.this is None and len(value.args["ifs"]) == 1:
            (branch,) = value.args["ifs"]
            other, result = value.args.get("default"), branch.args["true"]
            is_id = isinstance(result, exp.Column) and result.name == table.unit.id
            if is_id and (other is None or isinstance(other, exp.Null)):
                counted = exp.Count(this=exp.Distinct(expressions=[result.copy()]), big_int=True)
                return counted, branch.this
    return node, None


def _counts_ids(node: exp.Expr, table: Table) -> bool:
    """Return whether an aggregate is COUNT(DISTINCT id)."""
    inner = node.this
    return isinstance(inner, exp.Distinct) and [one.name for one in inner.expressions] == [
        table.unit.id
    ]
