"""Turn a SELECT that aggregates rows of people into a declared query over its noised columns.

Such a SELECT is a private core of a statement. Its source, conditions, keys and aggregates declare
a query, as a release file would. The rest of the SELECT is rewritten to read the noised table of
this query, and is post-processing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.numerics.rounding import exact
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.query.expressions.whole import unread_argument_text
from dprelease.query.roles import WITH_COMPANIONS
from dprelease.query.sql_functions import (
    ADVICE,
    AGGREGATES,
    ALTERNATIVES,
    FRACTION_ARGUMENT,
    KEYWORD_OF_FUNCTION,
)
from dprelease.schema.column_spec import QUANTILES
from dprelease.schema.field_types import NAME, RESERVED
from dprelease.schema.model import normalized_name
from dprelease.schema.release import PRIVATE_KEYS
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.reader import Plain

MOST_LETTERS = 50
"""Maximum length of a name that is derived from a column's, so that a number can be appended."""

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


@dataclass
class PrivateCore:
    """One declared query of a statement, as a release file would declare it.

    `name`: the name of the query. `fields`: for each published column that the outer statement
    reads, its name there. `texts`: the published column of each aggregate, by the SQL of both.
    """

    name: str
    source: str
    where: str | None
    group_by: list[str]
    columns: dict[str, dict[str, Plain]] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def same(self) -> tuple[str, str | None, tuple[str, ...]]:
        """Return what cores have in common that can be measured by one query."""
        return self.source, self.where, tuple(self.group_by)


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


