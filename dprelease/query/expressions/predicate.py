"""Check `where` and `expression`: an allow-list on the parsed tree admits functions of one row.

Only total functions are allowed: no expression can fail for any value of any row, or depend on
another row, the clock, a random number, a file or another table. All other syntax is refused. The
SQL that runs is rendered again from the checked tree. Other spellings of the same functions, such
as dayname(d), are replaced as in SQL. Arithmetic uses 64-bit floats: an overflow
gives infinity, and a division by zero a missing value.
"""

from __future__ import annotations

from collections.abc import Container
from typing import ClassVar, cast

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects import DuckDB

from dprelease.errors import Place, QueryError
from dprelease.query.expressions.nodes import not_allowed_error, stop_text
from dprelease.query.expressions.scalar import PHYSICAL, Kind, Term
from dprelease.query.expressions.term_checker import LENGTH_LIMIT, TermChecker
from dprelease.query.expressions.used_columns import Formula, Predicate
from dprelease.query.expressions.whole import dropped_word_text, unread_argument_text
from dprelease.query.sql_rewrites.row_forms import row_form
from dprelease.schema.table import Table

STATEMENT_TOKENS = {*DuckDB.parser_class.STATEMENT_PARSERS, *DuckDB.tokenizer_class.COMMANDS}
"""The kinds of words with which a statement can begin, such as ALTER, COMMENT and SHOW."""

QUERY_TOKENS = {TokenType.DESC, TokenType.FETCH, TokenType.PIVOT, TokenType.UNPIVOT}
"""Those of them that a query may have, too: ORDER BY n DESC."""


def keywords_without(kinds: Container[TokenType]) -> dict[str, TokenType]:
    """Return the keywords of DuckDB that have other kinds; the rest are names of columns."""
    return {word: kind for word, kind in DuckDB.Tokenizer.KEYWORDS.items() if kind not in kinds}


class ConditionDialect(DuckDB):  # type: ignore[misc]
    """DuckDB's SQL without statements, so that columns may be named alter, comment or show."""

    class Tokenizer(DuckDB.Tokenizer):  # type: ignore[misc]
        KEYWORDS: ClassVar = keywords_without(STATEMENT_TOKENS)


def parse_predicate(where: str, table: Table, place: Place) -> Predicate:
    """Return the checked predicate.

    Raises QueryError: DP-WHERE-001 to 009 if it is not a row-wise, total condition on declared
    columns.
    """
    term, columns = _parse_term(where, table, place)
    if term.kind is not Kind.BOOLEAN:
        raise QueryError("DP-WHERE-008", place=place, kind=term.kind)
    return Predicate(term.sql, columns)


def parse_expression(text: str, table: Table, place: Place) -> tuple[Formula, Kind]:
    """Return the checked expression of a computed column, and the kind of its values.

    Raises QueryError: DP-WHERE-001 to 009 if it is not a row-wise, total expression over declared
    columns.
    """
    term, columns = _parse_term(text, table, place)
    sql = f"CAST({term.sql} AS DOUBLE)" if term.kind is Kind.NUMBER else term.sql
    return Formula(sql, columns, PHYSICAL.get(term.kind, "VARCHAR")), term.kind


def _parse_term(text: str, table: Table, place: Place) -> tuple[Term, tuple[str, ...]]:
    """Return the single checked term of a text, and the columns that it reads."""
    if len(text) > LENGTH_LIMIT:
        raise QueryError("DP-WHERE-009", place=place, limit=LENGTH_LIMIT)
    try:
        trees: list[exp.Expression | None] = sqlglot.parse(text, read=ConditionDialect)  # type: ignore[assignment]
    except (sqlglot.errors.SqlglotError, RecursionError) as problem:
        raise QueryError("DP-WHERE-001", place=place, near=stop_text(problem)) from None
    if len(trees) != 1 or trees[0] is None:
        raise QueryError("DP-WHERE-001", place=place, near="")
    checker = TermChecker(table, place)
    tree = trees[0]
    try:
        term = checker.term(tree, 0)
    except QueryError as refused:
        checker = TermChecker(table, place)
        try:
            tree = cast("exp.Expression", row_form(tree, table))  # such as floor(x / 2) for x // 2
            term = checker.term(tree, 0)
        except QueryError:
            raise refused from None
    what = unread_argument_text(tree) or dropped_word_text(trees[0], text, ConditionDialect)
    if what is not None:
        raise not_allowed_error(what, place)
    return term, tuple(sorted(checker.columns))
