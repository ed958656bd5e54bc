"""`where`: row-wise predicates, by an allow-list on the parsed tree.

Only total functions are allowed: nothing here can fail for any value of any row, look at another
row, at the clock, at a random number, at a file or at another table. Whatever is not on the list is
refused. The text that runs is rendered anew from the checked tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

import sqlglot
from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.numerics.rounding import exact
from dprelease.query import quoting
from dprelease.query.columns import Predicate, unknown_column
from dprelease.schema.table import Table

LENGTH_LIMIT = 10_000
DEPTH_LIMIT = 60


class Kind(StrEnum):
    """What a value is, as far as comparing goes."""

    NUMBER = "a number"
    TEXT = "a text"
    BOOLEAN = "a truth value"
    DATE = "a date"
    TIMESTAMP = "an instant"
    NULL = "null"


KIND_OF_TYPE = {
    "integer": Kind.NUMBER,
    "number": Kind.NUMBER,
    "category": Kind.TEXT,
    "cut": Kind.TEXT,
    "text": Kind.TEXT,
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class _Term:
    sql: str
    kind: Kind


COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
ARITHMETIC: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
FUNCTIONS: dict[type[exp.Expression], tuple[str, Kind, Kind]] = {
    exp.Lower: ("lower", Kind.TEXT, Kind.TEXT),
    exp.Upper: ("upper", Kind.TEXT, Kind.TEXT),
    exp.Length: ("length", Kind.TEXT, Kind.NUMBER),
    exp.Abs: ("abs", Kind.NUMBER, Kind.NUMBER),
    exp.Year: ("year", Kind.DATE, Kind.NUMBER),
    exp.Month: ("month", Kind.DATE, Kind.NUMBER),
    exp.Day: ("day", Kind.DATE, Kind.NUMBER),
}
TIMELY = {
    "DATE": Kind.DATE,
    "TIMESTAMP": Kind.TIMESTAMP,
    "TIMESTAMPNTZ": Kind.TIMESTAMP,
    "DATETIME": Kind.TIMESTAMP,
}
ALLOWED = "lower, upper, trim, length, starts_with, abs, year, month, day, coalesce"


def parse_predicate(where: str, table: Table, place: Place) -> Predicate:
    """Return the checked predicate.

    Raises
    ------
    QueryError
        DP-WHERE-001 to 009: why it is not a row-wise, total condition on declared columns.
    """
    if len(where) > LENGTH_LIMIT:
        raise QueryError("DP-WHERE-009", place=place, limit=LENGTH_LIMIT)
    try:
        trees: list[exp.Expression | None] = sqlglot.parse(where, read="duckdb")  # type: ignore[assignment]
    except (sqlglot.errors.SqlglotError, RecursionError):
        raise QueryError("DP-WHERE-001", place=place) from None
    if len(trees) != 1 or trees[0] is None:
        raise QueryError("DP-WHERE-001", place=place)
    checker = _Checker(table, place)
    term = checker.term(trees[0], 0)
    if term.kind is not Kind.BOOLEAN:
        raise QueryError("DP-WHERE-008", place=place, kind=term.kind)
    return Predicate(term.sql, tuple(sorted(checker.columns)))


class _Checker:
    """Walks a tree once; every node is either rendered by a rule of this class or refused."""

    def __init__(self, table: Table, place: Place) -> None:
        self.table, self.place = table, place
        self.columns: set[str] = set()
        self.rules: list[tuple[type[exp.Expression], Callable[..., _Term]]] = [
            (exp.Paren, self._paren),
            (exp.Column, self._column),
            (exp.Literal, self._literal),
            (exp.Boolean, self._boolean),
            (exp.Null, self._null),
            (exp.Neg, self._negative),
            (exp.And, self._logic),
            (exp.Or, self._logic),
            (exp.Not, self._not),
            (exp.Is, self._is),
            (exp.Between, self._between),
            (exp.In, self._in),
            (exp.Like, self._like),
            (exp.ILike, self._like),
            (exp.Case, self._case),
            (exp.Coalesce, self._coalesce),
            (exp.StartsWith, self._starts_with),
            (exp.Trim, self._trim),
            (exp.Cast, self._dated),
        ]

    def term(self, node: exp.Expression, depth: int) -> _Term:
        """Return a node as SQL with its kind; refuse what is not on the list."""
        if depth > DEPTH_LIMIT:
            raise QueryError("DP-WHERE-009", place=self.place, limit=LENGTH_LIMIT)
        if type(node) in COMPARISONS:
            return self._comparison(node, depth)
        if type(node) in ARITHMETIC:
            return self._arithmetic(node, depth)
        if type(node) in FUNCTIONS:
            return self._function(node, depth)
        for kind, rule in self.rules:
            if type(node) is kind:
                return rule(node, depth)
        raise self._refusal(node)

    def _refusal(self, node: exp.Expression) -> QueryError:
        if isinstance(node, exp.Query | exp.Exists | exp.Subquery):
            return QueryError("DP-WHERE-002", place=self.place)
        if isinstance(node, exp.AggFunc | exp.Window):
            return QueryError("DP-WHERE-003", place=self.place)
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
            return QueryError("DP-WHERE-004", place=self.place, function=name, known=ALLOWED)
        if isinstance(node, exp.Func):
            name = node.sql_name().lower()
            return QueryError("DP-WHERE-004", place=self.place, function=name, known=ALLOWED)
        return QueryError("DP-WHERE-006", place=self.place, what=type(node).__name__.lower())

    def _known_args(self, node: exp.Expression, *names: str) -> None:
        """Refuse a node with any argument beyond `names`: its meaning is not the one we render."""
        if any(value for name, value in node.args.items() if name not in names):
            raise QueryError("DP-WHERE-006", place=self.place, what=type(node).__name__.lower())

    def _same_kind(self, terms: list[_Term]) -> list[_Term]:
        """Return terms of one kind; text literals become dates beside dates."""
        kinds = {term.kind for term in terms} - {Kind.NULL}
        for timely in (Kind.DATE, Kind.TIMESTAMP):
            if kinds == {timely, Kind.TEXT}:
                return [self._as_time(term, timely) for term in terms]
        if len(kinds) > 1:
            left, right = sorted(kinds)[:2]
            raise QueryError("DP-WHERE-007", place=self.place, left=left.capitalize(), right=right)
        return terms

    def _as_time(self, term: _Term, kind: Kind) -> _Term:
        if term.kind is not Kind.TEXT:
            return term
        word = "DATE" if kind is Kind.DATE else "TIMESTAMP"
        try:
            if not term.sql.startswith("'"):
                raise ValueError
            given = term.sql[1:-1]
            found = date.fromisoformat(given) if word == "DATE" else datetime.fromisoformat(given)
        except ValueError:
            raise QueryError(
                "DP-WHERE-007", place=self.place, left=kind.capitalize(), right="a text"
            ) from None
        if isinstance(found, datetime) and found.tzinfo is not None:
            raise QueryError(
                "DP-WHERE-007", place=self.place, left="An instant", right="one with a time zone"
            )
        return _Term(f"{word} '{found}'", kind)

    def _of_kind(self, node: exp.Expression, kind: Kind, depth: int) -> str:
        term = self.term(node, depth + 1)
        if kind is Kind.DATE and term.kind is Kind.TIMESTAMP:
            return f"CAST({term.sql} AS DATE)"
        if term.kind not in (kind, Kind.NULL):
            raise QueryError(
                "DP-WHERE-007", place=self.place, left=term.kind.capitalize(), right=kind
            )
        return term.sql

    def _paren(self, node: exp.Paren, depth: int) -> _Term:
        return self.term(node.this, depth + 1)

    def _column(self, node: exp.Column, depth: int) -> _Term:
        name = node.name
        if node.table or node.args.get("join_mark") or not isinstance(node.this, exp.Identifier):
            raise QueryError("DP-WHERE-006", place=self.place, what="a qualified name")
        if name not in self.table.columns:
            raise QueryError("DP-WHERE-005", place=self.place, **unknown_column(self.table, name))
        self.columns.add(name)
        kind = getattr(self.table.columns[name], "type", "cut")
        return _Term(quoting.identifier(name), KIND_OF_TYPE[kind])

    def _literal(self, node: exp.Literal, depth: int) -> _Term:
        if node.is_string:
            return _Term(quoting.text(node.this), Kind.TEXT)
        try:
            value = exact(node.this)
        except ValueError:
            raise QueryError("DP-WHERE-006", place=self.place, what="this number") from None
        if value.denominator == 1 and abs(value) < 2**100:
            return _Term(quoting.integer(value.numerator), Kind.NUMBER)
        try:
            return _Term(quoting.double(value), Kind.NUMBER)
        except OverflowError:
            raise QueryError("DP-WHERE-006", place=self.place, what="this number") from None

    def _boolean(self, node: exp.Boolean, depth: int) -> _Term:
        return _Term("TRUE" if node.this else "FALSE", Kind.BOOLEAN)

    def _null(self, node: exp.Null, depth: int) -> _Term:
        return _Term("NULL", Kind.NULL)

    def _negative(self, node: exp.Neg, depth: int) -> _Term:
        inner = self._of_kind(node.this, Kind.NUMBER, depth)
        if isinstance(node.this, exp.Literal):
            return _Term(f"(-{inner})", Kind.NUMBER)
        return _Term(f"(- CAST({inner} AS DOUBLE))", Kind.NUMBER)

    def _comparison(self, node: exp.Expression, depth: int) -> _Term:
        self._known_args(node, "this", "expression")
        sides = [self.term(node.this, depth + 1), self.term(node.expression, depth + 1)]
        left, right = self._same_kind(sides)
        return _Term(f"({left.sql} {COMPARISONS[type(node)]} {right.sql})", Kind.BOOLEAN)

    def _arithmetic(self, node: exp.Expression, depth: int) -> _Term:
        # In DOUBLE nothing overflows into an error: too large is infinity, and that compares.
        self._known_args(node, "this", "expression")
        left = self._of_kind(node.this, Kind.NUMBER, depth)
        right = self._of_kind(node.expression, Kind.NUMBER, depth)
        sign = ARITHMETIC[type(node)]
        return _Term(f"(CAST({left} AS DOUBLE) {sign} CAST({right} AS DOUBLE))", Kind.NUMBER)

    def _logic(self, node: exp.Expression, depth: int) -> _Term:
        # Long chains lean to the left; they are walked flat, so that depth counts real nesting.
        word = "AND" if isinstance(node, exp.And) else "OR"
        sides = [self._of_kind(side, Kind.BOOLEAN, depth) for side in _flat(node)]
        return _Term("(" + f" {word} ".join(sides) + ")", Kind.BOOLEAN)

    def _not(self, node: exp.Not, depth: int) -> _Term:
        return _Term(f"(NOT {self._of_kind(node.this, Kind.BOOLEAN, depth)})", Kind.BOOLEAN)

    def _is(self, node: exp.Is, depth: int) -> _Term:
        self._known_args(node, "this", "expression")
        inner, other = self.term(node.this, depth + 1), node.expression
        if isinstance(other, exp.Null):
            return _Term(f"({inner.sql} IS NULL)", Kind.BOOLEAN)
        if isinstance(other, exp.Boolean) and inner.kind is Kind.BOOLEAN:
            word = "TRUE" if other.this else "FALSE"
            return _Term(f"({inner.sql} IS {word})", Kind.BOOLEAN)
        raise QueryError("DP-WHERE-006", place=self.place, what="is")

    def _between(self, node: exp.Between, depth: int) -> _Term:
        self._known_args(node, "this", "low", "high")
        parts = [node.this, node.args["low"], node.args["high"]]
        value, low, high = self._same_kind([self.term(part, depth + 1) for part in parts])
        return _Term(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", Kind.BOOLEAN)

    def _in(self, node: exp.In, depth: int) -> _Term:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise QueryError("DP-WHERE-002", place=self.place)
        parts = [node.this, *node.expressions]
        if len(parts) < 2 or not all(isinstance(p, exp.Literal | exp.Neg) for p in parts[1:]):
            raise QueryError("DP-WHERE-006", place=self.place, what="in without constants")
        value, *items = self._same_kind([self.term(part, depth + 1) for part in parts])
        return _Term(f"({value.sql} IN ({', '.join(i.sql for i in items)}))", Kind.BOOLEAN)

    def _like(self, node: exp.Expression, depth: int) -> _Term:
        self._known_args(node, "this", "expression")
        if not (isinstance(node.expression, exp.Literal) and node.expression.is_string):
            raise QueryError("DP-WHERE-006", place=self.place, what="like without a constant")
        value = self._of_kind(node.this, Kind.TEXT, depth)
        word = "LIKE" if isinstance(node, exp.Like) else "ILIKE"
        return _Term(f"({value} {word} {quoting.text(node.expression.this)})", Kind.BOOLEAN)

    def _case(self, node: exp.Case, depth: int) -> _Term:
        self._known_args(node, "ifs", "default")
        branches = node.args.get("ifs") or []
        conditions = [self._of_kind(branch.this, Kind.BOOLEAN, depth) for branch in branches]
        results = [self.term(branch.args["true"], depth + 1) for branch in branches]
        default = node.args.get("default") or exp.Null()
        results = self._same_kind([*results, self.term(default, depth + 1)])
        arms = zip(conditions, results, strict=False)
        body = " ".join(f"WHEN {condition} THEN {result.sql}" for condition, result in arms)
        return _Term(f"(CASE {body} ELSE {results[-1].sql} END)", _kind_of(results))

    def _coalesce(self, node: exp.Coalesce, depth: int) -> _Term:
        self._known_args(node, "this", "expressions")
        parts = self._same_kind(
            [self.term(part, depth + 1) for part in (node.this, *node.expressions)]
        )
        return _Term(f"coalesce({', '.join(p.sql for p in parts)})", _kind_of(parts))

    def _function(self, node: exp.Expression, depth: int) -> _Term:
        self._known_args(node, "this")
        name, wants, gives = FUNCTIONS[type(node)]
        inner = self._of_kind(_unwrapped(node.this), wants, depth)
        if wants is Kind.NUMBER:
            inner = f"CAST({inner} AS DOUBLE)"
        return _Term(f"{name}({inner})", gives)

    def _starts_with(self, node: exp.StartsWith, depth: int) -> _Term:
        parts = [self._of_kind(p, Kind.TEXT, depth) for p in (node.this, node.expression)]
        return _Term(f"starts_with({', '.join(parts)})", Kind.BOOLEAN)

    def _trim(self, node: exp.Trim, depth: int) -> _Term:
        self._known_args(node, "this")
        return _Term(f"trim({self._of_kind(node.this, Kind.TEXT, depth)})", Kind.TEXT)

    def _dated(self, node: exp.Cast, depth: int) -> _Term:
        """Allow DATE '...' and TIMESTAMP '...': literals, which sqlglot reads as casts."""
        wanted = TIMELY.get(node.to.this.value if node.to.this else "")
        if wanted is None or not (isinstance(node.this, exp.Literal) and node.this.is_string):
            raise QueryError("DP-WHERE-006", place=self.place, what="a cast")
        return self._as_time(_Term(quoting.text(node.this.this), Kind.TEXT), wanted)


def _unwrapped(node: exp.Expression) -> exp.Expression:
    """Return what sqlglot wrapped into a date conversion of its own, as in year(x)."""
    return node.this if isinstance(node, exp.TsOrDsToDate) else node


def _flat(node: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the sides of a chain of one connective, left to right, without recursion."""
    sides, todo = [], [node]
    while todo:
        part = todo.pop()
        if type(part) is type(node):
            todo += [part.this, part.expression]
        else:
            sides.append(part)
    yield from reversed(sides)


def _kind_of(terms: list[_Term]) -> Kind:
    return next((term.kind for term in terms if term.kind is not Kind.NULL), Kind.NULL)
