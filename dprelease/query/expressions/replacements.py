"""What to write instead of functions, operators and casts that expressions over one row lack.

The replacements are themselves allowed in expressions, with the names of the expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from dprelease.query import quoting
from dprelease.query.expressions.scalar import TIME_KINDS, Kind
from dprelease.schema.columns import Column

LONGEST = 300
"""Maximum number of characters of a replacement; a cut one could not be written."""

Columns = Mapping[str, Column]

_ANYWHERE, _AT_END = "{x} LIKE '%{part}%'", "{x} LIKE '%{part}'"
_LAST = (
    "{x} LIKE '%{compared}', which is about the last characters; as a key, CASE WHEN {x} LIKE "
    "'%{compared}' THEN '{compared}' ELSE 'other' END"
)
_TEXTS = "{condition}; to show another text, GROUP BY {x} and call the function in the SELECT list"
_FUNCTIONS = {
    "contains strpos instr position": _ANYWHERE,
    "ends_with suffix": _AT_END,
    "prefix": "starts_with({x}, '{part}')",
    "right": _LAST,
    "regexp_matches regexp_full_match regexp_extract regexp_like": "a pattern of LIKE, as in {x} "
    "LIKE 'a%' OR {x} LIKE '_b%', in which % stands for any characters and _ for one",
    "split_part string_split str_split": "substr({x}, 1, 3), or a pattern such as {x} LIKE 'a%'",
    "ltrim rtrim trim": "trim({x})",
    "replace translate reverse lpad rpad regexp_replace strip_accents md5 sha256": _TEXTS,
    "isoyear": "year(date_trunc('week', {x}) + INTERVAL 3 DAY)",
    "dayofmonth": "day({x})",
    "dayofweek weekday": "isodow({x}) % 7, from 0 for Sundays",
    "dayname": "isodow({x}), from 1 for Mondays",
    "monthname": "month({x})",
    "extract date_part": "a function of the part, as in hour({y})",
    "power": "a product, as in ({x}) * ({x}) for the square",
    "trunc": "floor({x}), or ceil({x}) for negative numbers",
    "sign": "CASE WHEN {x} > 0 THEN 1 WHEN {x} < 0 THEN -1 WHEN {x} = 0 THEN 0 END",
    "yearweek": "date_trunc('week', {x}), the first day of the week",
    "decade": "floor(year({x}) / 10)",
    "century": "floor((year({x}) + 99) / 100)",
    "millisecond microsecond": "second({x}), in whole seconds",
    "epoch_ms epoch_us epoch_ns": "epoch({x}), in seconds",
    "julian": "date_diff('day', DATE '2000-01-01', {x})",
    "era": "year({x}) > 0",
    "last_day": "date_trunc('month', {x}), the first day of the month",
    "to_days": "INTERVAL {x} DAY, as in d + INTERVAL {x} DAY",
    "to_hours": "INTERVAL {x} HOUR, as in t + INTERVAL {x} HOUR",
    "to_minutes": "INTERVAL {x} MINUTE, as in t + INTERVAL {x} MINUTE",
    "make_timestamp": "a constant, as in TIMESTAMP '2024-01-31 08:00:00'",
    "strptime try_strptime": "a constant, as in DATE '2024-01-31'; a column of texts that are "
    "dates is declared with `type: date` and its `format`",
    "array_contains list_contains": "{y} IN ({items})",
    "cast": "CAST({x} AS DATE)",
    "now today current_date current_timestamp": "a constant, as in DATE '2024-01-31'",
    "random rand": "conditions on columns: the rows of a sample would differ in each run",
    "isnan isinf": "{x} IS NULL: values that are no numbers are missing",
    "xor": "{x} <> {y}",
    "width_bucket": "floor({x} / 10) * 10, the lower end of a band",
}
FUNCTIONS = {name: template for names, template in _FUNCTIONS.items() for name in names.split()}
"""The replacement of each function, by its name. `x` and `y` are its first arguments, `part` is the
second one as a text, and `compared` the text with which the result is compared."""

_IN_SCHEMA = "; texts that can't be read so are missing"
_CASTS: dict[tuple[Kind, str], tuple[str, str]] = {
    (Kind.NUMBER, "text"): (
        "a number becomes a text after the noise only",
        "write {x} itself, as in {x} = 1; as a key, GROUP BY {x}, and cast it in the SELECT list",
    ),
    (Kind.BOOLEAN, "text"): (
        "a truth value becomes a text after the noise only",
        "write CASE WHEN {x} THEN 'yes' ELSE 'no' END",
    ),
    **{
        (kind, "text"): (
            "texts of dates have a format that the statement says",
            "write strftime({x}, '%Y-%m-%d')",
        )
        for kind in (Kind.DATE, Kind.TIMESTAMP)
    },
    (Kind.TEXT, "number"): (
        "a number needs declared bounds, and not every text is one",
        "declare a column with the type integer or number, and with lower and upper{computed}"
        + _IN_SCHEMA,
    ),
    **{
        (Kind.TEXT, kind): (
            f"not every text is {words}",
            f"declare a column with the type {kind}, and with its `format`{{computed}}"
            + _IN_SCHEMA,
        )
        for kind, words in (("date", "a date"), ("timestamp", "a time"))
    },
    (Kind.TEXT, "boolean"): ("not every text is a truth value", "compare it, as in {x} = 'yes'"),
    **{
        (kind, "timestamptz"): (
            "times have no zone here",
            "write the local time in the `time_zone` of the `source`, as in TIMESTAMP '2024-01-31 "
            "08:00:00'",
        )
        for kind in (Kind.TEXT, Kind.TIMESTAMP, Kind.DATE)
    },
    (Kind.NUMBER, "boolean"): ("a number is no condition", "write {x} <> 0"),
    (Kind.BOOLEAN, "number"): ("it has no cast to numbers", "write if({x}, 1, 0)"),
    (Kind.NUMBER, "number"): ("numbers are 64-bit floats", "write ROUND({x}{scale})"),
    (Kind.TIMESTAMP, "number"): ("a time is no number", "write epoch({x})"),
    (Kind.DATE, "number"): ("a date is no number", "write epoch({x})"),
    (Kind.TIMESTAMP, "time"): (
        "rows have no times of a day",
        "write its hour and minute, as in hour({x}) >= 8 OR hour({x}) = 7 AND minute({x}) >= 30",
    ),
}
"""Why a value of a kind has no cast to a group of types, and what to write instead."""


def cast_advice(node: exp.Cast, kind: Kind) -> tuple[str, str]:
    """Return why a cast of a value of a kind is not allowed, and what to write instead."""
    group, x = _group_of(node.to), node.this.unnest().sql("duckdb")
    other = f"{kind} has no cast to {node.to.sql('duckdb')}", "leave out the cast"
    reason, fix = _CASTS.get((kind, group), other)
    scale = node.to.expressions[1:]
    if (kind, group) == (Kind.NUMBER, "number") and not scale:
        fix = "write ROUND({x})" if node.to.this in exp.DataType.INTEGER_TYPES else "write {x}"
    is_column = isinstance(node.this.unnest(), exp.Column)
    fields = {
        "x": x,
        "scale": "".join(f", {one.sql('duckdb')}" for one in scale),
        "computed": "" if is_column else f", and `expression: {x}`",
    }
    return reason, fix.format(**fields)


def _group_of(target: exp.DataType) -> str:
    """Return the group of types to which a type of a cast belongs."""
    kind = TIME_KINDS.get(target.this.value)
    if kind is not None:
        return "date" if kind is Kind.DATE else "timestamp"
    groups = {"text": exp.DataType.TEXT_TYPES, "number": exp.DataType.NUMERIC_TYPES}
    return next((name for name, types in groups.items() if target.this in types), "") or (
        target.this.value.lower()
    )


def function_replacement(node: exp.Expr, name: str, columns: Columns) -> str:
    """Return what to write instead of a function; "" if nothing is near."""
    template = FUNCTIONS.get(name)
    if template is None:
        return ""
    first, second, *_ = [*node.iter_expressions(), exp.Null(), None]
    items = first.expressions if isinstance(first, exp.Array) else []
    x = first.sql("duckdb")
    return template.format(
        x=x,
        y=x if second is None else second.sql("duckdb"),
        part=_text_in_pattern(second),
        compared=_text_in_pattern(_compared_text(node)),
        condition=example_condition(first, columns),
        items=", ".join(one.sql("duckdb") for one in items) or "1, 2",
    )


def _compared_text(node: exp.Expr) -> Any:
    """Return the constant text with which a node is compared, if there is one."""
    around = node.parent
    if isinstance(around, exp.In) and around.expressions:
        return around.expressions[0]
    if not isinstance(around, exp.EQ | exp.NEQ):
        return None
    return around.expression if around.this is node else around.this


def _text_in_pattern(node: exp.Expr | None) -> str:
    """Return a constant text as a part of a pattern of LIKE; another text if it can't be one."""
    text = node.name if isinstance(node, exp.Literal) and node.is_string else ""
    return quoting.text(text)[1:-1] if text and not re.search("[%_]", text) else "abc"


