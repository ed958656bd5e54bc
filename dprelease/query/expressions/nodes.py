"""Checks of parsed nodes, and their rendering as SQL, that all rules for expressions share.

Categories have values that are texts, such as '6'. A number that is compared with one stands for
the value that is its text, if no other value is the same number. So `m = 6` is `m = '6'`, but it
is refused if '06' is a value as well, as two values would then be meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from dprelease.errors import Place, QueryError
from dprelease.errors.suggestions import nearest
from dprelease.numerics.rounding import exact_or_none, plain_text
from dprelease.query import quoting
from dprelease.schema.columns import CategoryColumn, Column, CutColumn
from dprelease.schema.table import Table

COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
}
MEANT = {
    **dict.fromkeys(("dayname", "weekday", "dayofweek", "dow"), "isodow"),
    **dict.fromkeys(("datediff", "datesub", "date_sub", "age"), "date_diff"),
    **{"monthname": "month", "weekofyear": "week", "ifnull": "coalesce", "len": "length"},
    **{"ceiling": "ceil", "datetrunc": "date_trunc", "to_char": "strftime"},
}
"""Functions that conditions and expressions have under another name."""
GENERAL = (
    "use comparisons, AND, OR, NOT, IN (...), BETWEEN, IS NULL, LIKE, +, -, *, /, %, CASE and the "
    "allowed functions; nothing that fails for some values is allowed"
)
LISTED = "use one of these functions, which can't fail or read anything outside the row: "
IN_QUOTES = (
    "if it is the name of a column with spaces or brackets, put the whole name in double quotes, "
    'as in "Satisfaction (1-5)" >= 4'
)
LONGEST_QUOTE = 60
"""Maximum number of characters that a message quotes of an expression."""

MOST_DECIMALS = 15
"""Maximum number of decimals of round, before and after the point."""
_DECIMALS = {str(number) for number in range(MOST_DECIMALS + 1)}

NAMED = 5
"""Maximum number of values that a message lists."""


def stop_text(problem: Exception) -> str:
    """Return a text on where the parser stopped."""
    errors = getattr(problem, "errors", None) or [{}]
    if errors[0].get("highlight"):
        return f", from '{errors[0]['highlight'][:LONGEST_QUOTE]}' on"
    return ""


def unwritable_function(tree: exp.Expr) -> str:
    """Return the innermost function that DuckDB's SQL can't express, or "".

    sqlglot reads functions of other databases, such as to_char(t, 'YYYY'), and would write them
    without the arguments that DuckDB lacks.
    """
    if _is_writable(tree):
        return ""
    found = [node for node in tree.find_all(exp.Func) if not _is_writable(node)]
    return found[-1].sql_name() if found else ""


def _is_writable(node: exp.Expr) -> bool:
    """Return whether DuckDB's SQL can express a node."""
    try:
        node.sql("duckdb", unsupported_level=ErrorLevel.IMMEDIATE)
    except (UnsupportedError, TypeError):  # the latter for a few functions of JSON
        return False
    return True


def unknown_function_error(name: str, known: str, place: Place, write: str = "") -> QueryError:
    """Return the error for a function that is not allowed; `write` is what to write instead."""
    close = "" if write else nearest(MEANT.get(name, name), known.split(", "))
    advice = f"write {write}" if write else f"{LISTED}{known}; {IN_QUOTES}"
    return QueryError("DP-WHERE-004", place=place, function=name, nearest=close, advice=advice)


def not_allowed_error(
    part: exp.Expr | str, place: Place, because: str = "", advice: str = ""
) -> QueryError:
    """Return the error for a part that is not allowed in an expression.

    `because`: the reason, if it is not the general one. `advice`: what to write instead.
    """
    what = part if isinstance(part, str) else part.sql("duckdb")[:LONGEST_QUOTE]
    reason = f", because {because}" if because else ""
    return QueryError(
        "DP-WHERE-006", place=place, what=what, reason=reason, advice=advice or GENERAL
    )


def check_never_true(node: exp.Expression, place: Place) -> None:
    """Raise QueryError DP-WHERE-012 for a comparison with NULL, which is never true."""
    distinct = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
    if not distinct and isinstance(node.this, exp.Null) | isinstance(node.expression, exp.Null):
        raise QueryError("DP-WHERE-012", place=place, what=node.sql("duckdb")[:LONGEST_QUOTE])


