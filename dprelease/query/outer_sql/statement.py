"""Split a statement into private cores, and the outer statement over their noised tables.

A private core is a SELECT that aggregates rows of a declared table about people. Each core becomes
a declared query, whose result is a noised table. All other parts of the statement are the outer
statement, which reads only noised tables, and is post-processing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from sqlglot import exp

from dprelease.errors.suggestions import nearest
from dprelease.query.expressions.whole import dropped_word_text, unwritten_word_text
from dprelease.query.outer_sql.identifiers import use_declared_spelling
from dprelease.query.outer_sql.null_safe import check_scalar_queries, replace_fallible
from dprelease.query.outer_sql.parameters import Params, insert_parameters, number_parameters
from dprelease.query.outer_sql.parsing import (
    parse,
    refuse_functions_as_names,
    refuse_node,
    refuse_unknown_functions,
    write_lateral_joins,
)
from dprelease.query.outer_sql.public_queries import (
    PublicRows,
    columns_read,
    no_rows,
    refuse_hidden_tables,
)
from dprelease.query.outer_sql.strict_types import type_constants
from dprelease.query.outer_sql.syntax import unlisted_nodes
from dprelease.query.quality import CONFIDENCE
from dprelease.query.select import CoreReader, PrivateCore
from dprelease.query.select_nodes import (
    AGGREGATE_NODES,
    alias_of,
    clauses_after_noise,
    measured_nodes_of,
    own_nodes_of,
    quoted,
    refuse,
    refuse_equal_names,
)
from dprelease.query.sql_rewrites.aggregate_forms import with_known_names
from dprelease.query.sql_rewrites.grouping_sets import expand_grouping_sets
from dprelease.query.sql_rewrites.row_forms import date_part
from dprelease.schema.table import Table

DECLARE = "; or pass the schema of this table, too, as in schema=['people.yaml', 'regions.yaml']"
"""How to declare a further table."""

MOST_NODES = 20_000
"""Maximum number of nodes over the noised tables; each use of an alias counts again."""

ANSWER = "answer"
"""The name of the first core's query; others are numbered."""


Scope = Mapping[str, exp.CTE | None]
"""The names of WITH in lower case: a CTE of rows of declared tables, or None for other rows."""


@dataclass
class SplitStatement:
    """A statement split into its parts.

    `cores`: the declared queries, by name. `outer`: the statement over their noised tables, which
    have the names in `tables` there. `public`: the public tables that it also reads, with their
    names there. `public_columns`: the columns that it reads of each public table.
    `public_values`: the public tables whose values the cores contain.
    """

    cores: dict[str, PrivateCore] = field(default_factory=dict)
    outer: str = ""
    outer_tree: exp.Query = field(default_factory=exp.Select)
    tables: dict[str, str] = field(default_factory=dict)
    public: dict[str, str] = field(default_factory=dict)
    public_columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    public_values: tuple[str, ...] = ()

    @property
    def public_names(self) -> list[str]:
        """The public tables that are read, before and after the noise."""
        return list(dict.fromkeys((*self.public_values, *self.public)))


def split_statement(
    text: str,
    tables: Mapping[str, Table],
    params: Params = None,
    *,
    rows_of: PublicRows = no_rows,
    margins: bool = False,
    confidence: Fraction = CONFIDENCE,
) -> SplitStatement:
    """Return the parts of one statement over declared tables.

    `params`: the values of `$name` by name, or of `?` in their order. `rows_of`: returns the rows
    of a query over public tables, which the cores then contain. `margins`: whether the answer has
    the margins and intervals of its aggregates. `confidence`: that of all intervals.

    Raises QueryError: DP-SQL-001 to 006, with the reason why the statement can't be answered, and
    what can be.
    """
    text = number_parameters(text)
    tree = parse(text)
    original = tree.copy()
    insert_parameters(tree, params)
    found = _Splitter(tables, text, tree if margins else None, confidence, rows_of).split(tree)
    # sqlglot may drop a word, and the answer would be that of another statement.
    dropped = dropped_word_text(original, text)
    if dropped is not None:
        refuse("DP-SQL-002", what=dropped)
    return found