def example_condition(node: exp.Expr, columns: Columns) -> str:
    """Return a condition on a value that expressions have, such as state = 'CT'."""
    x = node.sql("duckdb")
    column = columns.get(node.name) if isinstance(node, exp.Column) else None
    kind, values = getattr(column, "type", "cut"), getattr(column, "values", None)
    examples = {
        "integer": f"{x} = 1", "number": f"{x} = 1", "boolean": x,
        "date": f"{x} = DATE '2024-01-31'", "timestamp": f"{x} >= TIMESTAMP '2024-01-31 08:00:00'",
    }  # fmt: skip
    return examples.get(kind, f"{x} = {quoting.text(values[0] if values else 'abc')}")


def last_characters(node: exp.Expr) -> str:
    """Return what to write instead of the last characters of a text."""
    x, compared = node.this.sql("duckdb"), _text_in_pattern(_compared_text(node))
    return _LAST.format(x=x, compared=compared)


def syntax_replacement(node: exp.Expr, columns: Columns) -> str:
    """Return what to write instead of an operator or a list; "" if nothing is near."""
    rule = _SYNTAX.get(type(node))
    return "" if rule is None else rule(node, columns)


def _of_zone(node: Any, _: Columns) -> str:
    x = node.this.sql("duckdb")
    return f"{x} itself: times are local times of the `time_zone` of the `source` in the schema"


