"""Arithmetic over noised values that yields NULL where a result is not a finite number.

A run must not fail after it is charged, so no operation over noised values may raise an error. Each
operation that can fail becomes a macro. The macro evaluates its operands once, outside of TRY,
which takes no aggregates, window functions or sub-queries; then it computes the operation inside of
TRY. Other functions are written in the same way where they are used. A sub-query in the place of
one value is NULL if it has several rows.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from dprelease.query.outer_sql.functions import SCALAR_NAMES, SCALARS, function_name, words
from dprelease.query.sql_rewrites.unanswerable import refuse

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

_OPERATORS = (
    exp.BitwiseAnd, exp.BitwiseLeftShift, exp.BitwiseOr, exp.BitwiseRightShift, exp.DateAdd,
    exp.DateSub, exp.SimilarTo,
)  # fmt: skip
TOTAL = words("""
    coalesce concat concat_ws contains day dayname dayofweek dayofyear ends_with extract
    greatest hash if ifnull isodow least length lower month monthname nullif quarter row
    starts_with struct_pack trim typeof upper week year
""")
"""The functions that can't fail for any value."""

FINITE = words(SCALARS["numbers"]) - words(
    "bin bit_count format_bytes isfinite isinf isnan to_base to_hex xor"
) | words("""
    list_avg list_distance list_dot_product list_entropy list_inner_product list_kurtosis
    list_product list_sem list_skewness list_stddev_pop list_stddev_samp list_sum list_var_pop
    list_var_samp
""")
"""The functions whose results are numbers, which are missing if they are infinite."""

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

_FINITE_MACRO = (
    "CREATE MACRO dprelease_finite(a) AS list_filter([a], lambda number: isfinite(number))[1]"
)
_ADDEND_MACRO = (
    "CREATE MACRO dprelease_addend(a) AS list_filter([a], lambda number: "
    "coalesce(TRY_CAST(number AS DOUBLE) BETWEEN -1e32 AND 1e32, true))[1]"
)
"""A number that can be added to others and squared, or NULL for a number that is too large.

Dates and timestamps are no numbers, and are not changed."""
_NUMBER_MACRO = (
    "CREATE MACRO dprelease_number(a) AS list_transform([a], lambda x: CASE WHEN x IS NOT NULL "
    "THEN coalesce(TRY_CAST(x AS DOUBLE), 'nan'::DOUBLE) END)[1]"
)
"""A text as a number that is compared with constants; NaN, which differs from them, if it is none.

With NULL, `code <> 9` would leave out the code A."""
_SUMS = words("""
    avg corr covar_pop covar_samp kurtosis kurtosis_pop regr_avgx regr_avgy regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem skewness stddev stddev_pop stddev_samp sum
    var_pop var_samp variance
""")
"""The aggregates that add numbers, which could become too large."""


def macros() -> list[str]:
    """Return the statements that define the macros."""
    return [
        _DATE_MACRO,
        _ADDEND_MACRO,
        _FINITE_MACRO,
        _NUMBER_MACRO,
        *(
            _MACRO.format(
                name=_macro_name(kind, count), operands=", ".join("ab"[:count]), operation=operation
            )
            for (kind, count), operation in _OPERATIONS.items()
        ),
    ]


def number_of(value: exp.Expr) -> exp.Expr:
    """Return the number that a value, which may be a text, is in a comparison with a number."""
    return exp.Anonymous(this="dprelease_number", expressions=[value])


def number_operand(node: exp.Expr) -> exp.Expr | None:
    """Return the value of which a node is the number, as in `number_of`, or None."""
    is_number = isinstance(node, exp.Anonymous) and node.name == "dprelease_number"
    return node.expressions[0] if is_number else None


def _macro_name(kind: type[exp.Expr], count: int) -> str:
    """Return the name of the macro of an operation with a number of operands."""
    return f"dprelease_{kind.key}_{count}"


def replace_fallible(tree: exp.Query) -> None:
    """Replace the operations of a query that can fail by macros, and CAST by TRY_CAST.

    Operations on constants alone, too, because an engine may compute them only for some rows.
    """
    for node in reversed(list(tree.find_all(exp.AnonymousAggFunc))):
        _replace_macro(node)
    for total in reversed(list(tree.find_all(exp.AggFunc))):
        if function_name(total) in _SUMS:
            _limit_addends(total)
        elif function_name(total) == "product":
            whole = _with_clauses(total)
            finite = exp.Anonymous(this="dprelease_finite", expressions=[whole.copy()])
            whole.replace(finite)
    for part in reversed(list(tree.walk())):  # operands come before their operations
        part.replace(_null_safe(part))


