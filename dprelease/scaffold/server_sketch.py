"""Draft a table schema for a table of a PostgreSQL server, from the server's catalogue.

The catalogue leads to notes on columns, and to proposals for their values or bounds, which are
marked for confirmation. CHECK constraints limit a column to bounds or to a list of values.
Constraints in an unknown form are ignored; the server enforces them, whatever is proposed. Rows are
read only with `peek`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import reduce
from math import ceil, floor
from typing import NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dprelease.errors import DataError, Place, RunState
from dprelease.exact.postgres.server_form import (
    MOST_LABELS,
    Check,
    ServerTable,
    describe_server_table,
)
from dprelease.exact.reading.peek import peek_at_server
from dprelease.numerics.lattice import LIMIT
from dprelease.numerics.rounding import exact, plain_text
from dprelease.scaffold.proposals import HEAD as PEEKED_HEAD
from dprelease.scaffold.proposals import proposal_text
from dprelease.scaffold.sketch import (
    HEAD,
    refuse_collated,
    refuse_equal_names,
    schema_text,
    source_lines,
)
from dprelease.scaffold.yaml_texts import quote_yaml
from dprelease.schema.load import CONFIRM
from dprelease.schema.source_files import to_table_name

LONGEST_CONSTRAINT = 20_000
"""The maximum number of characters of a constraint; longer constraints are not parsed."""

Bound = Fraction | date

_TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.BPCHAR, exp.DType.CHAR, exp.DType.NAME)
_NUMBERS = (
    exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.DECIMAL, exp.DType.DOUBLE,
    exp.DType.FLOAT,
)  # fmt: skip
_PADDED = (exp.DType.BPCHAR, exp.DType.CHAR)  # trailing blanks are not part of a value
_TYPES_BY_KIND = {
    "integer": _NUMBERS,
    "number": _NUMBERS,
    "date": (exp.DType.DATE,),
    "text": _TEXTS,
}
_PRESERVING_TYPES = {
    **_TYPES_BY_KIND,
    "number": (exp.DType.DECIMAL,),
}  # as a float a value may be another number
_MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}


class Limits(NamedTuple):
    """The allowed values of a column: between two bounds, of which None is open, or in a list."""

    lower: Bound | None = None
    upper: Bound | None = None
    values: tuple[str, ...] | None = None

    @property
    def ends(self) -> tuple[Bound, Bound] | None:
        """Return both bounds; None if one is open, or if no value is between them."""
        if self.lower is None or self.upper is None:
            return None
        crossed = self.lower != self.upper and _farthest(max, self.lower, self.upper) == self.lower
        return None if crossed else (self.lower, self.upper)


NOTHING = Limits(values=())
"""The limits of a condition that is true only for a missing value."""


@dataclass(frozen=True, slots=True)
class _ConstrainedColumn:
    """The column whose limits are derived: its name, its kind, whether it is an enumeration."""

    name: str
    kind: str
    is_enum: bool


def limits_of(checks: Iterable[Check], kind: str, *, is_enum: bool = False) -> Limits:
    """Return the limits of a column from all CHECK constraints, which may be open.

    `kind` is the type as which the values of the column are read. `is_enum` says whether the values
    are labels of an enumeration.
    """
    found = [_limits_of_check(check, kind, is_enum) for check in checks]
    return reduce(intersection, found, Limits())


def _limits_of_check(check: Check, kind: str, is_enum: bool) -> Limits:
    """Return the bounds and values that a CHECK constraint implies for its column."""
    if kind not in _TYPES_BY_KIND or len(check.condition) > LONGEST_CONSTRAINT:
        return Limits()
    try:
        tree = sqlglot.parse_one(check.condition, dialect="postgres")
        return _limits_of_tree(tree, _ConstrainedColumn(check.name, kind, is_enum))
    except (SqlglotError, RecursionError):
        return Limits()


def _limits_of_tree(tree: exp.Expr, column: _ConstrainedColumn) -> Limits:
    """Return the limits of a column from the syntax tree of a condition."""
    match tree:
        case exp.Paren():
            return _limits_of_tree(tree.this, column)
        case exp.And():
            return reduce(
                intersection, (_limits_of_tree(part, column) for part in tree.flatten()), Limits()
            )
        case exp.Or():
            return reduce(
                _union, (_limits_of_tree(part, column) for part in tree.flatten()), NOTHING
            )
        case exp.Is() if _is_missing(tree, column):
            return NOTHING
        case exp.EQ() if isinstance(tree.expression, exp.Any):
            return _limits_of_list(tree, column)
        case exp.Binary() if type(tree) in _MIRRORED:
            return _limits_of_comparison(tree, column)
    return Limits()


def _is_missing(tree: exp.Is, column: _ConstrainedColumn) -> bool:
    """Return whether a condition states that a column is NULL."""
    is_null_test = isinstance(tree.expression, exp.Null) and not tree.args.get("negate")
    return is_null_test and _is_column(tree.this, column)


def _limits_of_comparison(tree: exp.Binary, column: _ConstrainedColumn) -> Limits:
    """Return the limits of a column from its comparison with a constant."""
    comparison, constant = type(tree), tree.expression
    if not _is_column(tree.this, column):
        comparison, constant = _MIRRORED[comparison], tree.this
        if not _is_column(tree.expression, column):
            return Limits()
    value = _constant(constant, column)
    if value is None:
        return Limits()
    if isinstance(value, str):
        # The order of texts depends on the collation of the server.
        return Limits(values=(value,)) if comparison is exp.EQ else Limits()
    lower = None if comparison in (exp.LT, exp.LTE) else value
    upper = None if comparison in (exp.GT, exp.GTE) else value
    if column.kind == "integer":
        # Both integers above 2 and integers from 2.5 on begin with 3.
        lower = _integer_end(lower, ceil, 1 if comparison is exp.GT else 0)
        upper = _integer_end(upper, floor, -1 if comparison is exp.LT else 0)
    return Limits(lower, upper)


def _integer_end(
    end: Bound | None, rounded: Callable[[Fraction], int], further: int
) -> Fraction | None:
    """Return the bound of integers that a bound implies; None if there is no number."""
    if not isinstance(end, Fraction):
        return None
    return Fraction(rounded(end)) + (further if end.denominator == 1 else 0)


def _limits_of_list(tree: exp.EQ, column: _ConstrainedColumn) -> Limits:
    """Return the limits from IN with a list of values, in the form that the server writes."""
    array = _without_parentheses(tree.expression.this)
    while isinstance(array, exp.Cast):
        array = _without_parentheses(array.this)
    if not isinstance(array, exp.Array) or not _is_column(tree.this, column):
        return Limits()
    values = [_constant(one, column) for one in array.expressions]
    if not values or None in values:
        return Limits()
    if column.kind in ("number", "date"):
        return reduce(_union, (_only_value(value) for value in values), NOTHING)
    fitting = [one for one in values if not isinstance(one, Fraction) or one.denominator == 1]
    return Limits(values=tuple(dict.fromkeys(map(str, fitting))))


def _only_value(value: Bound | str | None) -> Limits:
    """Return limits that allow only this value; no limits for a text or None."""
    return Limits() if value is None or isinstance(value, str) else Limits(value, value)


def _is_column(tree: exp.Expr, column: _ConstrainedColumn) -> bool:
    """Return whether an expression is the column, or a cast of it that preserves all values."""
    tree = _without_parentheses(tree)
    while isinstance(tree, exp.Cast):
        if not _is_cast_to(tree, _PRESERVING_TYPES[column.kind]):
            return False
        tree = _without_parentheses(tree.this)
    if not isinstance(tree, exp.Column) or tree.args.get("table") is not None:
        return False
    return tree.name == column.name


def _constant(tree: exp.Expr, column: _ConstrainedColumn) -> Bound | str | None:
    """Return the value of a constant with which the column is compared."""
    sign, is_padded = 1, False
    tree = _without_parentheses(tree)
    while isinstance(tree, exp.Cast | exp.Neg):
        if isinstance(tree, exp.Neg):
            sign = -sign
        elif not column.is_enum and not _is_cast_to(tree, _TYPES_BY_KIND[column.kind]):
            return None
        else:
            is_padded = is_padded or _is_cast_to(tree, _PADDED)
        tree = _without_parentheses(tree.this)
    if not isinstance(tree, exp.Literal):
        return None
    text = str(tree.this)
    if column.kind == "text":
        return None if not tree.is_string else text.rstrip(" ") if is_padded else text
    try:
        return date.fromisoformat(text) if column.kind == "date" else sign * exact(text)
    except ValueError:
        return None


def _is_cast_to(cast: exp.Cast, types: Collection[exp.DType]) -> bool:
    """Return whether an expression is a cast to one of these types without a truncating length."""
    return cast.to.this in types and not cast.to.expressions


def _without_parentheses(tree: exp.Expr) -> exp.Expr:
    """Return the expression inside all outer parentheses."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def intersection(one: Limits, other: Limits) -> Limits:
    """Return the limits of two conditions that are joined by AND."""
    if one.values is not None and other.values is not None:
        return Limits(values=tuple(value for value in one.values if value in other.values))
    if one.values is not None or other.values is not None:
        return one if other.values is None else other
    return Limits(
        _farthest(max, one.lower, other.lower),
        _farthest(min, one.upper, other.upper),
    )