def _of_item(node: Any, _: Columns) -> str:
    """Return the replacement of x[1] and x[1:3]."""
    x, (item, *_others) = node.this.sql("duckdb"), node.expressions
    ends = [item.this, item.expression] if isinstance(item, exp.Slice) else [item, item]
    texts = [one.name if isinstance(one, exp.Literal) else "" for one in ends]
    if not all(re.fullmatch("[0-9]{1,4}", text) for text in texts):
        return f"substr({x}, 1, 2), with constants from 1 on; {x} LIKE '%abc' is about the end"
    # sqlglot counts single items from 0, unless it is told not to.
    shift = 0 if isinstance(item, exp.Slice) else 1 - (node.args.get("offset") or 0)
    first, last = (int(text) + shift for text in texts)
    return f"substr({x}, {max(first, 1)}, {max(last - first, 0) + 1})"


def _of_tuple(node: Any, _: Columns) -> str:
    """Return the replacement of (a, b) = (1, 2), and that of DISTINCT (a, b)."""
    around, parts = node.parent, node.expressions
    if isinstance(around, exp.EQ) and isinstance(around.expression, exp.Tuple):
        return equal_rows(around.this, [around.expression])
    if not isinstance(around, exp.Distinct):
        return "comparisons of single values, joined by AND and OR"
    names = ", ".join(part.sql("duckdb") for part in parts)
    return counted_groups(names)


