"""The rules by which each node of an expression is checked, and rendered as SQL again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.numerics.rounding import exact
from dprelease.query import quoting
from dprelease.query.expressions import refusals
from dprelease.query.expressions.date_terms import (
    DATE_TERMS,
    date_of_parts,
    difference_unit,
    instant_of,
    interval_sql,
    time_literal,
)
from dprelease.query.expressions.nodes import (
    LONGEST_QUOTE,
    check_declared,
    check_never_true,
    column_sql,
    decimals_sql,
    is_constant,
    not_allowed_error,
    operands_of_chain,
    strip_date_cast,
    with_codes,
)
from dprelease.query.expressions.replacements import cast_advice
from dprelease.query.expressions.scalar import (
    ARITHMETIC_OF_ROWS,
    CHOICES,
    COMPARISONS_OF_ROWS,
    DIVISIONS,
    FUNCTIONS,
    KIND_OF_TYPE,
    LONGEST_PART,
    PARTIAL,
    PHYSICAL,
    TIME_KINDS,
    Kind,
    Term,
    common_kind,
    numbers_as_floats,
)
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.schema.field_types import LONGEST_EXPRESSION
from dprelease.schema.table import Table

LENGTH_LIMIT, DEPTH_LIMIT = LONGEST_EXPRESSION, 60
# integers from this number on are compared as floats, because a column may store floats
EXACT = 2**53


class TermChecker:
    """Walks a tree once, and renders each node by a rule; nodes without a rule are refused."""

    def __init__(self, table: Table, place: Place) -> None:
        self.table, self.place = table, place
        self.columns: set[str] = set()
        self.rules: list[tuple[type[exp.Expression], Callable[..., Term]]] = [
            (exp.Paren, self._paren),
            (exp.Column, self._column),
            (exp.Literal, self._literal),
            (exp.Boolean, self._boolean),
            (exp.Null, self._null),
            (exp.Neg, self._negative),
            *((kind, self._logic) for kind in (exp.And, exp.Or)),
            (exp.Not, self._not),
            (exp.Is, self._is),
            (exp.Between, self._between),
            (exp.In, self._in),
            *((kind, self._like) for kind in (exp.Like, exp.ILike)),
            (exp.Case, self._case),
            (exp.If, self._if),
            (exp.Nullif, self._nullif),
            (exp.Substring, self._part),
            (exp.Left, self._part),
            (exp.DateDiff, self._days_between),
            *((kind, self._of_date) for kind in DATE_TERMS),
            (exp.DateFromParts, self._date_of_parts),
            (exp.StartsWith, self._starts_with),
            (exp.Trim, self._trim),
            *((kind, self._time_literal) for kind in (exp.Cast, exp.TryCast)),
        ]

    def term(self, node: exp.Expression, depth: int) -> Term:
        """Return the SQL of a node and the kind of its value; refuse nodes that have no rule."""
        if depth > DEPTH_LIMIT:
            raise QueryError("DP-WHERE-009", place=self.place, limit=LENGTH_LIMIT)
        if type(node) in COMPARISONS_OF_ROWS:
            return self._comparison(node, depth)
        if type(node) in ARITHMETIC_OF_ROWS:
            shift = node.expression.unnest()
            is_shift = isinstance(node, exp.Add | exp.Sub) and isinstance(shift, exp.Interval)
            return self._shifted(node, depth) if is_shift else self._arithmetic(node, depth)
        if type(node) in FUNCTIONS:
            return self._function(node, depth)
        if type(node) in CHOICES:
            return self._choice(node, depth)
        for kind, rule in self.rules:
            if type(node) is kind:
                return rule(node, depth)
        raise refusals.refusal_error(node, self.place, self.table.columns)

    def _refuse_other_args(self, node: exp.Expression, *names: str) -> None:
        """Refuse a node with arguments other than `names`, which the rule would not render."""
        for name, value in node.args.items():
            if value and name not in names:
                shown = value.sql("duckdb") if isinstance(value, exp.Expression) else name
                because = f"rows don't read its argument {shown[:LONGEST_QUOTE]}"
                raise not_allowed_error(node, self.place, because)

    def _same_kind(self, terms: list[Term], where: str = "") -> list[Term]:
        """Return terms of one kind; text literals become dates where dates are compared.

        `where`: the end of a message about terms of two kinds, which quotes their comparison.
        """
        kinds = {term.kind for term in terms} - {Kind.NULL}
        for timely in (Kind.DATE, Kind.TIMESTAMP):
            if kinds == {timely, Kind.TEXT}:
                return [self._as_time(term, timely) for term in terms]
        if kinds == {Kind.DATE, Kind.TIMESTAMP}:
            return [instant_of(term) for term in terms]
        if len(kinds) > 1:
            left, right = sorted(kinds)[:2]
            fields: dict[str, Any] = {"left": left.capitalize(), "right": f"{right}{where}"}
            raise QueryError("DP-WHERE-007", place=self.place, **fields)
        return numbers_as_floats(terms) if kinds == {Kind.NUMBER} else terms

    def _as_time(self, term: Term, kind: Kind) -> Term:
        """Return a text literal as a date or timestamp literal; other terms stay unchanged."""
        return time_literal(term, kind, self.place) if term.kind is Kind.TEXT else term

    def _shifted(self, node: exp.Expression, depth: int) -> Term:
        """Allow times plus constant intervals, which are missing beyond the last possible time."""
        moment = instant_of(self.term(node.this, depth + 1))
        shift = interval_sql(node.expression.unnest(), self.place)
        if moment.kind is not Kind.TIMESTAMP:
            raise refusals.wrong_kind_error(node.this, Kind.TIMESTAMP, moment.kind, self.place)
        sign = "-" if isinstance(node, exp.Sub) else "+"
        return Term(f"TRY({moment.sql} {sign} {shift})", Kind.TIMESTAMP)

    def _sql_of_kind(self, node: exp.Expression, kind: Kind, depth: int) -> str:
        """Return the SQL of a node whose value must be of this kind, or raise an error."""
        term = self.term(node, depth + 1)
        if kind is Kind.DATE and term.kind is Kind.TIMESTAMP:
            return f"CAST({term.sql} AS DATE)"
        if kind is Kind.TIMESTAMP and term.kind is Kind.DATE:
            return instant_of(term).sql
        if term.kind is Kind.NULL:  # DuckDB selects a function by types
            return f"CAST({term.sql} AS {PHYSICAL[kind]})"
        if term.kind is not kind:
            raise refusals.wrong_kind_error(node, kind, term.kind, self.place)
        return term.sql

    def _paren(self, node: exp.Paren, depth: int) -> Term:
        """Return the term inside parentheses."""
        return self.term(node.this, depth + 1)

    def _column(self, node: exp.Column, depth: int) -> Term:
        """Return the term of a declared column, and note that the column is read."""
        name = node.name
        if node.table or node.args.get("join_mark") or not isinstance(node.this, exp.Identifier):
            raise refusals.qualified_error(node, self.place)
        column = self.table.columns.get(name)
        if column is None:
            raise QueryError("DP-WHERE-005", place=self.place, **unknown_column(self.table, name))
        self.columns.add(name)
        return Term(column_sql(node, column), KIND_OF_TYPE[getattr(column, "type", "cut")])

    def _literal(self, node: exp.Literal, depth: int) -> Term:
        """Return the term of a text or a number."""
        if node.is_string:
            return Term(quoting.text(node.this), Kind.TEXT)
        try:
            value = exact(node.this)
        except ValueError:
            raise not_allowed_error(node, self.place, "it is no decimal number") from None
        if value.denominator == 1 and abs(value) < EXACT:
            return Term(quoting.integer(value.numerator), Kind.NUMBER)
        try:
            return Term(quoting.double(value), Kind.NUMBER)
        except OverflowError:
            raise not_allowed_error(node, self.place, "it is too large") from None

    def _boolean(self, node: exp.Boolean, depth: int) -> Term:
        """Return the term of TRUE or FALSE."""
        return Term("TRUE" if node.this else "FALSE", Kind.BOOLEAN)

    def _null(self, node: exp.Null, depth: int) -> Term:
        return Term("NULL", Kind.NULL)

    def _negative(self, node: exp.Neg, depth: int) -> Term:
        """Return the term of a number with a minus sign."""
        if isinstance(node.this, exp.Literal):
            return Term(f"(-{self._sql_of_kind(node.this, Kind.NUMBER, depth)})", Kind.NUMBER)
        return Term(f"(- {self._double_sql(node.this, depth)})", Kind.NUMBER)

    def _comparison(self, node: exp.Expression, depth: int) -> Term:
        """Return the term of a comparison of two values of one kind, such as a < b."""
        self._refuse_other_args(node, "this", "expression")
        check_never_true(node, self.place)
        one, other = with_codes(self.table, node, [node.this, node.expression], self.place)
        sides = [self.term(one, depth + 1), self.term(other, depth + 1)]
        if type(one) in COMPARISONS_OF_ROWS and sides[0].kind is not sides[1].kind:
            raise refusals.chain_error(node, self.place)
        left, right = self._same_kind(sides, f" in {node.sql('duckdb')[:LONGEST_QUOTE]}")
        check_declared(self.table, one, [other], self.place)
        check_declared(self.table, other, [one], self.place)
        return Term(f"({left.sql} {COMPARISONS_OF_ROWS[type(node)]} {right.sql})", Kind.BOOLEAN)

    def _arithmetic(self, node: exp.Expression, depth: int) -> Term:
        """Return the term of arithmetic on two numbers; a division by zero gives NULL."""
        # An overflow of DOUBLE is no error: the result is infinity, which can be compared.
        left, right = (self._double_sql(side, depth) for side in (node.this, node.expression))
        if isinstance(node, DIVISIONS):
            right = f"nullif({right}, 0)"
        else:
            self._refuse_other_args(node, "this", "expression")
        return Term(f"({left} {ARITHMETIC_OF_ROWS[type(node)]} {right})", Kind.NUMBER)

    def _double_sql(self, node: exp.Expression, depth: int) -> str:
        return f"CAST({self._sql_of_kind(node, Kind.NUMBER, depth)} AS DOUBLE)"

    def _logic(self, node: exp.Expression, depth: int) -> Term:
        """Return the term of a chain of ANDs or of ORs."""
        # The operands of a long chain have one depth, so that depth counts only real nesting.
        keyword = "AND" if isinstance(node, exp.And) else "OR"
        sides = [self._sql_of_kind(side, Kind.BOOLEAN, depth) for side in operands_of_chain(node)]
        return Term("(" + f" {keyword} ".join(sides) + ")", Kind.BOOLEAN)

    def _not(self, node: exp.Not, depth: int) -> Term:
        """Return the term of a condition that is negated."""
        return Term(f"(NOT {self._sql_of_kind(node.this, Kind.BOOLEAN, depth)})", Kind.BOOLEAN)

    def _is(self, node: exp.Is, depth: int) -> Term:
        """Return the term of IS NULL, IS TRUE or IS FALSE."""
        self._refuse_other_args(node, "this", "expression")
        inner, other = self.term(node.this, depth + 1), node.expression
        if isinstance(other, exp.Null):
            return Term(f"({inner.sql} IS NULL)", Kind.BOOLEAN)
        if isinstance(other, exp.Boolean) and inner.kind is Kind.BOOLEAN:
            keyword = "TRUE" if other.this else "FALSE"
            return Term(f"({inner.sql} IS {keyword})", Kind.BOOLEAN)
        advice = "use IS NULL, IS NOT NULL, IS TRUE or IS FALSE, and = for other values"
        raise not_allowed_error(node, self.place, "IS compares with nothing else", advice)

    def _between(self, node: exp.Between, depth: int) -> Term:
        self._refuse_other_args(node, "this", "low", "high")
        parts = [node.this, node.args["low"], node.args["high"]]
        parts = with_codes(self.table, node, parts, self.place)
        value, low, high = self._same_kind([self.term(part, depth + 1) for part in parts])
        return Term(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", Kind.BOOLEAN)

    def _in(self, node: exp.In, depth: int) -> Term:
        """Return the term of IN with a list of constants."""
        parts = [node.this, *node.expressions]
        is_query = any(map(node.args.get, ("query", "unnest", "field")))
        for part in (one for one in node.expressions if isinstance(one, exp.Column)):
            self.term(part, depth + 1)  # a text in double quotes is an unknown column
        if is_query or len(parts) < 2 or not all(map(is_constant, parts[1:])):
            raise refusals.in_error(node, self.place, is_query=is_query)
        parts = with_codes(self.table, node, parts, self.place)
        value, *items = self._same_kind([self.term(part, depth + 1) for part in parts])
        check_declared(self.table, node.this, parts[1:], self.place)
        return Term(f"({value.sql} IN ({', '.join(i.sql for i in items)}))", Kind.BOOLEAN)

    def _like(self, node: exp.Expression, depth: int) -> Term:
        """Return the term of LIKE or ILIKE with a constant pattern."""
        self._refuse_other_args(node, "this", "expression", "negate")
        if not (isinstance(node.expression, exp.Literal) and node.expression.is_string):
            raise refusals.like_error(node, self.place)
        value = self._sql_of_kind(node.this, Kind.TEXT, depth)
        keyword = "LIKE" if isinstance(node, exp.Like) else "ILIKE"
        keyword = f"NOT {keyword}" if node.args.get("negate") else keyword
        return Term(f"({value} {keyword} {quoting.text(node.expression.this)})", Kind.BOOLEAN)

    def _case(self, node: exp.Case, depth: int) -> Term:
        """Return the term of a CASE, whose results must be of one kind."""
        self._refuse_other_args(node, "ifs", "default")
        branches = node.args.get("ifs") or []
        conditions = [self._sql_of_kind(branch.this, Kind.BOOLEAN, depth) for branch in branches]
        results = [self.term(branch.args["true"], depth + 1) for branch in branches]
        default = node.args.get("default") or exp.Null()
        results = self._same_kind([*results, self.term(default, depth + 1)])
        arms = zip(conditions, results, strict=False)
        body = " ".join(f"WHEN {condition} THEN {result.sql}" for condition, result in arms)
        return Term(f"(CASE {body} ELSE {results[-1].sql} END)", common_kind(results))

    def _if(self, node: exp.If, depth: int) -> Term:
        """Return the term of if(condition, a, b), whose results must be of one kind."""
        self._refuse_other_args(node, "this", "true", "false")
        condition = self._sql_of_kind(node.this, Kind.BOOLEAN, depth)
        sides = [node.args["true"], node.args.get("false") or exp.Null()]
        then, other = self._same_kind([self.term(side, depth + 1) for side in sides])
        sql = f"(CASE WHEN {condition} THEN {then.sql} ELSE {other.sql} END)"
        return Term(sql, common_kind([then, other]))

    def _choice(self, node: exp.Expression, depth: int) -> Term:
        """Return the term of a function that returns one of its arguments, such as coalesce."""
        self._refuse_other_args(node, "this", "expressions", "ignore_nulls")
        parts = [self.term(part, depth + 1) for part in (node.this, *node.expressions)]
        parts = self._same_kind(parts)
        return Term(f"{CHOICES[type(node)]}({', '.join(p.sql for p in parts)})", common_kind(parts))

    def _nullif(self, node: exp.Nullif, depth: int) -> Term:
        """Return the term of nullif(a, b), for values of one kind."""
        parts = [self.term(part, depth + 1) for part in (node.this, node.expression)]
        value, other = self._same_kind(parts)
        return Term(f"nullif({value.sql}, {other.sql})", common_kind([value, other]))

    def _function(self, node: exp.Expression, depth: int) -> Term:
        """Return the term of a function of one argument, such as lower, or of round(x, 2)."""
        self._refuse_other_args(node, "this", "decimals")
        name, wants, gives = FUNCTIONS[type(node)]
        inner = self._sql_of_kind(strip_date_cast(node.this), wants, depth)
        if wants is Kind.NUMBER:
            inner = f"CAST({inner} AS DOUBLE)"
        sql = f"{name}({inner}{decimals_sql(node, self.place)})"
        if type(node) in PARTIAL:
            sql = f"CASE WHEN {inner} {PARTIAL[type(node)]} THEN TRY({sql}) END"
        return Term(sql, gives)

    def _part(self, node: exp.Expression, depth: int) -> Term:
        """Allow substr and left with constant positions, from 1."""
        self._refuse_other_args(node, "this", "start", "length", "expression")
        value = self._sql_of_kind(node.this, Kind.TEXT, depth)
        length = node.args.get("length") or node.args.get("expression")
        places = [node.args.get("start") or exp.Literal.number(1)]
        places += [] if length is None else [length]
        for place in places:
            is_integer = isinstance(place, exp.Literal) and place.is_int and place.name.isdecimal()
            if not is_integer or not 0 < int(place.name[:9]) <= LONGEST_PART:
                raise refusals.substring_error(node, self.place)
        return Term(f"substring({', '.join([value, *(p.name for p in places)])})", Kind.TEXT)

    def _days_between(self, node: exp.DateDiff, depth: int) -> Term:
        """Allow date_diff('day', from, to), and of instants also in hours, minutes and seconds.

        The difference of any two dates or instants fits into 64 bits.
        """
        self._refuse_other_args(node, "this", "expression", "unit", "date_part_boundary")
        unit = difference_unit(node, self.place)
        last, first = (strip_date_cast(side) for side in (node.this, node.expression))
        sql_of = self._date_sql if unit == "day" else self._instant_sql
        moments = [sql_of(side, depth) for side in (first, last)]
        return Term(f"date_diff('{unit}', {', '.join(moments)})", Kind.NUMBER)

    def _instant_sql(self, node: exp.Expression, depth: int) -> str:
        """Return the SQL of a node that must be an instant, or the text of one."""
        if isinstance(node, exp.Literal) and node.is_string:
            return self._as_time(self.term(node, depth + 1), Kind.TIMESTAMP).sql
        return self._sql_of_kind(node, Kind.TIMESTAMP, depth)

    def _of_date(self, node: exp.Expression, depth: int) -> Term:
        """Allow date_trunc('month', d) and strftime(d, format)."""
        self._refuse_other_args(node, "this", "unit", "format")
        day = self._date_sql(strip_date_cast(node.this), depth)
        return DATE_TERMS[type(node)](node, day, self.place)

    def _date_of_parts(self, node: exp.DateFromParts, depth: int) -> Term:
        """Allow make_date(year, month, day)."""
        self._refuse_other_args(node, "year", "month", "day")
        parts: list[Any] = [node.args.get(name) for name in ("year", "month", "day")]
        if None in parts:
            raise not_allowed_error(node, self.place, "a date has a year, a month and a day")
        return date_of_parts([self._double_sql(part, depth) for part in parts])

    def _date_sql(self, node: exp.Expression, depth: int) -> str:
        """Return the SQL of a node that must be a date, or the text of a date."""
        if isinstance(node, exp.Literal) and node.is_string:
            return self._as_time(self.term(node, depth + 1), Kind.DATE).sql
        return f"CAST({self._sql_of_kind(node, Kind.DATE, depth)} AS DATE)"

    def _starts_with(self, node: exp.StartsWith, depth: int) -> Term:
        parts = [self._sql_of_kind(p, Kind.TEXT, depth) for p in (node.this, node.expression)]
        return Term(f"starts_with({', '.join(parts)})", Kind.BOOLEAN)

    def _trim(self, node: exp.Trim, depth: int) -> Term:
        self._refuse_other_args(node, "this")
        return Term(f"trim({self._sql_of_kind(node.this, Kind.TEXT, depth)})", Kind.TEXT)

    def _time_literal(self, node: exp.Cast, depth: int) -> Term:
        """Allow DATE '...' and TIMESTAMP '...', which sqlglot parses as casts, and those of d."""
        target_kind = TIME_KINDS.get(node.to.this.value if node.to.this else "")
        self._refuse_other_args(node.to, "this", "nested")
        if target_kind is not None and isinstance(node.this, exp.Literal) and node.this.is_string:
            return self._as_time(Term(quoting.text(node.this.this), Kind.TEXT), target_kind)
        term = self.term(node.this, depth + 1)
        if target_kind is Kind.TIMESTAMP and term.kind in (Kind.DATE, Kind.TIMESTAMP):
            return instant_of(term)
        if target_kind is Kind.DATE and term.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.NULL):
            return Term(self._date_sql(node.this, depth), Kind.DATE)
        raise not_allowed_error(node, self.place, *cast_advice(node, term.kind))
