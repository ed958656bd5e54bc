"""ROLLUP, CUBE and GROUPING SETS: a union of one SELECT for each set of keys.

Each set becomes a query, as each table of a rollup or a cube in a release file. The clauses after
the aggregates, such as HAVING, ORDER BY and window functions, read the rows of all sets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from sqlglot import exp

from dprelease.errors import QueryError
from dprelease.errors.printable import count_text
from dprelease.query.select_nodes import is_interval
from dprelease.query.sql_rewrites.aggregate_forms import is_aggregate, replace_own
from dprelease.query.sql_rewrites.row_forms import number
from dprelease.query.sql_rewrites.row_sources import Source, resolved, visible
from dprelease.query.sql_rewrites.sub_queries import sources
from dprelease.query.sql_rewrites.unanswerable import quoted, refuse
from dprelease.schema.table import Table

MOST_SETS = 64
_OF_ROWS = ("from_", "joins", "where")
_AFTER = ("expressions", "having", "qualify", "windows", "distinct", "order")

Keys = tuple[exp.Expr, ...]


def expand_grouping_sets(select: exp.Select, tables: Mapping[str, Table], prefix: str) -> bool:
    """Let a SELECT with several sets of keys read a union of SELECTs; return whether it has any.

    `prefix`: the beginning of names that the statement does not contain.

    Raises QueryError: DP-SQL-006 for too many sets, and for GROUPING of what is no key.
    """
    group = select.args.get("group")
    if group is not None:
        _complete_with_rollup(group)
    nodes = [] if group is None else list(group.iter_expressions())
    if not any(isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in nodes):
        for clause in _clauses(select):
            for node in _own_groupings(clause):
                reason = "the statement has one set of keys"
                refuse(node, reason, "use it with ROLLUP, CUBE or GROUPING SETS")
        return False
    if group is not None:
        _Expansion(select, tables, prefix).expand(group)
    return True


def _complete_with_rollup(group: exp.Expr) -> None:
    """Write GROUP BY a, b WITH ROLLUP, or WITH CUBE, as GROUP BY ROLLUP (a, b)."""
    for part in list(group.iter_expressions()):
        if isinstance(part, exp.Rollup | exp.Cube) and not part.expressions:
            part.set("expressions", group.expressions)
            group.set("expressions", [])


def _clauses(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the parts of a SELECT that read its keys and aggregates."""
    for name in _AFTER:
        found = select.args.get(name)
        yield from list(found) if isinstance(found, list) else [] if found is None else [found]


def _own_groupings(node: exp.Expr) -> list[exp.Expr]:
    """Return the calls of GROUPING in an expression."""
    return [one for one in node.walk() if isinstance(one, exp.Grouping | exp.GroupingId)]


