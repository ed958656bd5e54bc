"""Parse a statement that is one query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects import DuckDB

from dprelease.query.expressions.nodes import stop_text, unwritable_function
from dprelease.query.expressions.predicate import (
    QUERY_TOKENS,
    STATEMENT_TOKENS,
    keywords_without,
)
from dprelease.query.outer_sql.functions import (
    LEFT_OUT,
    NAMES,
    NOT_PURE,
    ZONES,
    function_name,
    written_name,
)
from dprelease.query.outer_sql.syntax import may_fail
from dprelease.query.select_nodes import LONGEST, is_interval, quoted, refuse
from dprelease.query.sql_functions import suggest_functions
from dprelease.query.sql_rewrites.unanswerable import refuse_unanswerable
from dprelease.schema.table import Table

LENGTH_LIMIT = 10_000
DEPTH_LIMIT = 100
PIVOTED = "PIVOT or UNPIVOT"
INSTEAD_OF_PIVOT = (
    "write a column for each value, as in SELECT state, COUNT(*) FILTER (WHERE sex = 'F') AS women "
    "FROM people GROUP BY state; or GROUP BY both keys, and pivot the answer"
)
_TIMES = ("date", "timestamp", "timestampntz", "timestamptz", "timestampltz", "datetime")
_UNITS = "year quarter month week day hour minute second".upper().split()
_PIVOT = re.compile(r"\s*(UN)?PIVOT\b", re.IGNORECASE)
"""The beginning of a statement that sqlglot parses only without ORDER BY and LIMIT."""


class PositionsFromOne(DuckDB):  # type: ignore[misc]
    """DuckDB's queries, with the positions of items as they are written: `l[1]` is the first."""

    INDEX_OFFSET = 0

    class Tokenizer(DuckDB.Tokenizer):  # type: ignore[misc]
        KEYWORDS: ClassVar = keywords_without(STATEMENT_TOKENS - QUERY_TOKENS)


def parse(text: str) -> exp.Query:
    """Return the tree of a statement that is one query."""
    if len(text) > LENGTH_LIMIT:
        refuse("DP-SQL-001", problem=f"it is longer than {LENGTH_LIMIT} characters")
    broken, is_pivot = "", False
    try:
        trees = sqlglot.parse(text, read=PositionsFromOne)
        depth = 0 if not trees or trees[0] is None else _depth(trees[0])
    except (sqlglot.errors.SqlglotError, RecursionError) as problem:
        broken = _problem_text(problem)
        is_pivot = _PIVOT.match(text) is not None
    if broken and is_pivot:
        refuse("DP-SQL-006", name=PIVOTED, nearest=INSTEAD_OF_PIVOT)
    if broken:
        refuse("DP-SQL-001", problem=broken)
    if depth > DEPTH_LIMIT:
        refuse("DP-SQL-001", problem="it is nested too deeply")
    if any(tree is not None and tree.find(exp.Pivot) for tree in trees):
        refuse("DP-SQL-006", name=PIVOTED, nearest=INSTEAD_OF_PIVOT)
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        refuse("DP-SQL-001", problem="it is not one SELECT statement")
    foreign = unwritable_function(trees[0])
    if foreign:
        name = f"The function {foreign} with these arguments"
        refuse("DP-SQL-006", name=name, nearest=suggest_functions(foreign))
    _refuse_other_dialects(trees[0])
    _refuse_wrong_dates(trees[0])
    for item in trees[0].find_all(exp.Bracket):
        item.set("offset", 1)
    return trees[0]


def _problem_text(problem: Exception) -> str:
    """Return why the parser stopped, and where."""
    is_known = "number of provided arguments" not in str(problem)
    what = "can't be parsed as SQL" if is_known else "has a function with too many arguments"
    return f"it {what}{stop_text(problem)}"


def _refuse_other_dialects(tree: exp.Query) -> None:
    """Refuse functions of other databases that sqlglot reads, with what DuckDB has instead."""
    for node in tree.find_all(exp.Func):
        name, fix = _of_another_dialect(node)
        if fix:
            name = f"The function {name} of other databases"
            refuse("DP-SQL-006", name=name, nearest=f"write {fix}")


