"""Errors of expressions: parts that no rule allows, and values of another kind."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.query.expressions.nodes import (
    LONGEST_QUOTE,
    is_constant,
    not_allowed_error,
    unknown_function_error,
    unwritable_function,
)
from dprelease.query.expressions.replacements import (
    LONGEST,
    Columns,
    equal_rows,
    function_replacement,
    last_characters,
    syntax_replacement,
)
from dprelease.query.expressions.scalar import ALLOWED, Kind


def refusal_error(node: exp.Expression, place: Place, columns: Columns) -> QueryError:
    """Return the error of a node without a rule: a subquery, an aggregate, or other syntax."""
    if isinstance(node, exp.Query | exp.Exists | exp.Subquery):
        return QueryError("DP-WHERE-002", place=place)
    if isinstance(node, exp.AggFunc | exp.Window):
        return QueryError("DP-WHERE-003", place=place)
    foreign = unwritable_function(node)
    if foreign:
        return unknown_function_error(foreign.lower(), ALLOWED, place)
    text = node.sql("duckdb")
    name = text.split("(")[0][:LONGEST_QUOTE].lower()
    if isinstance(node, exp.Func) and name.isidentifier():  # a function, not an operator
        write = function_replacement(node, name, columns)
        return unknown_function_error(name, ALLOWED, place, write if len(write) < LONGEST else "")
    write = syntax_replacement(node, columns)
    advice = f"write {write}" if 0 < len(write) < LONGEST else ""
    return not_allowed_error(node, place, advice=advice)


def qualified_error(node: exp.Column, place: Place) -> QueryError:
    """Return the error of a name with points, such as people.age or day.dt.year."""
    first, *_, last = (part.name for part in node.parts)
    is_part = last in ALLOWED.split(", ")
    advice = f"write {last}({first})" if is_part else f"write {last}"
    return not_allowed_error(node, place, "names have no points here", advice)


def chain_error(node: exp.Expression, place: Place) -> QueryError:
    """Return the error of a chain of comparisons, such as 10 < age < 20."""
    first, last = node.this, node.expression
    rest = type(node)(this=first.expression.copy(), expression=last.copy())
    advice = f"write {first.sql('duckdb')} AND {rest.sql('duckdb')}"
    because = "it compares the result of the first comparison"
    return not_allowed_error(node, place, because, advice if len(advice) < LONGEST else "")


def in_error(node: exp.In, place: Place, *, is_query: bool) -> QueryError:
    """Return the error of IN with anything but constants, or with a sub-query."""
    if is_query:
        return QueryError("DP-WHERE-002", place=place)
    x, items = node.this.sql("duckdb"), node.expressions
    known = [one for one in items if not isinstance(one, exp.Null)]
    is_negated = isinstance(node.parent, exp.Not)
    other = [f"{x} = {item.sql('duckdb')}" for item in known]
    if not items:
        because, write = "its list is empty", "FALSE, or list constants"
    elif isinstance(node.this, exp.Tuple):
        because, write = "it compares several values at once", equal_rows(node.this, items)
    elif not all(map(is_constant, known)):
        because, write = "its list has other values than constants", " OR ".join(other)
    else:
        because = "a comparison with NULL is never true"
        because += ", so it is true for no row" if is_negated else ""
        listed = f"{x}{' NOT' * is_negated} IN ({', '.join(one.sql('duckdb') for one in known)})"
        tested = f"{x} IS NOT NULL" if is_negated else f"{x} IS NULL"
        parts = [*([listed] if known else []), tested]
        write, is_negated = (" AND " if is_negated else " OR ").join(parts), False
    part = node.parent if isinstance(node.parent, exp.Not) else node
    write = f"NOT ({write})" if is_negated and write and items else write
    advice = f"write {write}" if 0 < len(write) < LONGEST else ""
    return not_allowed_error(part, place, because, advice)


def like_error(node: exp.Expression, place: Place) -> QueryError:
    """Return the error of LIKE without a constant pattern."""
    x, pattern = node.this.sql("duckdb"), node.expression
    patterns = pattern.this.unnest() if isinstance(pattern, exp.Any | exp.All) else None
    advice = f"write a constant, as in {x} LIKE 'a%'; starts_with(a, b) compares two texts"
    if isinstance(patterns, exp.Tuple | exp.Array):
        each = [f"{x} LIKE {one.sql('duckdb')}" for one in patterns.expressions]
        word = " OR " if isinstance(pattern, exp.Any) else " AND "
        advice = f"write {word.join(each)}" if len(word.join(each)) < LONGEST else advice
    return not_allowed_error(node, place, "its pattern is no constant", advice)


def substring_error(node: exp.Expression, place: Place) -> QueryError:
    """Return the error of substr or left with other places than constants from 1 on."""
    x, start = node.this.sql("duckdb"), node.args.get("start")
    advice = f"write substr({x}, 1, 2) or left({x}, 2)"
    if isinstance(start, exp.Neg):
        advice = f"write {last_characters(node)}"
    return not_allowed_error(node, place, "its places are constants from 1 on", advice)


def wrong_kind_error(node: exp.Expression, wanted: Kind, found: Kind, place: Place) -> QueryError:
    """Return the error of a value of another kind than a function or an operator needs."""
    around = node.parent
    while isinstance(around, exp.TsOrDsToDate | exp.Paren):
        around = around.parent
    what, part = (one.sql("duckdb")[:LONGEST_QUOTE] for one in (around or node, node))
    declared = f"as {wanted}, with its `format`" if wanted in (Kind.DATE, Kind.TIMESTAMP) else "so"
    how = f"use a column that is {wanted}, or declare this one {declared}"
    if wanted is Kind.NUMBER and found in (Kind.DATE, Kind.TIMESTAMP):
        how = f"use epoch({part}) or a difference such as date_diff('day', a, b)"
        if isinstance(around, exp.Add | exp.Sub):
            sign, other = "-" if isinstance(around, exp.Sub) else "+", around.expression
            days = other.name if isinstance(other, exp.Literal) and other.is_int else "3"
            how = f"write {part} {sign} INTERVAL {days} DAY, or {how.removeprefix('use ')}"
    if wanted is Kind.TEXT and found in (Kind.DATE, Kind.TIMESTAMP):
        how = f"write strftime({part}, '%Y-%m-%d') for its text, or compare it with dates"
    if (wanted, found) == (Kind.TEXT, Kind.NUMBER):
        how = f"compare it with numbers, as in {part} BETWEEN 10 AND 19"
    if (wanted, found) == (Kind.NUMBER, Kind.BOOLEAN):
        how = f"write if({node.unnest().sql('duckdb')[:LONGEST_QUOTE]}, 1, 0)"
    fields: dict[str, Any] = {
        "what": what,
        "part": part,
        "wanted": wanted,
        "found": found,
        "how": how,
    }
    return QueryError("DP-WHERE-010", place=place, **fields)