class CoreReader:
    """Reads one SELECT as a declared query, and rewrites it to read the query's noised table."""

    def __init__(self, select: exp.Select, tables: Mapping[str, Table]) -> None:
        self.select, self.tables = select, tables
        self.aliases: dict[str, exp.Expr] = {}
        self.prefix = ""
        self.core: PrivateCore

    def read(self) -> PrivateCore:
        """Return the source, the conditions and the keys, still without columns."""
        self._refuse_unread_clauses()
        source = str(self.select.args["from_"].this.name)
        self._unqualify_columns()
        where = self.select.args.get("where")
        self.core = PrivateCore("", source, None if where is None else sql_text(where.this), [])
        for item in self.select.expressions:
            name = alias_of(item) or item.name
            self.aliases[name] = item.unalias()
        self.core.group_by = [self._key_name(item) for item in self._group_keys()]
        return self.core

    def rewrite(self, core: PrivateCore, table: str, prefix: str) -> None:
        """Add the measured columns to `core`, and let the SELECT read its noised table.

        `table`: the name of the noised table in the outer statement, whose measured columns have
        names that begin with `prefix`.
        """
        self.core, self.prefix = core, prefix
        group, where = self.select.args.get("group"), self.select.args.get("where")
        for clause in (group, where):
            if clause is not None:
                clause.pop()
        for item in self.select.expressions:
            if isinstance(item.unalias(), AGGREGATE_NODES):
                self._measured_column(item.unalias(), alias_of(item))
        names = [self._item_name(item) for item in self.select.expressions]
        self._replace_aggregates()
        items = [
            exp.alias_(item.unalias(), name, quoted=True) if name else item
            for item, name in zip(self.select.expressions, names, strict=True)
        ]
        self.select.set("expressions", items)
        self._check_columns()
        source = self.select.args["from_"]
        alias = exp.to_identifier(source.this.alias_or_name, quoted=True)
        source.set("this", exp.to_table(table, alias=alias))
        having = self.select.args.get("having")
        if having is not None:
            self.select.set("where", exp.Where(this=having.this))
            self.select.set("having", None)

    def _refuse_unread_clauses(self) -> None:
        """Refuse clauses that would have an effect on rows of people, but that nothing reads."""
        before = self.select.copy()
        for clause in AFTER_NOISE:
            before.set(clause, None)
        parts = [before, *measured_nodes_of(self.select)]
        what = next(filter(None, map(unread_argument_text, parts)), None)
        if what is not None:
            refuse("DP-SQL-002", what=what)
        if any(node is not before for node in before.find_all(exp.Query)):
            refuse("DP-SQL-002", what="a subquery")
        for node in own_nodes_of(self.select):
            if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
                above = node.parent
                if above is not None and type(above) in AGGREGATES:
                    fix = "name a column instead of *, which only COUNT takes"
                    refuse("DP-SQL-006", name=quoted(above), nearest=fix)
                refuse("DP-SQL-002", what="* for all columns")

    def _unqualify_columns(self) -> None:
        """Remove the table's name before its columns, and refuse any other qualifier."""
        table = self.select.args["from_"].this
        own = table.alias or table.name
        for column in own_nodes_of(self.select):
            if not isinstance(column, exp.Column):
                continue
            if not isinstance(column.this, exp.Identifier):
                refuse("DP-SQL-004", what=quoted(column))
            if column.table and column.table != own:
                refuse("DP-SQL-003", name=f"'{column.table[:LONGEST]}'", known=own)
            column.set("table", None)

    def _group_keys(self) -> list[exp.Expr]:
        """Return the keys of GROUP BY, with positions and aliases replaced by their expressions."""
        group = self.select.args.get("group")
        if group is None:
            return []
        if any(value for name, value in group.args.items() if name != "expressions"):
            refuse("DP-SQL-002", what="a GROUP BY that is not a list of columns")
        keys = []
        for item in group.expressions:
            if isinstance(item, exp.Literal) and not item.is_string:  # a key by position
                place = int(item.name) if item.name.isdigit() else 0
                if not 1 <= place <= len(self.select.expressions):
                    refuse("DP-SQL-002", what="GROUP BY with a column number that does not exist")
                item = self.select.expressions[place - 1].unalias()
            elif self._is_alias(item):
                item = self.aliases[item.name]
            keys.append(item)
        return keys

    def _is_alias(self, item: exp.Expr) -> bool:
        """Return whether a key names a column of the result, and not one of the table."""
        own = self.tables[self.core.source].columns
        return isinstance(item, exp.Column) and item.name in self.aliases and item.name not in own

    def _key_name(self, item: exp.Expr) -> str:
        """Return the name of a column; refuse any other expression."""
        if not isinstance(item, exp.Column):
            refuse("DP-SQL-004", what=quoted(item))
        return str(item.name)

    def _item_name(self, item: exp.Expr) -> str:
        """Return the name of a column of the result; "" for a key, which has a name already."""
        if isinstance(item, exp.Column):
            return ""
        return alias_of(item) or self.core.texts.get(sql_text(item), "") or quoted(item)

    def _replace_aggregates(self) -> None:
        """Replace each aggregate by the column of the noised table that holds it."""
        for node in list(measured_nodes_of(self.select)):
            name = self._measured_column(node)
            node.replace(exp.column(self.core.fields[name], quoted=True))

    def _measured_column(self, node: exp.Expr, alias: str = "") -> str:
        """Return the published column that holds an aggregate; add the column if it is new."""
        text = sql_text(node)
        if text not in self.core.texts:
            kind, column, spec = self._aggregate_spec(node)
            names = [f"{name}{part}" for name in self.core.columns for part in WITH_COMPANIONS]
            taken = {normalized_name(name) for name in (*names, *self.core.group_by, PRIVATE_KEYS)}
            default_name = f"{kind}_{'rows' if column == '*' else column}"
            name = (
                alias if _is_valid_column_name(alias, taken) else _unused_name(default_name, taken)
            )
            self.core.columns[name] = {kind: spec}
            if kind in QUANTILES:  # an answer has the columns of its SELECT list and no others
                self.core.columns[name]["interval"] = "false"
            self.core.texts[text] = name
            self.core.fields[name] = f"{self.prefix}{len(self.core.fields)}"
        return self.core.texts[text]

    def _aggregate_spec(self, node: exp.Expr) -> tuple[str, str, Plain]:
        """Return an aggregate's keyword, its column, and its declaration in a release file."""
        if type(node) not in AGGREGATES:
            name = str(node.key)
            refuse("DP-SQL-006", name=name.upper(), nearest=ALTERNATIVES.get(name, ADVICE))
        inner = node.this
        if inner is None or (isinstance(inner, exp.Distinct) and not isinstance(node, exp.Count)):
            refuse("DP-SQL-006", name=quoted(node), nearest=ADVICE)
        if isinstance(node, exp.Count):
            if isinstance(inner, exp.Distinct) and len(inner.expressions) != 1:
                refuse("DP-SQL-006", name="DISTINCT of none or several columns", nearest=ADVICE)
            if isinstance(inner, exp.Distinct):
                column = self._key_name(inner.expressions[0])
                return "count_distinct", column, column
            column = "*" if isinstance(inner, exp.Star) else self._key_name(inner)
            return "count", column, column
        column = self._key_name(inner)
        if type(node) not in FRACTION_ARGUMENT:
            return KEYWORD_OF_FUNCTION[type(node)], column, column
        part = node.args.get(FRACTION_ARGUMENT[type(node)])
        if not isinstance(part, exp.Literal) or part.is_string:
            refuse("DP-SQL-004", what=quoted(node))
        return "quantile", column, {"of": column, "at": _number_text(part.name)}

    def _check_columns(self) -> None:
        """Refuse columns that are neither keys, nor measured, nor names of the SELECT list."""
        known = {*self.core.group_by, *self.core.fields.values()}
        for item in self.select.expressions:
            self._check_names(item, known)
            known = known | {alias_of(item)}
        for clause in ("having", "qualify", "order", "windows"):
            nodes = self.select.args.get(clause)
            for node in nodes if isinstance(nodes, list) else [nodes] if nodes else []:
                self._check_names(node, known)

    def _check_names(self, node: exp.Expr, known: Collection[str]) -> None:
        """Refuse the columns of an expression that are not known over the noised table."""
        for column in own_nodes(node):
            if not isinstance(column, exp.Column) or column.name in known:
                continue
            table = self.tables[self.core.source]
            if column.name in table.columns or column.name in self.aliases:
                refuse("DP-SQL-004", what=column.name[:LONGEST])
            refuse("DP-QUERY-001", **unknown_column(table, column.name))


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


def _number_text(text: str) -> str:
    """Return the text of a number, or refuse it."""
    try:
        exact(text)
    except ValueError:
        refuse("DP-SQL-004", what=text[:LONGEST])
    return text


def _is_valid_column_name(name: str, taken: Collection[str]) -> bool:
    """Return whether a declared column may have this name; columns of results may have any."""
    is_name = bool(re.fullmatch(NAME, name)) and name.casefold() not in RESERVED
    return is_name and _is_unused(name, taken)


def _is_unused(name: str, taken: Collection[str]) -> bool:
    """Return whether neither a name nor the name of a companion column is taken."""
    return all(f"{name}{part}".casefold() not in taken for part in WITH_COMPANIONS)


def _unused_name(new_name: str, taken: Collection[str]) -> str:
    """Return an unused name that a release file may declare, derived from a column's name."""
    name = re.sub("[^A-Za-z0-9_]+", "_", new_name)[:MOST_LETTERS]
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if _is_unused(free, taken))
