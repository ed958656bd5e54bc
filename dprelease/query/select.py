"""Split one SELECT into aggregates over keys, and computations on noised values.

Aggregates and keys become a declared query, whose result is a noised table. All other parts of the
SELECT (arithmetic on aggregates, HAVING, ORDER BY, LIMIT) are rendered as a second statement, which
reads only the noised table and is post-processing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.numerics.rounding import exact
from dprelease.query import quoting
from dprelease.query.expressions.nodes import (
    MAY_BE_UNDEFINED,
    NOISED_FUNCTIONS,
    NOISED_OPERATORS,
    stop_text,
)
from dprelease.query.expressions.whole import KNOWN, dropped_word_text, unread_argument_text
from dprelease.query.roles import WITH_COMPANIONS
from dprelease.query.sql_functions import (
    ADVICE,
    AGGREGATES,
    ALTERNATIVES,
    FRACTION_ARGUMENT,
    KEYWORD_OF_FUNCTION,
    suggest_functions,
)
from dprelease.schema.column_spec import QUANTILES
from dprelease.schema.field_types import NAME, RESERVED
from dprelease.schema.model import normalized_name
from dprelease.schema.release import PRIVATE_KEYS
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.reader import Plain

LENGTH_LIMIT = 10_000
DEPTH_LIMIT = 60
MOST_NODES = 20_000
"""Maximum number of rendered nodes over the noised table; each use of an alias counts again."""

MOST_LETTERS = 50
"""Maximum length of a name that is derived from a column's, so that a number can be appended."""
NOISED = "noised"
"""The name of the noised table in the statement that reads it."""


SQL_PLACE = Place(key="sql")

NULL_IF_INVALID_SQL = "list_filter([TRY({})], lambda number: isfinite(number))[1]"
"""The result of arithmetic, or NULL where it is infinite, not a number, or out of range.

A CASE would repeat the operand, so that the text of nested operations would double at every level.
"""


@dataclass
class SelectStatement:
    """A statement split into its parts.

    `source`, `where`, `group_by` and `columns` declare the query, as a release file would. `view`
    is the statement over the noised table, which has the columns and the keys of the query.
    """

    source: str
    where: str | None
    group_by: list[str]
    columns: dict[str, dict[str, Plain]] = field(default_factory=dict)
    view: str = ""


