"""Other spellings of aggregates, and aggregates of expressions, as aggregates of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dprelease.numerics.rounding import exact, plain_text
from dprelease.query.expressions.replacements import counted_groups
from dprelease.query.expressions.scalar import Kind
from dprelease.query.outer_sql.functions import AGGREGATES
from dprelease.query.select_nodes import WRAPPERS
from dprelease.query.sql_functions import (
    FRACTION_ARGUMENT,
    KEYWORD_OF_FUNCTION,
    is_measured,
    pair_of,
)
from dprelease.query.sql_rewrites.key_columns import filled, public_values
from dprelease.query.sql_rewrites.row_forms import case_of, kind_of, number, row_form
from dprelease.query.sql_rewrites.unanswerable import quoted, refuse, refuse_unanswerable
from dprelease.query.sql_rewrites.value_ranges import (
    column_declaration,
    date_declaration,
    instant_declaration,
)
from dprelease.schema.column_spec import QUANTILES
from dprelease.schema.table import Table

Declare = Callable[[exp.Expr, dict[str, Any]], exp.Expr]
"""Declares a computed column from an expression and its declaration, and returns the column."""

OTHER_NAMES = {
    "mean": exp.Avg, "favg": exp.Avg, "fsum": exp.Sum, "sumkahan": exp.Sum, "kahan_sum": exp.Sum,
    "sum_no_overflow": exp.Sum, "count_star": exp.Count, "countif": exp.CountIf,
}  # fmt: skip
"""DuckDB's further names of aggregates that sqlglot does not know."""


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate of rows, in any spelling."""
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.IgnoreNulls)


def with_known_names(tree: exp.Query) -> Any:
    """Return a statement with aggregates that have several names by the same name."""
    return tree.transform(_known_name, copy=False)


def _known_name(node: exp.Expr) -> exp.Expr:
    """Return the class of an aggregate that sqlglot does not know; other nodes stay.

    `x.f(y)` is f(x, y), an item of a list of quantiles is one quantile, and the format of strftime
    is its second argument.
    """
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
        call = node.expression
        arguments = [node.this, *call.expressions]
        try:
            return exp.func(str(call.this), *arguments, dialect="duckdb")
        except ValueError:  # too many arguments, as in schema.sin(x)
            return exp.Anonymous(this=call.this, expressions=arguments)
    if isinstance(node, exp.Bracket):
        return _quantile_of_list(node)
    if isinstance(node, exp.TimeToStr) and isinstance(node.this, exp.Literal):
        time = node.args["format"]
        return node if isinstance(time, exp.Literal) else exp.TimeToStr(this=time, format=node.this)
    if not isinstance(node, exp.Anonymous):
        return node
    name = str(node.this).lower()
    kind = OTHER_NAMES.get(name)
    if kind is not None and len(node.expressions) <= 1:
        return kind(this=node.expressions[0] if node.expressions else None)
    if name in AGGREGATES:
        return exp.AnonymousAggFunc(this=name.upper(), expressions=node.expressions)
    return node


def _quantile_of_list(node: exp.Bracket) -> exp.Expr:
    """Return QUANTILE_CONT(x, 0.5) for QUANTILE_CONT(x, [0.25, 0.5])[2]; other items stay."""
    name = FRACTION_ARGUMENT.get(type(node.this), "")
    fractions = node.this.args.get(name) if name else None
    place = node.expressions[0].name if len(node.expressions) == 1 else ""
    is_item = isinstance(fractions, exp.Array) and place.isdecimal() and len(place) < 3
    if not is_item or fractions is None or not 1 <= int(place) <= len(fractions.expressions):
        return node
    found: exp.Expr = node.this.copy()
    found.set(name, fractions.expressions[int(place) - 1].copy())
    return found


class AggregateForms:
    """Rewrites the aggregates of a SELECT to aggregates of declared and computed columns.

    `declare` adds a computed column. `table` has all columns that rows have.
    """

    def __init__(self, table: Table, declare: Declare) -> None:
        self.table, self.declare = table, declare

    def form(self, node: exp.Expr) -> exp.Expr:
        """Return an aggregate in the spelling that is answered, or refuse it."""
        if isinstance(node, exp.Filter):
            return self._of_rows(node.this, node.expression.this)
        return self._of_rows(node, None)

    def _of_rows(self, node: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        """Return the aggregate of the rows that satisfy a condition, or of all rows."""
        node = _named_aggregate(node)
        refuse_unanswerable(node, self.table.columns)
        if isinstance(node, exp.Count | exp.CountIf):
            return self._count(node, condition)
        if isinstance(node, exp.RegrR2):
            # With one predictor, R^2 is the square of the correlation.
            root = self._of_rows(exp.Corr(this=node.this, expression=node.expression), condition)
            return exp.Paren(this=exp.Mul(this=root, expression=root.copy()))
        if isinstance(node, exp.VariancePop | exp.StddevPop):
            return self._of_population(node, condition)
        if not is_measured(node) or isinstance(node.this, exp.Distinct):
            return node  # refused with the aggregates that are answered
        for argument in pair_of(node) or ():
            argument.replace(self._argument(node, argument.copy(), condition))
        if pair_of(node) is not None:
            return node
        kind: Any = type(node)
        fraction = FRACTION_ARGUMENT.get(kind)
        if fraction is not None:
            return self._quantiles(node, fraction, condition)
        if node.this is None:
            return node
        if isinstance(node, exp.Sum) and isinstance(node.this, exp.Literal):
            counted = self._count(exp.Count(this=exp.Star()), condition)
            return exp.Paren(this=exp.Mul(this=counted, expression=node.this))
        node.set("this", self._argument(node, node.this, condition))
        return node

    def _count(self, node: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        """Return COUNT(*), COUNT(column) or COUNT(DISTINCT column) in place of any count."""
        inner = node.this
        if isinstance(node, exp.CountIf):
            return self._count_of(_both(condition, inner))
        if isinstance(inner, exp.Distinct):
            return self._count_distinct(node, inner, condition)
        if isinstance(inner, exp.Null):
            refuse(node, "no value is counted", "use COUNT(*)")
        if inner is None or isinstance(inner, exp.Star | exp.Literal | exp.Boolean):
            if isinstance(inner, exp.Star) and any(inner.args.values()):
                refuse(node, "* counts rows and has no columns", "use COUNT(*)")
            if condition is None:
                return exp.Count(this=exp.Star(), big_int=True)
            return self._count_of(condition)
        if condition is None and isinstance(inner, exp.Column):
            return node
        present = _simple_condition(inner) or exp.Not(
            this=exp.Is(this=exp.Paren(this=inner), expression=exp.Null())
        )
        return self._count_of(_both(condition, present))

    def _count_of(self, condition: exp.Expr) -> exp.Expr:
        """Return the count of the rows that satisfy a condition."""
        form = row_form(condition, self.table)
        kind = kind_of(form, self.table)
        if kind is not Kind.BOOLEAN:
            refuse(condition, f"it is {kind} and no condition", "compare it, as in x > 0")
        counted = case_of((form, exp.Boolean(this=True)))
        return exp.Count(this=self.declare(counted, {"type": "boolean"}), big_int=True)

    def _count_distinct(
        self, node: exp.Expr, inner: exp.Distinct, condition: exp.Expr | None
    ) -> exp.Expr:
        """Return the count of distinct values of a column, or of an expression."""
        values = inner.expressions
        if len(values) == 1 and isinstance(values[0], exp.Tuple):
            values = values[0].expressions
        if len(values) != 1:
            keys = ", ".join(map(quoted, values))
            reason = "it counts combinations of values"
            fix = f"use {counted_groups(keys)}" if values else "name a column"
            refuse(f"COUNT(DISTINCT {keys})", reason, fix)
        (value,) = values
        if condition is None and isinstance(value, exp.Column):
            return node
        if isinstance(value, exp.Column) and value.name == self.table.unit.id:
            reason = "ids of a part of the rows are counted in a statement without other aggregates"
            fix = f"write COUNT(DISTINCT {value.name}) with WHERE {quoted(condition or node)}"
            refuse(node, reason, fix)
        form, declaration = public_values(value, self.table)
        if declaration is None:
            reason = "only the id of the person and public values can be counted once each"
            refuse(node, reason, "count distinct values of a column with declared values")
        if condition is not None:
            form = case_of((row_form(condition, self.table), form))
        node.set("this", exp.Distinct(expressions=[self.declare(form, declaration)]))
        return node

    def _of_population(self, node: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        """Return VAR_POP or STDDEV_POP, from the statistic of a sample and the number of rows."""
        column = self._argument(node, node.this, condition)
        declared = self.table.columns.get(column.name)
        # If something replaces missing values, the statistic is one of all rows.
        is_filled = getattr(declared, "fill_value", None) is not None
        counted = exp.Count(this=exp.Star() if is_filled else column.copy(), big_int=True)
        # Not (n - 1) / n: the interval would be wider, as if both n had noise of their own. Values
        # that have a variance are at least one.
        rows = exp.Greatest(this=counted, expressions=[number(1)], ignore_nulls=True)
        share: exp.Expr = exp.Sub(
            this=number(1), expression=exp.Div(this=number(1), expression=rows)
        )
        if isinstance(node, exp.VariancePop):
            sample: exp.Expr = exp.Variance(this=column)
        else:
            sample, share = exp.Stddev(this=column), exp.Sqrt(this=share)
        return exp.Paren(this=exp.Mul(this=sample, expression=exp.Paren(this=share)))

    def _quantiles(self, node: exp.Expr, name: str, condition: exp.Expr | None) -> exp.Expr:
        """Return a quantile, or the list of several quantiles."""
        part = node.args.get(name)
        if isinstance(part, exp.Order):
            refuse(node, "the order is that of the values", "leave out ORDER BY")
        column = self._argument(node, node.this, condition)
        kind = type(node)
        if not isinstance(part, exp.Array):
            return kind(this=column, **{name: part})
        parts = [kind(this=column.copy(), **{name: one}) for one in part.expressions]
        if not parts:
            refuse(node, "it lists no fraction", "write one, as in [0.25, 0.5, 0.75]")
        return exp.Array(expressions=parts)

    def _argument(self, node: exp.Expr, value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        """Return the column that an aggregate reads, which is computed if necessary."""
        while isinstance(value, exp.Paren):
            value = value.this
        if isinstance(value, exp.Star):
            refuse(node, "only COUNT takes *", "name a column instead of *")
        column = self.table.columns.get(value.name) if isinstance(value, exp.Column) else None
        is_flag = getattr(column, "type", "") == "boolean" and not isinstance(node, exp.Mode)
        if isinstance(value, exp.Column) and condition is None and not is_flag:
            return value
        if isinstance(node, exp.Mode):
            form, declaration = public_values(value, self.table)
        else:
            form, declaration = self._number_or_date(node, value)
        if declaration is None:
            reason = "its argument has no public list of values"
            refuse(node, reason, "use a CASE with constants, or a column with declared values")
        if condition is not None:
            form = case_of((row_form(condition, self.table), form))
        return self.declare(form, declaration)

    def _number_or_date(self, node: exp.Expr, value: exp.Expr) -> tuple[exp.Expr, dict[str, Any]]:
        """Return the numbers or dates that an aggregate reads, and their declaration."""
        form = filled(row_form(value, self.table), value, self.table)
        kind = kind_of(form, self.table)
        if kind is Kind.BOOLEAN:
            form = _zero_or_one(form)
        elif kind in TIMES and KEYWORD_OF_FUNCTION.get(type(node), "quantile") in QUANTILES:
            declaration = TIMES[kind](row_form(value, self.table), self.table.columns)
            if declaration is None:
                refuse(node, "its values have no bounds", BOUNDED_TIMES)
            return form, declaration
        elif kind is not Kind.NUMBER:
            refuse(node, f"its argument is {kind}", "use a number or a condition as the argument")
        return form, column_declaration(form, self.table.columns)


BOUNDED_TIMES = "name a column with declared bounds; write conditions as FILTER (WHERE ...)"

TIMES = {Kind.DATE: date_declaration, Kind.TIMESTAMP: instant_declaration}
"""The declaration of a computed column of times, by their kind."""


def _zero_or_one(condition: exp.Expr) -> exp.Expr:
    """Return 1 for a true condition, 0 for a false one, and NULL for a missing one."""
    no = exp.Not(this=exp.Paren(this=condition.copy()))
    return case_of((condition, number(1)), (no, number(0)))


def _both(left: exp.Expr | None, right: exp.Expr) -> exp.Expr:
    """Return the conjunction of two conditions, of which the first may be absent."""
    if left is None:
        return right
    return exp.And(this=exp.Paren(this=left), expression=exp.Paren(this=right))


def _simple_condition(node: exp.Expr) -> exp.Expr | None:
    """Return the condition of CASE WHEN c THEN constant END; None for other expressions."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.If):
        node = exp.Case(ifs=[node], default=node.args.get("false"))
    if not isinstance(node, exp.Case) or node.this is not None or len(node.args["ifs"]) != 1:
        return None
    (branch,), other = node.args["ifs"], node.args.get("default")
    is_constant = isinstance(branch.args["true"], exp.Literal | exp.Boolean)
    ends = other is None or isinstance(other, exp.Null)
    condition: exp.Expr = branch.this
    return condition if is_constant and ends else None