def check_declared(
    table: Table, side: exp.Expression, others: Sequence[exp.Expression], place: Place
) -> None:
    """Raise QueryError DP-WHERE-011 for a text that a compared category does not declare.

    The condition would never hold, or would depend on undeclared values.
    """
    column = table.columns.get(side.name) if isinstance(side, exp.Column) else None
    if not isinstance(column, CategoryColumn | CutColumn):
        return
    values = column.values or ()
    texts = (one.name for one in others if isinstance(one, exp.Literal) and one.is_string)
    found = [text for text in dict.fromkeys(texts) if text not in values]
    if found:
        fields: dict[str, Any] = {"column": side.name, "known": _listed_text(values)}
        fragments = _listed_text([f"'{text[:LONGEST_QUOTE]}'" for text in found])
        fields |= {"number": "is no declared value", "others": "this one"}
        if len(found) > 1:
            fields |= {"number": "are no declared values", "others": "these"}
        raise QueryError("DP-WHERE-011", place=place, values=fragments, **fields)


def _listed_text(texts: Sequence[str]) -> str:
    """Return the list of texts in a message: the first few texts, and whether there are more."""
    return ", ".join(texts[:NAMED]) + (", ..." if len(texts) > NAMED else "")


def column_sql(node: exp.Column, column: Column) -> str:
    """Return SQL of a column's value in a condition or an expression.

    The spelling of an undeclared code depends on the stored type of its column, so the SQL makes
    all undeclared codes equal. Comparisons with constants, which must be declared, are the same
    with and without this replacement.
    """
    if not isinstance(column, CategoryColumn) or _is_compared_with_constants(node):
        return quoting.identifier(node.name)
    return f"({declared_code_sql(node.name, column)})"


def declared_code_sql(name: str, column: CategoryColumn) -> str:
    """Return SQL of a category's code, with "?" or another text for all undeclared codes."""
    values, name = column.values or (), quoting.identifier(name)
    other = undeclared_code(values)
    known = ", ".join(quoting.text(value) for value in values)
    undeclared = f"WHEN {name} IS NOT NULL THEN {quoting.text(other)}"
    return f"CASE WHEN {name} IN ({known}) THEN {name} {undeclared} END"


def undeclared_code(values: Sequence[str]) -> str:
    """Return the text that stands for all undeclared codes of a category."""
    # a text that is longer than every declared value with the same beginning
    return "?" if "?" not in values else max(values) + "?"


def _is_compared_with_constants(node: exp.Column) -> bool:
    """Return whether a column is only compared with declared texts, or tested for NULL."""
    around = node.parent
    if isinstance(around, exp.Is | exp.In):
        return around.this is node
    if isinstance(around, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ):
        other = around.expression if around.this is node else around.this
        return isinstance(other, exp.Literal | exp.Null)
    return False


def strip_date_cast(node: exp.Expression) -> exp.Expression:
    """Remove the date conversion that sqlglot wraps around arguments, as in year(x)."""
    return node.this if isinstance(node, exp.TsOrDsToDate) else node


def operands_of_chain(node: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the operands of a chain of ANDs or of ORs, left to right, without recursion."""
    sides, todo = [], [node]
    while todo:
        part = todo.pop()
        if type(part) is type(node):
            todo += [part.this, part.expression]
        else:
            sides.append(part)
    yield from reversed(sides)


def is_constant(node: exp.Expression) -> bool:
    """Return whether a node is a number, a text, or a date or time that is written as a text."""
    inner = node.this if isinstance(node, exp.Neg | exp.Cast) else node
    return isinstance(inner, exp.Literal)


def decimals_of(node: exp.Expression) -> int | None:
    """Return the constant number of decimals of round; None if it is too large or computed."""
    decimals = node.args.get("decimals")
    sign = -1 if isinstance(decimals, exp.Neg) else 1
    text = "0" if decimals is None else decimals.name if sign > 0 else decimals.this.name
    return sign * int(text) if text in _DECIMALS else None


def decimals_sql(node: exp.Expression, place: Place) -> str:
    """Return the SQL of the number of decimals of round, after a comma; "" if there is none."""
    if node.args.get("decimals") is None:
        return ""
    decimals = decimals_of(node)
    if decimals is None:
        because = f"the decimals are a constant from -{MOST_DECIMALS} to {MOST_DECIMALS}"
        advice = f"write ROUND({node.this.sql('duckdb')[:LONGEST_QUOTE]}, 2)"
        raise not_allowed_error(node, place, because, advice)
    return f", {decimals}"


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