def split_select(text: str, tables: Mapping[str, Table]) -> SelectStatement:
    """Return the parts of one SELECT statement over a declared table.

    Raises
    ------
    QueryError
        DP-SQL-001 to 006, with the reason why the statement can't be answered, and what can be.
    """
    if len(text) > LENGTH_LIMIT:
        _refuse("DP-SQL-001", problem=f"it is longer than {LENGTH_LIMIT} characters")
    broken = ""
    try:
        trees = sqlglot.parse(text, read="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError) as problem:
        trees, broken = [], f"it can't be parsed as SQL{stop_text(problem)}"
    if broken:
        _refuse("DP-SQL-001", problem=broken)
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        _refuse("DP-SQL-001", problem="it is not one SELECT statement")
    what = unread_argument_text(trees[0])
    if what is not None:
        _refuse("DP-SQL-002", what=what)
    statement = trees[0].copy()
    selected = _Splitter(trees[0], tables).split()
    what = dropped_word_text(statement, text)
    if what is not None:
        _refuse("DP-SQL-002", what=what)
    return selected


def _refuse(code: str, **fields: Any) -> NoReturn:
    """Raise a query error about the statement."""
    raise QueryError(code, place=SQL_PLACE, **fields)


class _Splitter:
    """Splits one SELECT into a declared query and a statement over the query's noised table."""

    def __init__(self, tree: exp.Select, tables: Mapping[str, Table]) -> None:
        self.tree, self.tables = tree, tables
        self.names: dict[str, str] = {}
        self.nodes = self.depth = 0
        self.aliases: dict[str, exp.Expression] = {}
        self.found: SelectStatement

    def split(self) -> SelectStatement:
        """Return the parts of the statement, or refuse it."""
        self._refuse_other_clauses()
        source = self._source_name()
        self._unqualify_columns()
        where = self.tree.args.get("where")
        self.found = SelectStatement(
            source, None if where is None else where.this.sql("duckdb"), []
        )
        for item in self.tree.expressions:
            if item.alias and item.alias in self.aliases:
                _refuse("DP-SQL-002", what=f"the name {item.alias[:60]} for two columns")
            self.aliases[item.alias_or_name] = item.unalias()
        self.found.group_by = [self._key_name(item) for item in self._group_keys()]
        items = [self._render_item(item) for item in self.tree.expressions]
        if not self.found.columns:
            _refuse("DP-SQL-005")
        self.found.view = self._view_sql(items)
        self._refuse_unlisted_syntax()
        return self.found

    def _refuse_unlisted_syntax(self) -> None:
        """Refuse unlisted syntax, except in WHERE, whose rules have better messages."""
        for node in self.tree.walk(prune=lambda node: isinstance(node, exp.Where)):
            if type(node) not in KNOWN:
                _refuse("DP-SQL-004", what=node.sql("duckdb")[:60])

    def _refuse_other_clauses(self) -> None:
        """Refuse subqueries, window functions, unknown functions, and * outside of COUNT."""
        for node in self.tree.walk(prune=lambda node: isinstance(node, exp.Where)):
            if isinstance(node, exp.Anonymous):
                unknown = f"The unknown function {node.name[:60].upper()}"
                _refuse("DP-SQL-006", name=unknown, nearest=suggest_functions(node.name))
        for node in self.tree.walk():
            if node is not self.tree and isinstance(node, exp.Query | exp.Window | exp.Star):
                if isinstance(node, exp.Star) and isinstance(node.parent, exp.Count):
                    continue
                above = node.parent
                if isinstance(node, exp.Star) and above is not None and type(above) in AGGREGATES:
                    fix = "name a column instead of *, which only COUNT takes"
                    _refuse("DP-SQL-006", name=above.sql("duckdb")[:60], nearest=fix)
                named = isinstance(node, exp.Window), isinstance(node, exp.Star)
                what = {(True, False): "a window function", (False, True): "* for all columns"}
                _refuse("DP-SQL-002", what=what.get(named, "a subquery"))

    def _source_name(self) -> str:
        """Return the name of the declared table after FROM."""
        clause = self.tree.args.get("from_") or self.tree.args.get("from")
        table = None if clause is None else clause.this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            _refuse("DP-SQL-003", name="no table, or a function", known=", ".join(self.tables))
        if table.args.get("db") or table.name not in self.tables:
            name = table.sql("duckdb") if table.args.get("db") else table.name
            _refuse("DP-SQL-003", name=f"'{name[:60]}'", known=", ".join(self.tables))
        return str(table.name)

    def _unqualify_columns(self) -> None:
        """Remove the table's name before its columns, and refuse any other qualifier."""
        table = self.tree.find(exp.Table)
        own = "" if table is None else table.alias or table.name
        for column in self.tree.find_all(exp.Column):
            if not isinstance(column.this, exp.Identifier):
                _refuse("DP-SQL-004", what=column.sql("duckdb")[:60])
            if column.table and column.table != own:
                _refuse("DP-SQL-003", name=f"'{column.table[:60]}'", known=own)
            column.set("table", None)

    def _group_keys(self) -> list[exp.Expression]:
        """Return the keys of GROUP BY, with positions and aliases replaced by their expressions."""
        group = self.tree.args.get("group")
        if group is None:
            return []
        if any(value for name, value in group.args.items() if name != "expressions"):
            _refuse("DP-SQL-002", what="a GROUP BY that is not a list of columns")
        keys = []
        for item in group.expressions:
            if isinstance(item, exp.Literal) and not item.is_string:  # a key by position
                place = int(item.name) if item.name.isdigit() else 0
                if not 1 <= place <= len(self.tree.expressions):
                    _refuse("DP-SQL-002", what="GROUP BY with a column number that does not exist")
                item = self.tree.expressions[place - 1].unalias()
            elif self._is_alias(item):
                item = self.aliases[item.name]
            keys.append(item)
        return keys

    def _is_alias(self, item: exp.Expression) -> bool:
        """Return whether a key names a column of the result, and not one of the table."""
        own = self.tables[self.found.source].columns
        return isinstance(item, exp.Column) and item.name in self.aliases and item.name not in own

    def _key_name(self, item: exp.Expression) -> str:
        """Return the name of a column; refuse any other expression."""
        if not isinstance(item, exp.Column):
            _refuse("DP-SQL-004", what=item.sql("duckdb")[:60])
        return str(item.name)

    def _render_item(self, item: exp.Expression) -> tuple[str, str]:
        """Return the rendered expression over the noised table, and its name."""
        body: exp.Expression = item.unalias()  # type: ignore[assignment]
        name = item.alias or (body.name if isinstance(body, exp.Column) else "")
        if type(body) in AGGREGATES:
            self._noised_column(body, item.alias)
        rendered = self._rendered_sql(body)
        return rendered, name or self.names.get(body.sql("duckdb"), "") or body.sql("duckdb")[:60]

    def _noised_column(self, node: exp.Expression, function_name: str = "") -> str:
        """Return the noised column that holds an aggregate."""
        text = node.sql("duckdb")
        if text not in self.names:
            kind, column, spec = self._aggregate_spec(node)
            names = [f"{name}{part}" for name in self.found.columns for part in WITH_COMPANIONS]
            taken = {normalized_name(name) for name in (*names, *self.found.group_by, PRIVATE_KEYS)}
            default_name = f"{kind}_{'rows' if column == '*' else column}"
            name = (
                function_name
                if _is_valid_column_name(function_name, taken)
                else _unused_name(default_name, taken)
            )
            self.found.columns[name] = {kind: spec}
            if kind in QUANTILES:  # an answer has the columns of its SELECT list and no others
                self.found.columns[name]["interval"] = "false"
            self.names[text] = name
        return self.names[text]

    def _aggregate_spec(self, node: exp.Expression) -> tuple[str, str, Plain]:
        """Return an aggregate's keyword, its column, and its declaration in a release file."""
        inner = node.this
        if inner is None or (isinstance(inner, exp.Distinct) and not isinstance(node, exp.Count)):
            name = node.sql("duckdb")[:60]
            _refuse("DP-SQL-006", name=name, nearest=ADVICE)
        if isinstance(node, exp.Count):
            if isinstance(inner, exp.Distinct) and len(inner.expressions) != 1:
                _refuse("DP-SQL-006", name="DISTINCT of none or several columns", nearest=ADVICE)
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
            _refuse("DP-SQL-004", what=node.sql("duckdb")[:60])
        return "quantile", column, {"of": column, "at": self._number_sql(part.name)}

    def _rendered_sql(self, node: exp.Expression) -> str:
        """Render an expression over the noised table, by an allow-list."""
        self.nodes, self.depth = self.nodes + 1, self.depth + 1
        if self.nodes > MOST_NODES or self.depth > DEPTH_LIMIT:
            _refuse("DP-SQL-001", problem="it is nested too deeply, or an alias refers to itself")
        rendered = self._expression_sql(node)
        is_constant = isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
        if isinstance(node, MAY_BE_UNDEFINED) and not is_constant:
            rendered = NULL_IF_INVALID_SQL.format(rendered)
        self.depth -= 1
        return rendered

    def _expression_sql(self, node: exp.Expression) -> str:
        """Return the SQL of an aggregate's noised column, or of another allowed expression."""
        if type(node) in AGGREGATES:
            return _noised_column_sql(self._noised_column(node))
        if isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Filter):
            name = str(node.key)
            nearest = ALTERNATIVES.get(name, ADVICE)
            _refuse("DP-SQL-006", name=name.upper(), nearest=nearest)
        return self._plain_expression_sql(node)

    def _plain_expression_sql(self, node: exp.Expression) -> str:
        """Return the SQL of an expression that is no aggregate, over the noised table."""
        if isinstance(node, exp.Column):
            return self._column_or_alias_sql(node)
        if isinstance(node, exp.Literal):
            return quoting.text(node.name) if node.is_string else self._number_sql(node.name)
        if isinstance(node, exp.Paren | exp.Neg | exp.Not):
            operator = {exp.Paren: "", exp.Neg: "-", exp.Not: "NOT "}[type(node)]
            return f"({operator}{self._rendered_sql(node.this)})"
        if type(node) in NOISED_OPERATORS:
            left, right = self._rendered_sql(node.this), self._rendered_sql(node.expression)
            return f"({left} {NOISED_OPERATORS[type(node)]} {right})"
        if type(node) in NOISED_FUNCTIONS:
            parts = [node.this, *node.expressions]
            parts += [node.args[key] for key in ("decimals", "expression") if node.args.get(key)]
            arguments = ", ".join(self._rendered_sql(part) for part in parts)
            return f"{NOISED_FUNCTIONS[type(node)]}({arguments})"
        _refuse("DP-SQL-004", what=node.sql("duckdb")[:60])

    def _number_sql(self, text: str) -> str:
        """Return the text of a number, or refuse it."""
        try:
            exact(text)
        except ValueError:
            _refuse("DP-SQL-004", what=text[:60])
        return text

    def _column_or_alias_sql(self, node: exp.Column) -> str:
        """Return the SQL of a key, or of the expression that an alias names."""
        name = str(node.name)
        if name in self.found.group_by:
            return _noised_column_sql(name)
        body = self.aliases.get(name)
        if body is not None and not (isinstance(body, exp.Column) and body.name == name):
            return self._rendered_sql(body)
        _refuse("DP-SQL-004", what=name[:60])

    def _view_sql(self, items: list[tuple[str, str]]) -> str:
        """Return the statement over the noised table, from items with their names."""
        shown = ", ".join(f"{text} AS {quoting.identifier(name)}" for text, name in items)
        parts = [f"SELECT {shown} FROM {NOISED}"]
        having, order, limit = (self.tree.args.get(key) for key in ("having", "order", "limit"))
        if having is not None:
            parts.append(f"WHERE {self._rendered_sql(having.this)}")
        if order is not None:
            parts.append(
                "ORDER BY " + ", ".join(self._order_item_sql(item) for item in order.expressions)
            )
        if limit is not None:
            count = limit.expression
            if not isinstance(count, exp.Literal) or not count.name.isdigit():
                _refuse("DP-SQL-002", what="a LIMIT that is not a number")
            parts.append(f"LIMIT {count.name}")
        return " ".join(parts)

    def _order_item_sql(self, item: exp.Expression) -> str:
        """Return the SQL of one item of ORDER BY, which may be a position or an alias."""
        body, direction = item.this, ""
        if isinstance(item, exp.Ordered):
            direction = " DESC" if item.args.get("desc") else " ASC"
            direction += " NULLS FIRST" if item.args.get("nulls_first") else " NULLS LAST"
        if isinstance(body, exp.Literal) and body.name.isdigit():
            place = int(body.name)
            if not 1 <= place <= len(self.tree.expressions):
                _refuse("DP-SQL-002", what="ORDER BY with a column number that does not exist")
            body = self.tree.expressions[place - 1].unalias()
        body = self.aliases.get(body.name, body) if isinstance(body, exp.Column) else body
        return self._rendered_sql(body) + direction


def _noised_column_sql(name: str) -> str:
    """Return SQL of a column of the noised table, qualified because aliases may be the same."""
    return f"{NOISED}.{quoting.identifier(name)}"


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