def _union(one: Limits, other: Limits) -> Limits:
    """Return the limits of two conditions that are joined by OR."""
    if NOTHING in (one, other):
        return other if one == NOTHING else one
    if one.values is not None and other.values is not None:
        return Limits(values=tuple(dict.fromkeys((*one.values, *other.values))))
    if one.values is not None or other.values is not None:
        return Limits()
    return Limits(
        None if None in (one.lower, other.lower) else _farthest(min, one.lower, other.lower),
        None if None in (one.upper, other.upper) else _farthest(max, one.upper, other.upper),
    )


def _farthest(farthest: Callable[..., Bound], *ends: Bound | None) -> Bound | None:
    """Return the farthest of the ends that exist, all of which have one type."""
    known = [end for end in ends if end is not None]
    return farthest(known) if known else None


LIST = f"  {CONFIRM}: the list of its type. Is it public knowledge, and whole? Then remove this"
DIGITS = (
    f"  {CONFIRM}: what its type has room for; narrower bounds mean less noise. Then remove this"
)
CHECK = (
    f"  {CONFIRM}: what its CHECK constraint leaves. Is it public knowledge, and not from the "
    "data? Then remove this"
)


def column_proposal(form: ServerTable, name: str) -> str:
    """Return a list of values, or bounds, of a column; empty if the catalogue has neither."""
    limits, labels = _column_limits(form, name), form.labels.get(name)
    if limits.values is not None:
        values = [one for one in limits.values if labels is None or one in labels]
        return _category_text(values, CHECK)
    if labels:
        return _category_text(labels, LIST)
    return _bounds_text(form, name, limits)