def counted_groups(names: str) -> str:
    """Return a statement that counts the combinations of several keys that occur."""
    rows = f"SELECT {names}, COUNT(*) AS n FROM t GROUP BY {names}"
    return f"SELECT COUNT(*) FROM ({rows}) WHERE n > 10, with the name of the table for t"


def equal_rows(left: Any, rows: list[Any]) -> str:
    """Return the condition that several values are those of one of several rows; "" if unequal."""
    if not all(isinstance(one, exp.Tuple | exp.Paren) for one in rows):
        return ""
    found = []
    for row in rows:
        values = row.expressions if isinstance(row, exp.Tuple) else [row.this]
        if len(values) != len(left.expressions):
            return ""
        pairs = zip(left.expressions, values, strict=True)
        found.append(" AND ".join(f"{a.sql('duckdb')} = {b.sql('duckdb')}" for a, b in pairs))
    return " OR ".join(found if len(found) < 2 else (f"({one})" for one in found))


def _of_any(node: Any, _: Columns) -> str:
    """Return the replacement of x = ANY([1, 2])."""
    around, items = node.parent, node.this.unnest()
    if not isinstance(around, exp.EQ) or not isinstance(items, exp.Array):
        return ""
    other = around.this if around.expression is node else around.expression
    return f"{other.sql('duckdb')} IN ({', '.join(one.sql('duckdb') for one in items.expressions)})"


_METHODS = {
    "isin": "{x} IN ({items})",
    "isna isnull is_null": "{x} IS NULL",
    "notna notnull is_not_null": "{x} IS NOT NULL",
    "startswith": "{x} LIKE '{part}%'",
    "endswith": "{x} LIKE '%{part}'",
    "contains": "{x} LIKE '%{part}%'",
    "between": "{x} BETWEEN 1 AND 2",
    "mean median sum min max std count": "a constant: a condition reads one row",
    "lower upper strip len": "lower({x}), upper({x}), trim({x}) or length({x})",
}


def _of_method(node: Any, _: Columns) -> str:
    """Return the condition in SQL that a method of pandas stands for, such as x.isin([1, 2])."""
    call, column = node.expression, node.this.find(exp.Identifier)
    found = [text for names, text in _METHODS.items() if call.name.lower() in names.split()]
    if not found or column is None:
        return ""
    values = call.expressions[0] if call.expressions else None
    items = values.expressions if isinstance(values, exp.Array | exp.Tuple) else []
    return found[0].format(
        x=column.name,
        items=", ".join(one.sql("duckdb") for one in items) or "1, 2",
        part=_text_in_pattern(values),
    )


def _of_pattern(node: Any, _: Columns) -> str:
    return FUNCTIONS["regexp_matches"].format(x=node.this.sql("duckdb"))


_SYNTAX: dict[type, Callable[[Any, Columns], str]] = {
    exp.AtTimeZone: _of_zone, exp.Bracket: _of_item, exp.Tuple: _of_tuple, exp.Any: _of_any,
    exp.Glob: _of_pattern, exp.Dot: _of_method, exp.SimilarTo: _of_pattern,
    exp.Collate: lambda node, _: f"lower({node.this.sql('duckdb')})",
    exp.IntDiv: lambda node, _: (
        f"floor({node.this.sql('duckdb')} / {node.expression.sql('duckdb')})"
    ),
    **dict.fromkeys(
        (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseNot),
        lambda *_: "AND, OR or NOT for conditions; x % 2 is the last bit of a number",
    ),
    exp.Escape: lambda node, _: f"{node.this.sql('duckdb')}, in which _ is any character",
}  # fmt: skip
