"""Numbers that are compared with categories whose values are texts such as '6'.

A number stands for the value that is its text, if no other value is the same number. So `m = 6` is
`m = '6'`, but it is refused if '06' is a value as well, as two values would then be meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import ge, gt, le, lt

from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.numerics.rounding import exact_or_none, plain_text
from dprelease.query import quoting
from dprelease.query.expressions.nodes import LONGEST_QUOTE
from dprelease.schema.columns import CategoryColumn
from dprelease.schema.table import Table

MOST_VALUES = 20
"""Maximum number of values in a condition that a message suggests."""

_ORDERS: dict[type[exp.Expr], Callable[[Fraction, Fraction], bool]] = {
    exp.LT: lt, exp.LTE: le, exp.GT: gt, exp.GTE: ge,
}  # fmt: skip
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE,
}  # fmt: skip
_NEGATIVE = (exp.NEQ, exp.NullSafeNEQ)


def with_codes(
    table: Table, node: exp.Expression, parts: Sequence[exp.Expression], place: Place
) -> list[exp.Expression]:
    """Return the operands of a comparison or of IN, with codes of a category for numbers.

    Raises QueryError: DP-WHERE-013 for a number that several values, or one of another spelling,
    equal, and for an order of numbers; with the condition to write instead.
    """
    plain = [part.unnest() for part in parts]
    columns = {one.name for one in plain if isinstance(one, exp.Column)}
    column = table.columns.get(next(iter(columns))) if len(columns) == 1 else None
    if not isinstance(column, CategoryColumn) or not any(map(_is_number, plain)):
        return list(parts)
    name, values = next(iter(columns)), _numbers_of(column.values or ())
    if type(node) in _ORDERS or isinstance(node, exp.Between):
        holds = _condition(node, plain)
        if holds is not None:
            _refuse(node, name, [text for text, number in values if holds(number)], place)
        return list(parts)
    found, meant, is_clear = list(parts), list[str](), True
    for i, part in enumerate(plain):
        if not _is_number(part):
            meant += [part.name] if isinstance(part, exp.Literal) else []
            continue
        number = _number(part)
        equal = [text for text, other in values if other == number]
        is_clear &= equal in ([], [plain_text(number)])
        meant += equal
        found[i] = exp.Literal.string(plain_text(number))
    if not is_clear:
        _refuse(node, name, meant, place)
    return found


def _refuse(node: exp.Expr, name: str, values: Sequence[str], place: Place) -> None:
    """Raise DP-WHERE-013 with the condition that has these values; nothing if there are none."""
    listed = list(dict.fromkeys(values))
    if not listed:
        return
    texts = [quoting.text(value) for value in listed[:MOST_VALUES]]
    texts += ["..."] if len(listed) > MOST_VALUES else []
    no = "NOT " if isinstance(node, _NEGATIVE) else ""
    instead = f"{quoting.identifier(name)} {no}IN ({', '.join(texts)})"
    what = node.sql("duckdb")[:LONGEST_QUOTE]
    raise QueryError("DP-WHERE-013", place=place, what=what, column=name, instead=instead)


def _is_number(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Neg) else node
    return (
        isinstance(inner, exp.Literal)
        and not inner.is_string
        and exact_or_none(inner.name) is not None
    )


def _number(node: exp.Expr) -> Fraction:
    """Return the value of a constant number."""
    inner = node.this if isinstance(node, exp.Neg) else node
    number = exact_or_none(inner.name) or Fraction(0)
    return -number if isinstance(node, exp.Neg) else number


def _numbers_of(values: Sequence[str]) -> list[tuple[str, Fraction]]:
    numbers = ((text, exact_or_none(text)) for text in values if text[:1] in "+-.0123456789")
    return [(text, number) for text, number in numbers if number is not None]


def _condition(node: exp.Expr, parts: Sequence[exp.Expr]) -> Callable[[Fraction], bool] | None:
    """Return the condition on a number of an order of a column and constants; None for others."""
    if isinstance(node, exp.Between):
        if not all(map(_is_number, parts[1:])):
            return None
        low, high = (_number(part) for part in parts[1:])
        return lambda number: low <= number <= high
    kind, constant = type(node), parts[1]
    if _is_number(parts[0]):
        kind, constant = _MIRRORED[kind], parts[0]
    order, bound = _ORDERS[kind], _number(constant)
    return lambda number: order(number, bound)