def notes_text(form: ServerTable, name: str) -> str:
    """Return notes on a column: one bound from its CHECK constraint, and that it is NOT NULL."""
    limits = Limits() if column_proposal(form, name) else _column_limits(form, name)
    ends = {"lower": limits.lower, "upper": limits.upper}
    bound_texts = [f"{key}: {_bound_text(end)}" for key, end in ends.items() if end is not None]
    notes = [f"its CHECK constraint leaves {bound_texts[0]}"] if len(bound_texts) == 1 else []
    return "; ".join([*notes, *["NOT NULL"] * (name in form.required)])


def _column_limits(form: ServerTable, name: str) -> Limits:
    """Return the bounds and values that all constraints of a column imply."""
    is_enum = name in form.labels
    return limits_of(form.checks.get(name, ()), form.columns[name], is_enum=is_enum)


def _category_text(values: Sequence[str], mark: str) -> str:
    """Return the YAML of a category with these values; empty if there are none or too many."""
    if not 0 < len(values) <= MOST_LABELS:
        return ""
    return f"{{type: category, values: [{', '.join(map(quote_yaml, values))}]}}{mark}"


def _bounds_text(form: ServerTable, name: str, limits: Limits) -> str:
    """Return the bounds from CHECK constraints and digits together, if both ends are known."""
    step, largest = form.digits.get(name, (None, None))
    if largest is not None:
        limits = intersection(limits, Limits(-largest, largest))
    ends = limits.ends
    # A schema with such bounds would be refused: their steps don't fit the integers that are
    # summed.
    if ends is None or (step is not None and _magnitude(*ends) / step > LIMIT):
        return ""
    low, high = map(_bound_text, ends)
    by = "" if step is None else f", step: {plain_text(step)}"
    mark = DIGITS if largest is not None and ends == (-largest, largest) else CHECK
    return f"{{type: {form.columns[name]}, lower: {low}, upper: {high}{by}}}{mark}"


