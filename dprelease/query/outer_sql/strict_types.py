"""Types over noised values: no text becomes a number or a date while a statement runs.

In `n = 'many'` and COALESCE(n, 'none'), DuckDB converts the text to a number when it computes a
row. That fails for most texts, and a trial may compute no such row. With texts of the type VARCHAR,
DuckDB refuses to mix types when it binds a statement, except in `=`, IN, NULLIF, the default of
LAG, USING, and conditions. A strict form has COALESCE in their place, in which DuckDB compares the
types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from dprelease.errors import QueryError
from dprelease.query.outer_sql.null_safe import number_of, number_operand

_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_MIXING = (
    *_COMPARISONS, exp.And, exp.Array, exp.Between, exp.Case, exp.Coalesce, exp.Greatest, exp.GT,
    exp.GTE, exp.Having, exp.If, exp.In, exp.Join, exp.Lag, exp.Lead, exp.Least, exp.LT, exp.LTE,
    exp.Not, exp.Nullif, exp.Or, exp.Paren, exp.Qualify, exp.Where, exp.Xor,
)  # fmt: skip
"""The nodes in which DuckDB gives a text constant the type of other operands."""

_PARTS: dict[type[exp.Expr], tuple[str, ...]] = {
    **dict.fromkeys((exp.And, exp.Or, exp.Xor), ("this", "expression")),
    **dict.fromkeys((exp.Not, exp.Where, exp.Having, exp.Qualify, exp.If), ("this",)),
    exp.Join: ("on",),
}
"""The arguments that are conditions, by type of node."""


def type_constants(tree: exp.Query) -> None:
    """Give the text constants of an outer statement the type VARCHAR where they have none.

    Dates and timestamps stay constants without a type, so that they can be compared with both dates
    and texts. What is compared with a number by `=` or IN, such as the code of a category, is read
    as a number; a text that is no number differs from all numbers.
    """
    for text in list(tree.find_all(exp.Literal)):
        is_item = isinstance(text.parent, exp.PropertyEQ) and text.find_ancestor(exp.ToMap)
        is_mixed = text.is_string and (isinstance(text.parent, _MIXING) or is_item)
        if is_mixed and not _is_date(text.name):
            text.replace(exp.Cast(this=text.copy(), to=exp.DataType.build("VARCHAR")))
    for case in list(tree.find_all(exp.Case)):
        for branch in case.args["ifs"] if case.this is not None else []:
            branch.set("this", exp.EQ(this=case.this.copy(), expression=branch.this))
        case.set("this", None)
    for node in list(tree.find_all(exp.In, *_COMPARISONS)):
        values = node.expressions if isinstance(node, exp.In) else [node.expression]
        values = [node.this, *values]
        for value in values if any(map(_is_number, values)) else []:
            if value.find(exp.Identifier, exp.Query):  # parameters of a lambda are no columns
                value.replace(number_of(value.copy()))


def _is_number(node: exp.Expr) -> bool:
    """Return whether an operand is a constant number."""
    inner = node.unnest()
    inner = inner.this if isinstance(inner, exp.Neg) else inner
    return isinstance(inner, exp.Literal) and not inner.is_string


@dataclass
class _Group:
    """Constants without a type, which have the same one of two types."""

    constants: list[exp.Expr]
    kinds: tuple[str, str]

    def set_type(self, place: int | None) -> None:
        """Give the constants one of the types, or none."""
        for i, one in enumerate(self.constants):
            inner = (one.this if isinstance(one, exp.Cast) else one).copy()
            typed = inner if place is None else _cast(inner, self.kinds[place])
            self.constants[i] = one.replace(typed)


@dataclass
class _StrictForm:
    """A statement that DuckDB refuses to bind where another mixes types; its result has no meaning.

    `open`: its constants without a type.
    """

    tree: exp.Query
    open: list[_Group]


def check_types(tree: exp.Query, bind: Callable[[str], object]) -> None:
    """Let DuckDB bind strict forms of an outer statement, as returned by `type_constants`.

    A date can be compared with dates and with texts, and a number with numbers and codes. So all of
    them are bound with one type, and then with the other if `bind` raises QueryError. If it raises
    again, each half of them is bound in this way, beside constants that have a type already and
    constants without a type: the last form has a type for each constant.

    Raises QueryError: that of `bind`, if the statement mixes types.
    """
    form = _strict_form(tree)
    todo = [form.open]
    while todo:
        groups, problem = todo.pop(), None
        for place in (0, 1):
            for group in groups:
                group.set_type(place)
            try:
                bind(form.tree.sql("duckdb", comments=False))
                break
            except QueryError as error:
                problem = error
        else:
            if problem is not None and len(groups) < 2:
                raise problem
            for group in groups:
                group.set_type(None)
            half = len(groups) // 2
            todo += [groups[half:], groups[:half]]


def _cast(value: exp.Expr, kind: str) -> exp.Cast:
    """Return a value, or that of a cast, with a type."""
    inner = value.this if isinstance(value, exp.Cast) else value
    return exp.Cast(this=inner, to=exp.DataType.build(kind))


def _strict_form(tree: exp.Query) -> _StrictForm:
    """Return the strict form of a statement.

    ASOF joins are other joins in it, because COALESCE would hide the inequality that they need.
    """
    found = tree.copy()
    codes: dict[tuple[int, str], list[exp.Expr]] = {}
    for node in reversed(list(found.walk())):  # operands come before their operations
        if isinstance(node, exp.Join) and node.args.get("method") == "ASOF":
            node.set("method", None)
        for name in _PARTS.get(type(node), ()):
            if node.args.get(name) is not None:
                truth = exp.Coalesce(this=node.args[name], expressions=[exp.true()])
                node.set(name, truth)
        code = number_operand(node)
        if code is not None:
            unknown = exp.Null()
            codes.setdefault((_scope(node), code.sql()), []).append(unknown)
            alike = exp.Coalesce(this=code, expressions=[unknown])
            same = exp.Is(this=alike, expression=exp.Null())
            node.replace(_cast(exp.Paren(this=same), "DOUBLE"))
        else:
            node.replace(_strict(node))
    for select in found.find_all(exp.Select):
        _compare_using(select)
    dates: dict[tuple[int, str], list[exp.Expr]] = {}
    for text in {id(text): text for text in found.find_all(exp.Literal)}.values():
        if _is_open_date(text):
            dates.setdefault(_operands(text), []).append(text)
    # Similar operands, which are likely to have the same type, come one after the other.
    choices = [_Group(codes[key], ("VARCHAR", "INTEGER")) for key in sorted(codes, key=_text)]
    choices += [_Group(dates[key], ("DATE", "VARCHAR")) for key in sorted(dates, key=_text)]
    return _StrictForm(found, choices)


def _text(key: tuple[int, str]) -> str:
    return key[1]


def _scope(node: exp.Expr) -> int:
    """Return a number of the part of a statement in which a name means the same as at a node."""
    return id(node.find_ancestor(exp.Lambda, exp.Query))


def _is_open_date(node: exp.Expr) -> bool:
    """Return whether a node is a date that has the type of the other operands."""
    is_text = isinstance(node, exp.Literal) and node.is_string
    return is_text and isinstance(node.parent, _MIXING) and _is_date(node.name)


def _operands(date: exp.Expr) -> tuple[int, str]:
    """Return the scope of a date and the operands with which it is mixed, as a key of both.

    Dates with the same operands, as in CASE day WHEN ... WHEN ... END, have the same type.
    """
    parent = date.parent
    if isinstance(parent, exp.If) and isinstance(parent.parent, exp.Case):
        return id(parent.parent), ""
    parts = parent.iter_expressions() if parent is not None else ()
    return _scope(date), " ".join(part.sql() for part in parts if not _is_open_date(part))


def _compare_using(select: exp.Select) -> None:
    """Let a SELECT compare the columns of USING of its first join in WHERE, too."""
    source, joins = select.args.get("from_"), select.args.get("joins") or []
    if source is None or not joins:
        return
    for name in joins[0].args.get("using") or []:
        one, other = (
            exp.column(name.copy(), exp.to_identifier(table.this.alias_or_name, quoted=True))
            for table in (source, joins[0])
        )
        select.where(_all_alike(one, [other]), copy=False)


def _strict(node: exp.Expr) -> exp.Expr:
    """Return a node whose operands need the same type, or the node itself."""
    if isinstance(node, exp.In) and node.expressions:
        return _all_alike(node.this, node.expressions)
    if isinstance(node, _COMPARISONS) and not isinstance(node.expression, exp.Any | exp.All):
        return _all_alike(node.this, [node.expression])
    if isinstance(node, exp.Nullif):
        return exp.Coalesce(this=node.this, expressions=[node.expression])
    if isinstance(node, exp.Lag | exp.Lead) and node.args.get("default") is not None:
        node.set("this", exp.Coalesce(this=node.this, expressions=[node.args["default"]]))
    return node


def _all_alike(value: exp.Expr, others: list[exp.Expr]) -> exp.Expr:
    """Return a condition that has no types if the types of the value and others differ."""
    alike = exp.Coalesce(this=value, expressions=others)
    return exp.Paren(this=exp.Is(this=alike, expression=exp.Null()))


def _is_date(text: str) -> bool:
    """Return whether a text is a date or a timestamp in ISO 8601 as DuckDB reads it."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?", text, re.ASCII):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