def _limit_addends(node: exp.Expr) -> None:
    """Let a sum, mean or variance of computed values be NULL if one of them is too large."""
    arguments = [one for one in node.iter_expressions() if not isinstance(one, exp.Order)]
    values = [one.expressions[0] if isinstance(one, exp.Distinct) else one for one in arguments]
    if not any(map(_reads_values, values)):
        return
    whole = _with_clauses(node)
    places = range(len(values))
    before = [_count_of_values(whole, node, place) for place in places]
    for value in values:
        value.replace(exp.Anonymous(this="dprelease_addend", expressions=[value.copy()]))
    after = [_count_of_values(whole, node, place) for place in places]
    same = [exp.EQ(this=a, expression=b) for a, b in zip(after, before, strict=True)]
    place = exp.Placeholder()
    whole.replace(place)
    place.replace(exp.Case(ifs=[exp.If(this=exp.and_(*same, copy=False), true=whole)]))


def _with_clauses(node: exp.Expr) -> exp.Expr:
    """Return an aggregate with its FILTER and OVER."""
    while isinstance(node.parent, exp.Filter | exp.Window) and node.arg_key == "this":
        node = node.parent
    return node


def _count_of_values(whole: exp.Expr, node: exp.Expr, place: int) -> exp.Expr:
    """Return an aggregate, with its FILTER and OVER, that counts the values of an argument."""
    argument = list(node.iter_expressions())[place]
    return _with_same_clauses(exp.Count(this=argument.copy(), big_int=True), whole, node)


def _with_same_clauses(aggregate: exp.Expr, whole: exp.Expr, node: exp.Expr) -> exp.Expr:
    """Return an aggregate with the FILTER and OVER that `node` has in `whole`."""
    if whole is node:
        return aggregate
    around = whole.copy()
    inner = around
    while inner.key != node.key:
        inner = inner.this
    inner.replace(aggregate)
    return around


def _replace_macro(node: exp.AnonymousAggFunc) -> None:
    """Replace an aggregate that is a macro of DuckDB, with its FILTER and OVER."""
    found = _without_macros(node)
    if found is node:
        return
    whole, place = _with_clauses(node), exp.Paren(this=found)
    for part in list(place.find_all(exp.AggFunc)):
        part.replace(_with_same_clauses(part.copy(), whole, node))
    whole.replace(place)


def _without_macros(node: exp.AnonymousAggFunc) -> exp.Expr:
    """Return an aggregate that is a macro of DuckDB by aggregates that can't fail.

    The geometric mean of numbers that are not all above 0 is NULL.
    """
    name, values = function_name(node), node.expressions
    if name in ("geomean", "geometric_mean") and len(values) == 1:
        log = exp.Ln(this=values[0])
        all_above = exp.EQ(
            this=exp.Count(this=log.copy(), big_int=True),
            expression=exp.Count(this=values[0].copy(), big_int=True),
        )
        mean = exp.Exp(this=exp.Avg(this=log))
        return exp.Case(ifs=[exp.If(this=all_above, true=mean)])
    if name in ("weighted_avg", "wavg") and len(values) == 2:
        value, weight = values
        known = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        weights = exp.Sum(this=exp.Case(ifs=[exp.If(this=known, true=weight.copy())]))
        total = exp.Sum(this=exp.Mul(this=_in_parentheses(value), expression=weight))
        return exp.Paren(this=exp.Div(this=total, expression=weights))
    return node


_OF_CONSTANTS = (exp.Limit, exp.Offset, exp.Fetch, exp.Interval, exp.WindowSpec, exp.Round)
"""Clauses in which DuckDB accepts constants alone; they are computed in the trial."""


def _null_safe(node: exp.Expr) -> exp.Expr:
    """Return the replacement of a node, or the node itself."""
    if isinstance(node, exp.Try):
        return _in_parentheses(node.this)
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
        if not _may_raise(node):
            return node
        finite = function_name(node) in FINITE
        return (
            exp.Anonymous(this="dprelease_finite", expressions=[_tried(node)])
            if finite
            else _tried(node)
        )
    is_constant = not _reads_values(node)
    if is_constant and (isinstance(node, exp.Neg) or node.find_ancestor(*_OF_CONSTANTS)):
        return node
    return exp.Anonymous(this=_macro_name(type(node), len(operands)), expressions=operands)


def _may_raise(node: exp.Expr) -> bool:
    """Return whether a function or an operator could raise an error for some values."""
    if isinstance(node, _OPERATORS):
        return True
    is_scalar = isinstance(node, exp.Func) and not isinstance(node, exp.AggFunc)
    return is_scalar and function_name(node) in SCALAR_NAMES - TOTAL and not node.find(exp.Lambda)