def _named_aggregate(node: exp.Expr) -> exp.Expr:
    """Return an aggregate in sqlglot's class, from another name or from WITHIN GROUP."""
    if isinstance(node, exp.IgnoreNulls):
        plain: exp.Expr = node.this
        return plain
    if isinstance(node, exp.WithinGroup):
        return _within_group(node)
    return node


def _within_group(node: exp.WithinGroup) -> exp.Expr:
    """Return PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x) as QUANTILE_CONT(x, q), and MODE."""
    function, items = node.this, node.expression.expressions
    if len(items) != 1 or not isinstance(
        function, exp.PercentileCont | exp.PercentileDisc | exp.Mode
    ):
        reason = "WITHIN GROUP belongs to PERCENTILE_CONT, PERCENTILE_DISC and MODE of one column"
        refuse(node, reason, "write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)")
    ordered = items[0]
    if isinstance(function, exp.Mode):
        return exp.Mode(this=ordered.this)
    fraction = function.this
    if ordered.args.get("desc"):
        # In descending order, the quantile at q is that at 1 - q in ascending order.
        parts = fraction.expressions if isinstance(fraction, exp.Array) else [fraction]
        turned = [_complement(node, part) for part in parts]
        fraction = exp.Array(expressions=turned) if isinstance(fraction, exp.Array) else turned[0]
    return type(function)(this=ordered.this, expression=fraction)