def _magnitude(*ends: Bound) -> Fraction:
    """Return the largest absolute value of the numerical bounds."""
    return max(abs(end) for end in ends if isinstance(end, Fraction))


def _bound_text(end: Bound) -> str:
    """Return the text of a bound, which is a number or a date."""
    return plain_text(end) if isinstance(end, Fraction) else end.isoformat()


SERVER_HEAD = HEAD.replace("no row was read.", "the server's catalogue was read, but no row.")


def server_sketch(
    address: str,
    table: str | None,
    unit: str | None = None,
    *,
    peek: bool = False,
    state: RunState | None = None,
) -> str:
    """Return the text of a table schema for a table of a server.

    The proposals, each marked for confirmation, are: the labels of enumerations, bounds from the
    declared digits of numbers, and limits from CHECK constraints of columns and domains. `peek`:
    whether rows are read too; if the catalogue has only a column's type, proposals come from its
    values and are marked accordingly. `state` records that rows are read.

    Raises
    ------
    DataError
        DP-DATA-010 without a table, 011 if `unit` is not one of its columns, 003 for names that
        differ only in case, 013 if the values can't be read, 026 if the server does not compare
        `unit` by its characters; the errors of `describe_server_table`.
    SchemaError
        The errors of `describe_server_table`.
    """
    place = Place(file="a PostgreSQL server")
    if not table:
        raise DataError("DP-DATA-010", place=place, path="the address")
    form = describe_server_table(address, table)
    names = list(form.columns)
    if unit is not None and unit not in names:
        raise DataError("DP-DATA-011", place=place, column=unit, known=", ".join(names[:40]))
    refuse_collated(unit, "postgres", form.collations, place)
    table_name = to_table_name(table.rpartition(".")[2])
    refuse_equal_names(names, place, table_name)
    proposals = {name: column_proposal(form, name) for name in names}
    if peek:
        if state is not None:
            state.rows = True
        shown = {name: proposal_text(column) for name, column in peek_at_server(form).items()}
        written = {name for name, body in proposals.items() if body and not body.endswith(DIGITS)}
        proposals |= {name: body for name, body in shown.items() if body and name not in written}
    proposals.pop(unit or "", None)
    head = PEEKED_HEAD if peek else SERVER_HEAD
    lines = [head.rstrip(), f"table: {table_name}", *source_lines(address, None, {"table": table})]
    notes = {name: notes_text(form, name) for name in names}
    return schema_text(lines, list(form.columns.items()), unit, proposals, None, notes)
