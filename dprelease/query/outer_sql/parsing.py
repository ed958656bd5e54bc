"""Parse a statement that is one query."""

from __future__ import annotations

import re
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
from dprelease.query.select_nodes import refuse
from dprelease.query.sql_functions import suggest_functions

LENGTH_LIMIT = 10_000
DEPTH_LIMIT = 100
PIVOTED = "PIVOT or UNPIVOT, whose columns depend on the data,"
INSTEAD_OF_PIVOT = (
    "write a column for each value, as in SELECT state, COUNT(*) FILTER (WHERE sex = 'F') AS women "
    "FROM people GROUP BY state; or GROUP BY both keys, and pivot the answer"
)
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
        broken = f"it can't be parsed as SQL{stop_text(problem)}"
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
    for item in trees[0].find_all(exp.Bracket):
        item.set("offset", 1)
    return trees[0]


def _depth(tree: exp.Expr) -> int:
    """Return the number of levels of a tree."""
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in node.iter_expressions()]
    return depth
