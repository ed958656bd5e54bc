"""Read arithmetic on aggregates as a formula, whose interval follows from its noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dprelease.numerics.rounding import exact
from dprelease.query.select_nodes import AGGREGATE_NODES, quoted, sql_text

MOST_COLUMNS = 10
"""Maximum number of different aggregates in a formula with an interval."""

ENDS = ("lower", "upper")
"""The names of the ends of an interval."""

SQUARE_ROOT, GREATEST, LEAST = "sqrt", "greatest", "least"
EXTREMES = {exp.Greatest: GREATEST, exp.Least: LEAST}
OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
"""The operations of formulas, by node type."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A number, a noisy column, a square root, or an operation on two formulas.

    An operation is +, -, *, /, or the greatest or least of both.
    """

    number: Fraction = Fraction(0)
    column: str = ""
    operator: str = ""
    parts: tuple[Formula, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The different columns of the formula, in the order in which they are written."""
        found = dict.fromkeys([self.column] if self.column else [])
        for part in self.parts:
            found |= dict.fromkeys(part.columns)
        return list(found)

    def with_columns(self, names: Mapping[str, str]) -> Formula:
        """Return the formula with other names of its columns."""
        parts = tuple(part.with_columns(names) for part in self.parts)
        return replace(self, column=names.get(self.column, self.column), parts=parts)


def confidence_of_each(columns: int, confidence: Fraction) -> Fraction:
    """Return the confidence of each of several intervals that all hold at once with a confidence.

    The probabilities that an interval misses add up at most (Bonferroni), whatever noise the
    columns share.
    """
    if columns == 1:
        return confidence
    digits = 10**8
    miss = (1 - confidence) / columns * digits
    return 1 - Fraction(miss.numerator // miss.denominator, digits)


def formula_of(
    node: exp.Expr, resolve: Callable[[exp.Column], exp.Expr | None]
) -> tuple[Formula, dict[str, exp.Expr]] | str:
    """Return an expression as a formula, with its aggregates by their SQL; or why it is none.

    The columns of the formula are these SQL texts. `resolve` returns the expression for which a
    name of the SELECT list stands.
    """
    reader = _FormulaReader(resolve)
    found = reader.read(node)
    if isinstance(found, str):
        return found
    if not reader.aggregates:
        return "it contains no aggregate"
    if len(reader.aggregates) > MOST_COLUMNS:
        return f"it has more than {MOST_COLUMNS} aggregates"
    return found, reader.aggregates


class _FormulaReader:
    """Reads one expression, and collects its aggregates."""

    def __init__(self, resolve: Callable[[exp.Column], exp.Expr | None]) -> None:
        self.resolve = resolve
        self.aggregates: dict[str, exp.Expr] = {}
        self.names: list[str] = []

    def read(self, node: exp.Expr) -> Formula | str:
        """Return the formula of a node, or the reason why it has none."""
        node = _unwrapped(node)
        if isinstance(node, AGGREGATE_NODES):
            text = sql_text(node)
            self.aggregates[text] = node
            return Formula(column=text)
        if isinstance(node, exp.Column):
            return self._of_name(node)
        if isinstance(node, exp.Neg):
            return self._of_operands("-", exp.Literal.number(0), node.this)
        if isinstance(node, exp.Sqrt):
            return self._of_operands(SQUARE_ROOT, node.this)
        if isinstance(node, exp.Greatest | exp.Least) and len(node.expressions) == 1:
            return self._of_operands(EXTREMES[type(node)], node.this, node.expressions[0])
        if type(node) in OPERATORS:
            return self._of_operands(OPERATORS[type(node)], node.this, node.expression)
        if isinstance(node, exp.Literal) and not node.is_string:
            try:
                return Formula(number=exact(node.name))
            except ValueError:
                return f"{quoted(node)} is not a decimal number"
        return _reason_against(node)

    def _of_operands(self, operator: str, *operands: exp.Expr) -> Formula | str:
        """Return the formula of an operation on nodes, or the reason why it has none."""
        parts = []
        for operand in operands:
            part = self.read(operand)
            if isinstance(part, str):
                return part
            parts.append(part)
        return Formula(operator=operator, parts=tuple(parts))

    def _of_name(self, column: exp.Column) -> Formula | str:
        """Return the formula of a name of the SELECT list, or the reason why it has none."""
        body = self.resolve(column)
        if body is None or column.name in self.names:
            return f"{column.name[:60]} is not a name of an aggregate"
        self.names.append(column.name)
        found = self.read(body)
        self.names.pop()
        return found


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """Return a node without what does not change its interval.

    The interval of a rounded value is that of the value, and where NULLIF(x, 0) is NULL, so is the
    interval of a quotient.
    """
    while True:
        is_zero = isinstance(node, exp.Nullif) and sql_text(node.expression) == "0"
        is_float = isinstance(node, exp.Cast) and node.to.is_type("double", "float")
        if not (isinstance(node, exp.Paren | exp.Alias | exp.Round) or is_zero or is_float):
            return node
        node = node.this


def _reason_against(node: exp.Expr) -> str:
    """Return why a node that is no arithmetic has no interval."""
    if isinstance(node, exp.Window):
        return "a window function adds up the noise of several rows"
    if isinstance(node, exp.Query):
        return "a sub-query reads another noisy table"
    if isinstance(node, exp.Case | exp.If):
        return "CASE may choose another branch for the value without noise"
    operations = "a sum, difference, product, quotient or square root"
    return f"{quoted(node)} is not {operations} of aggregates and numbers"