def _of_another_dialect(node: exp.Func) -> tuple[str, str]:
    """Return the name of another database's function, and what to write instead; "" for others."""
    named = isinstance(node, exp.Anonymous)
    arguments = node.expressions if named else [*node.iter_expressions()]
    x, y, unit, *_ = [*map(quoted, arguments), "x", "y", "day"]
    if isinstance(node, exp.TimestampDiff | exp.DatetimeDiff):
        fix = f"date_diff('{unit.lower()}', {y}, {x}), the number of its units that begin between "
        return "TIMESTAMP_DIFF", f"{fix}the two times"
    if isinstance(node, exp.SafeDivide):
        return "SAFE_DIVIDE", f"{x} / {y}, which is NULL where {y} is 0"
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):  # BigQuery writes the unit last
        is_last = isinstance(node.this, exp.Column) and x.upper() in _UNITS
        is_last = is_last and y.upper() not in _UNITS
        return "DATE_TRUNC", f"date_trunc('{x.lower()}', {y.lower()})" if is_last else ""
    name = written_name(node) if named else ""
    if name == "DIV0" and len(arguments) == 2:
        return name, f"COALESCE({x} / {y}, 0)"
    return name, f"IF({', '.join(map(quoted, arguments))})" if name == "IFF" else ""


def _refuse_wrong_dates(tree: exp.Query) -> None:
    """Refuse constants such as DATE '2024-02-31', for which DuckDB fails where it reads them."""
    for node in tree.find_all(exp.Cast):
        text = node.this.name if isinstance(node.this, exp.Literal) else ""
        found = re.match(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)", text, re.ASCII)
        if not found or isinstance(node, exp.TryCast) or not node.to.is_type(*_TIMES):
            continue
        try:
            date(*map(int, found.groups()))
        except ValueError:
            name = f"'{text[:LONGEST]}', which is no day of the calendar,"
            refuse("DP-SQL-006", name=name, nearest="correct the month or the day")


def _depth(tree: exp.Expr) -> int:
    """Return the number of levels of a tree."""
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in node.iter_expressions()]
    return depth


def write_lateral_joins(tree: exp.Query) -> None:
    """Leave out LATERAL before sub-queries, which DuckDB does not need to read other columns."""
    for node in list(tree.find_all(exp.Lateral)):
        if isinstance(node.this, exp.Subquery):
            node.this.set("alias", node.args.get("alias"))
            node.replace(node.this)


def refuse_functions_as_names(tree: exp.Query, tables: Mapping[str, Table]) -> None:
    """Refuse names such as "current_date" of no column, for which the engine calls a function."""
    known = {name.casefold() for table in tables.values() for name in table.columns}
    known |= {item.alias.casefold() for item in tree.find_all(exp.Alias)}
    known |= {name.name.casefold() for one in tree.find_all(exp.TableAlias) for name in one.columns}
    for column in tree.find_all(exp.Column):
        name = column.name.casefold()
        if not column.table and name in NOT_PURE and name not in known:
            reason, fix = NOT_PURE[name]
            refuse("DP-SQL-006", name=f"The function {name.upper()}{reason}", nearest=fix)


def refuse_unknown_functions(nodes: Iterable[exp.Expr]) -> None:
    """Refuse functions that neither rows nor noised values have."""
    for node in nodes:
        is_call = isinstance(node, exp.Anonymous) and not is_interval(node)
        if is_call and function_name(node) not in NAMES:
            refuse_node(node)


def refuse_node(node: exp.Expr) -> None:
    """Refuse a node that is not allowed over noised values."""
    if is_interval(node):
        name = f"{quoted(node)}, because it needs the aggregate itself,"
        fix = "use it in the SELECT of the aggregate, as in DP_INTERVAL_LOW(COUNT(*)) AS low"
        refuse("DP-SQL-006", name=name, nearest=fix)
    if isinstance(node, exp.Comprehension):
        fix = "write list_transform(l, lambda x: x + 1), or list_filter(l, lambda x: x > 1)"
        refuse("DP-SQL-006", name="A list comprehension", nearest=fix)
    if isinstance(node, exp.Anonymous):
        refuse_unanswerable(node, {})
    if may_fail(node):
        name = f"{written_name(node)} with a computed value, because it could fail for some values,"
        refuse("DP-SQL-006", name=name, nearest="write a constant, as in LAG(n, 1) or LIMIT 10")
    if isinstance(node, exp.AtTimeZone):
        reason, fix = ZONES
        refuse("DP-SQL-006", name=f"AT TIME ZONE{reason}", nearest=fix)
    name = written_name(node)[:60] if isinstance(node, exp.Func) else ""
    if name:
        reason, fix = LEFT_OUT.get(name.lower(), ("", suggest_functions(name)))
        kind = "unknown function" if isinstance(node, exp.Anonymous) and not reason else "function"
        refuse("DP-SQL-006", name=f"The {kind} {name}{reason}", nearest=fix)
    refuse("DP-SQL-004", what=quoted(node))
