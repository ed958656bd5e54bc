"""Find the values that synthetic tables need so that conditions are met and joins match rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING

from dprelease.numerics.rounding import exact
from dprelease.query.expressions.computed_order import with_input_columns
from dprelease.query.resolve import Query
from dprelease.rehearsal.column_values import Literals
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
    expression_of,
)
from dprelease.schema.load import Declaration

if TYPE_CHECKING:
    import pyarrow as pa

YEAR, YEARS = "year", re.compile("[1-9][0-9]{3}")
"""The SQL function, and the form of the years that it is compared with: `year(day) = 2014`."""

MOST_KEYS = 100_000
"""The maximum number of keys of a synthetic public table."""


def literals_in(declaration: Declaration) -> Literals:
    """Return the literals in all conditions and expressions of a release.

    Columns of texts and columns without bounds get values from these literals, so that some
    synthetic rows satisfy the conditions.
    """
    expressions = list(_expressions(declaration))
    if not expressions:
        return Literals()
    from sqlglot import Dialect  # the SQL parser loads slowly

    texts, numbers, days = dict[str, None](), [], []
    for text in expressions:
        tokens = Dialect.get_or_raise("duckdb").tokenize(text)
        of_years = any(token.text.casefold() == YEAR for token in tokens)
        for token in tokens:
            if of_years and token.text.isascii() and YEARS.fullmatch(token.text):
                days += [date(int(token.text), 7, 1)]
            if token.token_type.name == "STRING":
                day = _parse_day(token.text)
                days += [] if day is None else [day]
                texts[token.text] = None
            elif token.token_type.name == "NUMBER":
                with suppress(ValueError):  # for a number in a form that declarations can't have
                    numbers.append(exact(token.text))
    return Literals(tuple(texts), tuple(numbers), tuple(days))


def _expressions(declaration: Declaration) -> Iterator[str]:
    """Yield all conditions and expressions of a release, in SQL."""
    for query in declaration.spec.queries.values():
        if query.where is not None:
            yield query.where
        yield from (text for text in map(expression_of, query.derive.values()) if text)
    for declared in declaration.tables.values():
        yield from (text for text in map(expression_of, declared.table.columns.values()) if text)


def _parse_day(text: str) -> date | None:
    """Return the day at the beginning of a text; None if there is none."""
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None


def key_columns_of(queries: Sequence[Query], table: str) -> frozenset[str]:
    """Return the key columns of a table, and the columns from which keys are computed."""
    found = set[str]()
    for query in queries:
        if query.declared.table.name != table:
            continue
        columns = query.table.columns
        names = [key.read_from for key in query.keys.keys]
        names += [] if query.private is None else [name for name, _ in query.private.columns]
        names = [c.cut if isinstance(c := columns[n], CutColumn) else n for n in names]
        found |= {*with_input_columns(columns, query.formulas, names)}
    return frozenset(found)


def join_key_values(
    queries: Sequence[Query], people: Mapping[str, pa.Table], table: str
) -> dict[tuple[str, ...], list[tuple[object, ...]]]:
    """Return the keys for which joins with a public table find rows, by the compared columns.

    `people` has the synthetic tables about people, from which the joins take some keys.
    """
    found: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
    for query in queries:
        join = query.join
        if join is None or join.by_unit or join.declared.table.name != table:
            continue
        right = tuple(name for _, name in join.on)
        if right in found:
            continue
        table_rows = people.get(query.declared.table.name)
        values = [
            list(
                _comparison_values(
                    query.table.columns[left], table_rows, left, join.declared.table.columns[name]
                )
            )
            for left, name in join.on
        ]
        found[right] = list(itertools.islice(itertools.product(*values), MOST_KEYS))
    return found


def _comparison_values(
    left: Column, table_rows: pa.Table | None, name: str, right: Column
) -> Iterator[object]:
    """Yield the values that one compared column can have, as the joined table stores them.

    `left` is the column `name` of the table about people, and `right` that of the joined table.
    """
    if isinstance(left, CategoryColumn | CutColumn):
        yield from left.values or ()
    elif isinstance(left, BooleanColumn):
        yield from (False, True)
    elif table_rows is not None and name in table_rows.column_names:
        yield from (v for v in table_rows.column(name).unique().to_pylist() if v is not None)
    elif isinstance(right, IntegerColumn | DateColumn):
        low, high = right.lower, right.upper
        if isinstance(low, int) and isinstance(high, int):
            yield from range(low, min(high, low + MOST_KEYS) + 1)
