"""Types over noised values: no text becomes a number or a date while a statement runs.

In `n = 'many'` and COALESCE(n, 'none'), DuckDB converts the text to a number when it computes a
row. That fails for most texts, and a trial may compute no such row. With texts of the type VARCHAR,
DuckDB refuses to mix types when it binds a statement, except in `=`, IN, NULLIF, the default of
LAG, USING, and conditions. `strict_form` has COALESCE in their place, in which DuckDB compares the
types.
"""

from __future__ import annotations

import re
from datetime import datetime

from sqlglot import exp

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
    as a number, and is missing if it is none.
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
            if value.find(exp.Column, exp.Query):
                number = exp.TryCast(this=value.copy(), to=exp.DataType.build("DOUBLE"))
                value.replace(number)


def _is_number(node: exp.Expr) -> bool:
    """Return whether an operand is a constant number."""
    inner = node.unnest()
    inner = inner.this if isinstance(inner, exp.Neg) else inner
    return isinstance(inner, exp.Literal) and not inner.is_string


def strict_form(tree: exp.Query) -> exp.Query:
    """Return a statement that DuckDB refuses to bind where `tree` mixes types.

    Its result has no meaning.
    """
    found = tree.copy()
    for node in reversed(list(found.walk())):  # operands come before their operations
        for name in _PARTS.get(type(node), ()):
            if node.args.get(name) is not None:
                truth = exp.Coalesce(this=node.args[name], expressions=[exp.true()])
                node.set(name, truth)
        node.replace(_strict(node))
    for select in found.find_all(exp.Select):
        _compare_using(select)
    return found


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
    alike = exp.Coalesce(this=value.copy(), expressions=[other.copy() for other in others])
    return exp.Paren(this=exp.Is(this=alike, expression=exp.Null()))


def _is_date(text: str) -> bool:
    """Return whether a text is a date or a timestamp in ISO 8601 as DuckDB reads it."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?", text, re.ASCII):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