class _Splitter:
    """Finds the private cores of one statement, and replaces each by its noised table."""

    def __init__(
        self,
        tables: Mapping[str, Table],
        text: str,
        with_margins: exp.Query | None,
        confidence: Fraction,
        rows_of: PublicRows,
    ) -> None:
        self.tables, self.with_margins, self.confidence = tables, with_margins, confidence
        self.rows_of = rows_of
        self.found, self.has_margins = SplitStatement(), False
        self.whole: exp.Query | None = None
        # A statement that knew these names could read a noised table by itself.
        numbered = (f"noised_{number}_" for number in itertools.count(1))
        self.prefix = next(name for name in numbered if name not in text.casefold())
        """The beginning of all names that the statement itself does not contain."""

    def split(self, tree: exp.Query) -> SplitStatement:
        """Return the parts of the statement, or refuse it."""
        text, self.whole = quoted(tree), tree
        tree = with_known_names(tree)
        use_declared_spelling(tree, self.tables)
        refuse_functions_as_names(tree, self.tables)
        for select in list(tree.find_all(exp.Select)):
            refuse_equal_names(select.expressions)
            _name_items(select, aggregates=False)
        write_lateral_joins(tree)
        tree = cast("exp.Query", tree.transform(date_part, copy=False))
        if self._is_rows(tree, {}):
            refuse_unknown_functions(tree.walk())
            refuse("DP-SQL-005", what=text)
        if self.with_margins is not None and not self.has_margins:
            what = "margins of another statement than a SELECT of aggregates with one set of keys"
            fix = "leave out the margins, and use DP_INTERVAL_LOW(x) and DP_INTERVAL_HIGH(x)"
            refuse("DP-SQL-006", name=what, nearest=fix)
        if not self.found.cores:
            private = [name for name, table in self.tables.items() if not table.public]
            name, known = "no table about people", ", ".join(private) or "one about people"
            if self.found.public:
                name = "public tables only, which needs no noise"
                known += "; read public tables alone with DuckDB or pandas"
            refuse("DP-SQL-003", name=name, known=known)
        readable = (*self.found.tables.values(), *self.found.public.values())
        for node in unlisted_nodes(tree, readable):
            refuse_node(node)
        _refuse_growth(tree)
        check_scalar_queries(tree, self._tables_with_keys())
        for select in list(tree.find_all(exp.Select)):
            _name_items(select, aggregates=True)
        self.found.public_columns = {
            name: columns_read(tree, self.tables[name]) for name in self.found.public
        }
        replace_fallible(tree)
        type_constants(tree)
        self.found.outer = tree.sql("duckdb", comments=False)
        self.found.outer_tree = tree
        unwritten = unwritten_word_text(tree, self.found.outer)
        if unwritten is not None:
            refuse("DP-SQL-002", what=unwritten)
        return self.found

    def _tables_with_keys(self) -> set[str]:
        """Return the names of the noised tables that can have several rows."""
        return {self.found.tables[name] for name, core in self.found.cores.items() if core.group_by}

    def _is_rows(self, query: exp.Expr, scope: Scope) -> bool:
        """Replace the cores of a query; return whether the query returns rows of people."""
        scope = self._scope_of_ctes(query, scope)
        if isinstance(query, exp.Subquery):
            return self._is_rows(query.this, scope)
        if isinstance(query, exp.SetOperation):
            if query.args.get("by_name"):
                fix = "list the columns of both SELECTs in the same order, and leave out BY NAME"
                refuse("DP-SQL-006", name=f"{query.key.upper()} BY NAME", nearest=fix)
            for side in (query.this, query.expression):
                if self._is_rows(side, scope):
                    refuse("DP-SQL-005", what=quoted(side))
            return False
        if not isinstance(query, exp.Select):
            refuse("DP-SQL-002", what=quoted(query))
        return self._is_select_of_rows(query, scope)

    def _scope_of_ctes(self, query: exp.Expr, scope: Scope) -> Scope:
        """Return the scope with the CTEs of a query; those of rows are removed from the query."""
        clause = query.args.get("with_")
        if clause is None:
            return scope
        if clause.args.get("recursive"):
            refuse("DP-SQL-002", what="WITH RECURSIVE")
        scope, others = dict(scope), []
        for cte in clause.expressions:
            is_rows = self._is_public_cte(cte, scope) or self._is_rows(cte.this, scope)
            scope[cte.alias.casefold()] = cte if is_rows else None
            others += [] if is_rows else [cte]
        clause.set("expressions", others)
        if not others:
            clause.pop()
        return scope

    def _is_select_of_rows(self, select: exp.Select, scope: Scope) -> bool:
        """Replace the cores of a SELECT; return whether it returns rows of people."""
        source = select.args.get("from_")
        joins = select.args.get("joins") or []
        sources = [*([] if source is None else [source.this]), *(join.this for join in joins)]
        sources = [self._with_public_cte(one, scope) for one in sources]
        public = [one for one in sources if self._is_public_query(one, scope)]
        found = {id(one): self._source_kind(one, scope) for one in sources if one not in public}
        for one in public:
            is_joined = "people" in found.values()
            found[id(one)] = "public" if is_joined else self._source_kind(one, scope)
        kinds = [found[id(one)] for one in sources]
        if "people" not in kinds:
            for one, kind in zip(sources, kinds, strict=True):
                if kind == "public":
                    self._use_public_table(one)
            inner = {id(one) for one in sources}
            for part in select.iter_expressions():
                self._replace_nested(part, scope, inner)
            return False
        if "noised" in kinds:
            what = "A join of rows about people with other rows than those of a declared table"
            fix = "join a public table or a sub-query of one, as in people JOIN (SELECT code, size "
            refuse("DP-SQL-006", name=what, nearest=f"{fix}FROM towns) AS t USING (code)")
        refuse_hidden_tables(select, self.tables, scope)
        is_core = select.args.get("group") or select.args.get("having")
        if not is_core and next(measured_nodes_of(select), None) is None:
            if select is not self.whole or not _selects_distinct_keys(select):
                return True
            select.set("group", exp.Group(all=True))
        if expand_grouping_sets(select, self.tables, f"{self.prefix}set_"):
            return self._is_rows(select, scope)
        self._replace_core(select, scope)
        return False

    def _is_public_cte(self, cte: exp.CTE, scope: Scope) -> bool:
        """Return whether a CTE reads one public table, and all names of CTEs are different."""
        whole = cast("exp.Query", self.whole)
        names = [one.alias.casefold() for one in whole.find_all(exp.CTE)]
        names += [name.casefold() for name in self.tables]
        read = list(cte.this.find_all(exp.Table))
        if len(set(names)) < len(names) or len(read) > 1 or cte.args["alias"].args.get("columns"):
            return False
        for source in read:
            self._with_public_cte(source, scope)
        return self._is_public_query(exp.Subquery(this=cte.this.copy()), scope)

    def _with_public_cte(self, source: exp.Expr, scope: Scope) -> exp.Expr:
        """Return a source of FROM, which a sub-query replaces if it names a CTE of public rows."""
        is_name = isinstance(source, exp.Table) and not source.args.get("db")
        cte = scope.get(source.name.casefold()) if is_name else None
        rows = None if cte is None else exp.Subquery(this=cte.this.copy())
        if rows is None or not self._is_public_query(rows, {}):
            return source
        rows.set("alias", source.args.get("alias") or exp.TableAlias(this=source.this.copy()))
        return source.replace(rows)

    def _is_public_query(self, source: exp.Expr, scope: Scope) -> bool:
        """Return whether a source is a sub-query that reads public tables only."""
        tables = list(source.find_all(exp.Table)) if isinstance(source, exp.Subquery) else []
        declared = [self.tables.get(one.name) for one in tables if one.name.casefold() not in scope]
        return (
            bool(tables)
            and len(declared) == len(tables)
            and all(table is not None and table.public for table in declared)
        )

    def _source_kind(self, source: exp.Expr, scope: Scope) -> str:
        """Return what a source of FROM holds: people, public or noised rows."""
        if isinstance(source, exp.Subquery):
            return "people" if self._is_rows(source, scope) else "noised"
        if isinstance(source, exp.Values):
            return "noised"
        if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
            refuse("DP-SQL-003", name="a function of tables", known=", ".join(self.tables))
        name = source.name.casefold()
        if name in scope and not source.args.get("db"):
            cte = scope[name]
            if cte is None:
                return "noised"
            if cte.args["alias"].args.get("columns"):
                refuse("DP-SQL-002", what=f"other names for the columns of {quoted(source)}")
            alias = source.args.get("alias") or exp.TableAlias(this=source.this.copy())
            source.replace(exp.Subquery(this=cte.this.copy(), alias=alias))
            return "people"
        return self._table_kind(source)

    def _table_kind(self, source: exp.Table) -> str:
        """Return whether a declared table is about people or public."""
        if source.args.get("db") or source.name not in self.tables:
            shown = quoted(source) if source.args.get("db") else source.name[:60]
            similar = nearest(source.name, self.tables)
            known = ", ".join(self.tables) + similar + DECLARE
            refuse("DP-SQL-003", name=f"'{shown}', which is not declared", known=known)
        return "public" if self.tables[source.name].public else "people"

    def _use_public_table(self, source: exp.Expr) -> None:
        """Let the outer statement read a public table by a name that nothing else has."""
        name = source.name
        outer_name = self.found.public.setdefault(name, f"{self.prefix}{name}".casefold())
        alias = exp.to_identifier(source.alias_or_name, quoted=True)
        if source.args.get("alias") is None:
            source.set("alias", exp.TableAlias(this=alias))
        source.set("this", exp.to_identifier(outer_name, quoted=True))

    def _replace_nested(self, part: exp.Expr, scope: Scope, inner: set[int]) -> None:
        """Replace the cores of the queries nested in a part of a SELECT, except its sources."""
        todo = [part]
        while todo:
            node = todo.pop()
            if id(node) in inner or isinstance(node, exp.With):
                continue
            if isinstance(node, exp.Query):
                if self._is_rows(node, scope):
                    refuse("DP-SQL-005", what=quoted(node))
                continue
            todo += list(node.iter_expressions())

    def _replace_core(self, select: exp.Select, scope: Scope) -> None:
        """Declare the query of a core, and let the SELECT read its noised table."""
        text = quoted(select)
        for source in list(select.find_all(exp.Table)):
            self._with_public_cte(source, scope)
        reader = CoreReader(select, self.tables, self.confidence)
        read = reader.read(self.rows_of)
        refuse_unknown_functions(own_nodes_of(select))
        for part in clauses_after_noise(select):
            self._replace_nested(part, scope, set())
        # Cores of the same rows and keys share one query: an aggregate of both is measured once.
        core = next((one for one in self.found.cores.values() if one.same == read.same), None)
        if core is None:
            number = len(self.found.cores) + 1
            read.name = ANSWER if number == 1 else f"{ANSWER}_{number}"
            core = self.found.cores[read.name] = read
            self.found.tables[read.name] = f"{self.prefix}{number}"
        table = self.found.tables[core.name]
        self.has_margins |= select is self.with_margins
        reader.rewrite(core, table, f"{table}_", margins=select is self.with_margins)
        if not core.columns and not (select is self.whole and core.group_by):
            refuse("DP-SQL-005", what=text)