class _Expansion:
    """Rewrites one SELECT with several sets of keys."""

    def __init__(self, select: exp.Select, tables: Mapping[str, Table], prefix: str) -> None:
        self.select, self.prefix = select, prefix
        self.source = sources(select.copy(), tables)
        self.columns = {} if self.source is None else visible(self.source)
        self.aliases = {item.alias: item.this for item in select.expressions if item.alias}
        self.keys: dict[str, exp.Expr] = {}
        self.measured: dict[str, exp.Expr] = {}
        self.groupings: dict[str, Keys] = {}
        taken = {name.casefold() for name in self.columns}
        self.names = {
            self._text(node): name
            for name, node in self.aliases.items()
            if is_aggregate(node) and name.isidentifier() and name.casefold() not in taken
        }
        """The names of aggregates in the SELECT list, under which they are published."""

    def expand(self, group: exp.Expr) -> None:
        """Replace the source of the SELECT by the union of the SELECTs of all sets."""
        sets = self._sets(group)
        if len(sets) > MOST_SETS:
            number_of_sets = count_text(len(sets), "set", "sets")
            reason = f"it has {number_of_sets} of keys, and each needs a part of the budget"
            refuse("GROUP BY", reason, f"write at most {MOST_SETS} sets, as in ROLLUP (a, b)")
        for key in (key for keys in sets for key in keys):
            self.keys.setdefault(self._text(key), key)
        for clause in _clauses(self.select):
            # GROUPING comes first, because keys are its arguments, which would be replaced.
            replace_own(clause, self._grouping)
            replace_own(clause, self._key, is_key=True)
            replace_own(clause, self._measure)
        parts = [self._select_of(keys) for keys in sets]
        union: exp.Expr = parts[0]
        for part in parts[1:]:
            union = exp.Union(this=union, expression=part, distinct=False)
        alias = exp.TableAlias(this=exp.to_identifier(f"{self.prefix}rows"))
        self._read(exp.Subquery(this=union, alias=alias))

    def _read(self, source: exp.Subquery) -> None:
        """Let the SELECT read the union; HAVING becomes a condition on its rows."""
        having = self.select.args.get("having")
        for name in (*_OF_ROWS, "group", "having"):
            self.select.set(name, None)
        self.select.set("from_", exp.From(this=source))
        if having is not None:
            self.select.set("where", exp.Where(this=having.this))

    def _sets(self, group: exp.Expr) -> list[Keys]:
        """Return the sets of keys of a GROUP BY: all combinations of the sets of its parts."""
        found: list[list[Keys]] = [self._sets_of(node) for node in group.iter_expressions()]
        return [
            tuple({self._text(key): key for keys in chosen for key in keys}.values())
            for chosen in itertools.product(*found)
        ]

    def _sets_of(self, node: exp.Expr) -> list[Keys]:
        """Return the sets of keys of one part of GROUP BY."""
        if isinstance(node, exp.GroupingSets):
            return [keys for part in node.expressions for keys in self._sets_of(part)]
        if isinstance(node, exp.Rollup | exp.Cube):
            units = [self._unit(part) for part in node.expressions]
            counts = range(len(units), -1, -1)
            if isinstance(node, exp.Rollup):
                chosen = [tuple(units[:count]) for count in counts]
            else:
                chosen = [some for count in counts for some in itertools.combinations(units, count)]
            return [tuple(key for unit in some for key in unit) for some in chosen]
        return [self._unit(node)]

    def _unit(self, node: exp.Expr) -> Keys:
        """Return the keys of (a, b), or of a single key."""
        parts = node.expressions if isinstance(node, exp.Tuple) else [node]
        return tuple(self._resolved(part) for part in parts)

    def _resolved(self, node: exp.Expr) -> exp.Expr:
        """Return the expression of a key, which may be a position or a name of the SELECT list."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Literal) and node.name.isdigit() and not node.is_string:
            items = self.select.expressions
            if not 1 <= int(node.name) <= len(items):
                reason = f"the SELECT list has {count_text(len(items), 'column', 'columns')}"
                refuse(f"GROUP BY {node.name}", reason, f"use 1 to {len(items)}")
            node = items[int(node.name) - 1].unalias()
        elif isinstance(node, exp.Column) and node.name not in self.columns:
            node = self.aliases.get(node.name, node)
        return node.copy()

    def _name(self, kind: str, texts: Mapping[str, object], text: str) -> exp.Expr:
        """Return the column of the union that holds a key, an aggregate or a GROUPING."""
        if kind == "value" and text in self.names:
            return exp.column(self.names[text])
        return exp.column(f"{self.prefix}{kind}_{list(texts).index(text)}")

    def _key(self, node: exp.Expr) -> exp.Expr | None:
        """Return the column of a key in the union, if a node is a key."""
        if isinstance(node, exp.Identifier) or self._text(node) not in self.keys:
            return None
        column = self._name("key", self.keys, self._text(node))
        is_item = isinstance(node, exp.Column) and node.parent is self.select
        return exp.alias_(column, node.name, quoted=True) if is_item else column

    def _measure(self, node: exp.Expr) -> exp.Expr | None:
        """Return the column of an aggregate, or of an end of its interval, in the union."""
        is_grouping = isinstance(node, exp.Grouping | exp.GroupingId)  # it has been replaced
        if is_grouping or not (is_aggregate(node) or is_interval(node)):
            return None
        body = node.copy()
        for part in list(body.expressions) if is_interval(node) else []:
            if isinstance(part, exp.Column) and part.name in self.aliases:
                part.replace(self.aliases[part.name].copy())
        self.measured.setdefault(self._text(body), body)
        column = self._name("value", self.measured, self._text(body))
        is_item = node.parent is self.select
        return exp.alias_(column, quoted(node), quoted=True) if is_item else column

    def _grouping(self, node: exp.Expr) -> exp.Expr | None:
        """Return the column of GROUPING(a, b) in the union."""
        if not isinstance(node, exp.Grouping | exp.GroupingId):
            return None
        keys = tuple(self._resolved(part) for part in node.expressions)
        for key in keys:
            if self._text(key) not in self.keys:
                refuse(node, f"{quoted(key)} is no key", "name keys of GROUP BY")
        self.groupings.setdefault(self._text(node), keys)
        column = self._name("level", self.groupings, self._text(node))
        is_item = node.parent is self.select
        return exp.alias_(column, quoted(node), quoted=True) if is_item else column

    def _select_of(self, keys: Keys) -> exp.Select:
        """Return the SELECT of one set of keys, with NULL for the other keys."""
        present = {self._text(key) for key in keys}
        items = [
            (exp.Null() if text not in present else key.copy(), self._name("key", self.keys, text))
            for text, key in self.keys.items()
        ]
        items += [
            (node.copy(), self._name("value", self.measured, text))
            for text, node in self.measured.items()
        ]
        items += [
            (self._level(one, present), self._name("level", self.groupings, text))
            for text, one in self.groupings.items()
        ]
        found = exp.Select(expressions=[exp.alias_(node, name.name) for node, name in items])
        for name in _OF_ROWS:
            clause = self.select.args.get(name)
            copies = [one.copy() for one in clause] if isinstance(clause, list) else None
            found.set(name, copies or (None if clause is None else clause.copy()))
        if keys:
            found.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return found

    def _level(self, keys: Keys, present: set[str]) -> exp.Expr:
        """Return GROUPING(a, b): a bit for each key, which is 1 if the set lacks the key."""
        level = 0
        for key in keys:
            level = 2 * level + (self._text(key) not in present)
        return number(level)

    def _text(self, node: exp.Expr) -> str:
        """Return the SQL of a node, which is equal for equal expressions over the source."""
        same = node.copy().transform(lambda one: _unqualified(one, self.source))
        return same.sql("duckdb", comments=False)


def _unqualified(node: exp.Expr, source: Source | None) -> exp.Expr:
    """Return a column of a source in one spelling; other nodes stay."""
    if source is None or not isinstance(node, exp.Column):
        return node  # a name of the SELECT list
    try:
        found = resolved(node, source, {})
    except QueryError:  # a name of the SELECT list
        return node
    return exp.column(found.name, quoted=True) if isinstance(found, exp.Column) else found
