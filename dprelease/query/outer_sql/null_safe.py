"""Arithmetic over noised values that yields NULL where a result is not a finite number.

A run must not fail after it is charged, so no operation over noised values may raise an error. Each
operation that can fail becomes a macro. The macro evaluates its operands once, outside of TRY,
which takes no aggregates, window functions or sub-queries; then it computes the operation inside of
TRY.
"""

from __future__ import annotations

from sqlglot import exp

_BINARY = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
}
_ONE = (exp.Abs, exp.Cbrt, exp.Ceil, exp.Exp, exp.Floor, exp.Ln, exp.Log, exp.Round, exp.Sqrt)
_OPERATIONS: dict[tuple[type[exp.Expr], int], str] = {
    **{(kind, 2): f"x[1] {operator} x[2]" for kind, operator in _BINARY.items()},
    **{(kind, 1): f"{kind.key}(x[1])" for kind in (*_ONE, exp.Trunc)},
    (exp.Neg, 1): "-x[1]",
    (exp.Log, 2): "log(x[1], x[2])",
    (exp.Pow, 2): "pow(x[1], x[2])",
    (exp.Round, 2): "round(x[1], b)",  # DuckDB rounds decimals only to constant places
}
"""The operations that can fail, by node type and number of operands; `x` is their row."""

_OPERANDS = ("this", "expression", "decimals")
"""The arguments of these operations that are operands, in the order in which they are written."""

_MACRO = (
    "CREATE MACRO {name}({operands}) AS list_transform([row({operands})], lambda x: "
    "list_filter([TRY({operation})], lambda number: isfinite(number))[1])[1]"
)
SETTINGS = (
    "SET ieee_floating_point_ops = false",
    "SET error_on_division_by_zero = false",
    "SET scalar_subquery_error_on_multiple_rows = false",
)
"""Settings of DuckDB with which a division by zero is NULL, and not infinity or an error, and a
sub-query in the place of a value has its first row."""

_DATE_MACRO = (
    "CREATE MACRO dprelease_date(a, b, c) AS list_transform([row(a, b, c)], lambda x: list_filter("
    "[TRY(make_date(CAST(x[1] AS BIGINT), CAST(x[2] AS BIGINT), CAST(x[3] AS BIGINT)))], "
    "lambda day: year(day) BETWEEN 1 AND 9999)[1])[1]"
)
"""A date from its parts, or NULL if there is no such date, or none that Python has."""

_ADDEND_MACRO = (
    "CREATE MACRO dprelease_addend(a) AS list_filter([a], lambda number: "
    "coalesce(TRY_CAST(number AS DOUBLE) BETWEEN -1e32 AND 1e32, true))[1]"
)
"""A number that can be added to others and squared, or NULL for a number that is too large.

Dates and timestamps are no numbers, and are not changed."""
_SUMS = (
    exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Sum, exp.Variance, exp.VariancePop,
)  # fmt: skip


def macros() -> list[str]:
    """Return the statements that define the macros."""
    return [
        _DATE_MACRO,
        _ADDEND_MACRO,
        *(
            _MACRO.format(
                name=_macro_name(kind, count), operands=", ".join("ab"[:count]), operation=operation
            )
            for (kind, count), operation in _OPERATIONS.items()
        ),
    ]


def _macro_name(kind: type[exp.Expr], count: int) -> str:
    """Return the name of the macro of an operation with a number of operands."""
    return f"dprelease_{kind.key}_{count}"


def replace_fallible(tree: exp.Query) -> None:
    """Replace the operations of a query that can fail by macros, and CAST by TRY_CAST.

    Operations on constants alone, too, because an engine may compute them only for some rows.
    """
    for total in reversed(list(tree.find_all(*_SUMS))):
        _limit_addends(total)
    for node in reversed(list(tree.walk())):  # operands come before their operations
        node.replace(_null_safe(node))


def _limit_addends(node: exp.Expr) -> None:
    """Let a sum, mean or variance of computed values be NULL if one of them is too large."""
    distinct = node.this if isinstance(node.this, exp.Distinct) else None
    value = node.this if distinct is None else distinct.expressions[0]
    if not isinstance(value, exp.Expr) or not _reads_values(value):
        return
    whole: exp.Expr = node
    while isinstance(whole.parent, exp.Filter | exp.Window) and whole.arg_key == "this":
        whole = whole.parent
    all_values = _count_of_values(whole, node)
    value.replace(exp.Anonymous(this="dprelease_addend", expressions=[value.copy()]))
    same = exp.EQ(this=_count_of_values(whole, node), expression=all_values)
    place = exp.Placeholder()
    whole.replace(place)
    place.replace(exp.Case(ifs=[exp.If(this=same, true=whole)]))


def _count_of_values(whole: exp.Expr, node: exp.Expr) -> exp.Expr:
    """Return an aggregate, with its FILTER and OVER, that counts the values of another one."""
    count = exp.Count(this=node.this.copy(), big_int=True)
    if whole is node:
        return count
    around = whole.copy()
    inner = around
    while inner.key != node.key:
        inner = inner.this
    inner.replace(count)
    return around


_OF_CONSTANTS = (exp.Limit, exp.Offset, exp.Fetch, exp.Interval, exp.WindowSpec, exp.Round)
"""Clauses in which DuckDB accepts constants alone; they are computed in the trial."""


def _null_safe(node: exp.Expr) -> exp.Expr:
    """Return the replacement of a node, or the node itself."""
    if isinstance(node, exp.TsOrDsToDate):
        return exp.TryCast(this=node.this, to=exp.DataType.build("DATE"))
    if isinstance(node, exp.DateFromParts):
        parts = [node.args[name] for name in ("year", "month", "day")]
        return exp.Anonymous(this="dprelease_date", expressions=parts)
    if type(node) is exp.Cast:
        return exp.TryCast(this=node.this, to=node.args["to"])
    operands = [node.args[name] for name in _OPERANDS if node.args.get(name) is not None]
    others = [part for part in node.iter_expressions() if part not in operands]
    if (type(node), len(operands)) not in _OPERATIONS or others:
        return node
    is_constant = not _reads_values(node)
    if is_constant and (isinstance(node, exp.Neg) or node.find_ancestor(*_OF_CONSTANTS)):
        return node
    return exp.Anonymous(this=_macro_name(type(node), len(operands)), expressions=operands)


def _reads_values(node: exp.Expr) -> bool:
    """Return whether an expression contains more than constants."""
    return any(isinstance(part, exp.Column | exp.Func | exp.Query) for part in node.walk())