def _selects_distinct_keys(select: exp.Select) -> bool:
    """Return whether a SELECT without aggregates returns each combination of its values once."""
    distinct = select.args.get("distinct")
    is_plain = distinct is not None and not distinct.args.get("on")
    nodes = [node for item in select.expressions for node in item.walk()]
    is_of_rows = any(isinstance(node, exp.Column) for node in nodes)
    others = any(isinstance(node, exp.Query | exp.Window | exp.Star) for node in nodes)
    return is_plain and is_of_rows and not others


def _refuse_growth(tree: exp.Expr) -> None:
    """Refuse names that stand for ever longer expressions, which the engine would write out."""
    for select in tree.find_all(exp.Select):
        sizes: dict[str, int] = {}
        for item in select.expressions:
            size = sum(
                sizes.get(node.name.casefold(), 1) if isinstance(node, exp.Column) else 1
                for node in item.walk()
            )
            if size > MOST_NODES:
                refuse("DP-SQL-001", problem="its names stand for expressions that are too long")
            if alias_of(item):
                sizes[alias_of(item).casefold()] = size


def _name_items(select: exp.Select, *, aggregates: bool) -> None:
    """Name computed items of a SELECT list by their own SQL, before it is rewritten."""
    for item in list(select.expressions):
        is_named = bool(alias_of(item)) or isinstance(item, exp.Column | exp.Star)
        if not is_named and (aggregates or not isinstance(item, AGGREGATE_NODES)):
            item.replace(exp.alias_(item.copy(), quoted(item), quoted=True))