def _tried(node: exp.Expr) -> exp.Expr:
    """Return a function that is NULL where it would raise an error, for operands outside of TRY."""
    inner, operands = node.copy(), list[exp.Expr]()
    for part in list(inner.iter_expressions()):
        if part.find(exp.Column, exp.Func, exp.Query, exp.Identifier):
            operands.append(part.copy())
            part.replace(_item(exp.column("x"), len(operands)))
    if not operands:
        if node.find_ancestor(*_OF_CONSTANTS):
            return node
        operands.append(exp.Literal.number(1))  # DuckDB may compute constants only for some rows
    row = exp.Array(expressions=[exp.Anonymous(this="row", expressions=operands)])
    function = exp.Lambda(
        this=exp.Try(this=inner),
        expressions=[exp.to_identifier("x")],
        colon=True,  # the form with an arrow is deprecated, and older versions write it otherwise
    )
    return _item(exp.Anonymous(this="list_transform", expressions=[row, function]), 1)


def _item(values: exp.Expr, place: int) -> exp.Expr:
    """Return an item of a list or of a row."""
    return exp.Bracket(this=values, expressions=[exp.Literal.number(place)], offset=1)


def _in_parentheses(node: exp.Expr) -> exp.Expr:
    """Return a node that binds as one operand."""
    return node if isinstance(node, exp.Column | exp.Literal | exp.Paren) else exp.Paren(this=node)


def _reads_values(node: exp.Expr) -> bool:
    """Return whether an expression contains more than constants."""
    return any(isinstance(part, exp.Column | exp.Func | exp.Query) for part in node.walk())


_SELECTING = ("joins", "where", "having", "qualify", "limit", "distinct", "group")


def check_scalar_queries(tree: exp.Query, tables: Collection[str]) -> None:
    """Let a sub-query in the place of a value be NULL if it has several rows.

    `tables`: the noised tables with a row for each key.

    Raises QueryError: DP-SQL-006 for a sub-query that has all rows of such a table.
    """
    names = {name.casefold() for name in tables}
    ctes = {cte.alias.casefold(): cte.this for cte in tree.find_all(exp.CTE)}
    for node in list(tree.find_all(exp.Subquery)):
        if isinstance(node.parent, exp.Subquery | None) or _is_table(node):
            continue
        query = node.unnest()
        if _has_all_rows(query, names, ctes):
            reason = "a value is needed, and the sub-query has a row for each key"
            refuse(node, reason, "write an aggregate, as in (SELECT MAX(n) FROM t), or a condition")
        if not _has_one_row(query):
            node.set("this", _one_or_null(query))


def _is_table(node: exp.Subquery) -> bool:
    """Return whether a sub-query stands in a place where it may have several rows."""
    if isinstance(node.parent, exp.From | exp.Join):
        return node.arg_key == "this"
    is_part = isinstance(node.parent, exp.All | exp.Any | exp.Exists | exp.SetOperation | exp.CTE)
    return is_part or node.arg_key == "query"  # IN (SELECT ...)


def _has_all_rows(query: exp.Expr, names: set[str], ctes: dict[str, exp.Expr]) -> bool:
    """Return whether a query certainly has a row for each row of a table with keys."""
    seen: set[str] = set()
    while isinstance(query, exp.Select):
        source = query.args.get("from_")
        if source is None or any(query.args.get(name) for name in _SELECTING) or _aggregates(query):
            return False
        query = source.this
        if isinstance(query, exp.Subquery):
            query = query.unnest()
        elif isinstance(query, exp.Table):
            name = query.name.casefold()
            if name in names:
                return True
            if name not in ctes or name in seen:
                return False
            seen.add(name)
            query = ctes[name]
    return False


def _aggregates(select: exp.Select) -> bool:
    """Return whether the SELECT list of a query has aggregates, except those of windows."""
    return any(
        node.find_ancestor(exp.Window, exp.Query) is select
        for item in select.expressions
        for node in item.find_all(exp.AggFunc)
    )


def _has_one_row(query: exp.Expr) -> bool:
    """Return whether a query has one row at most: an aggregate of all rows, or LIMIT 1."""
    limit = query.args.get("limit")
    if isinstance(limit, exp.Limit) and limit.expression == exp.Literal.number(1):
        return True
    return isinstance(query, exp.Select) and not query.args.get("group") and _aggregates(query)


def _one_or_null(query: exp.Expr) -> exp.Select:
    """Return a query for the only row of a query; its value is NULL if there are several rows."""
    count = exp.LTE(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(1))
    first = exp.First(this=exp.Columns(this=exp.Star()))
    alias = exp.TableAlias(this=exp.to_identifier("dprelease_rows"))
    value = exp.Case(ifs=[exp.If(this=count, true=first)])
    source = exp.From(this=exp.Subquery(this=query, alias=alias))
    return exp.Select(expressions=[value], from_=source)