def _complement(node: exp.Expr, part: exp.Expr) -> exp.Expr:
    """Return 1 - q for a constant q."""
    try:
        value = None if not isinstance(part, exp.Literal) else exact(part.name)
    except ValueError:
        value = None
    if value is None or not 0 <= value <= 1:
        refuse(node, "its fraction is no number from 0 to 1", "write a constant such as 0.5")
    return exp.Literal.number(plain_text(Fraction(1) - value))


def own_aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the aggregates of rows in an expression, without those of windows and sub-queries."""
    if isinstance(node, exp.Query):
        return
    if is_aggregate(node) and not _is_function_of_window(node):
        yield node
        return
    for part in node.iter_expressions():
        yield from own_aggregates(part)


def _is_function_of_window(node: exp.Expr) -> bool:
    """Return whether a node is what a window computes: SUM(x), and SUM(x) FILTER (...), OVER ()."""
    around = node.parent
    while isinstance(around, WRAPPERS) and around.this is node:
        node, around = around, around.parent
    return isinstance(around, exp.Window) and around.this is node


def replace_own(
    node: exp.Expr,
    replacement: Callable[[exp.Expr], exp.Expr | None],
    *,
    is_key: bool = False,
) -> None:
    """Replace the outermost nodes of an expression for which there is a replacement.

    Nested queries stay, and so do the functions of windows, whose arguments are replaced. Keys
    inside of aggregates are values of rows, and stay as well.
    """
    is_value = is_aggregate(node) and not _is_function_of_window(node)
    if isinstance(node, exp.Query) or (is_key and is_value):
        return
    found = None if _is_function_of_window(node) else replacement(node)
    if found is None:
        for part in list(node.iter_expressions()):
            replace_own(part, replacement, is_key=is_key)
    elif found is not node:
        node.replace(found)
