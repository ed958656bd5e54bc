"""Find categories whose stored values are compared as they are stored, without converting rows.

A declared value is found by its meaning (`categories`), so 7 and 07 both mean the number 7. If
every declared value that is a number consists of digits alone, then a stored number means a
declared value if and only if the two are equal as numbers. Stored numbers are refused if two
declared values have the same meaning. Stored texts are compared directly if every text means the
declared value that it equals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from dprelease.query import quoting
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn, Column
from dprelease.statements.layers import grouping_columns
from dprelease.statements.values.categories import CACHED, FEW, IS_NUMBER, category_sql
from dprelease.statements.values.physical import SMALL_INTEGERS, base_type

DIGITS = "-?[0-9]{1,18}"
"""The pattern of integers that fit into 64 bits."""

IS_DIGITS = re.compile(DIGITS, re.ASCII)


def found_as_numbers(query: Query, physical: Mapping[str, str]) -> frozenset[str]:
    """Return the keys that can be found by stored numbers, and that nothing else reads."""
    # Only keys of categories are converted to texts: an integer key may have very many values.
    keys = {key.column: key for key in (query.finest or query.keys).keys}
    return frozenset(
        name
        for name in grouping_columns(query)
        if base_type(physical[name]) in SMALL_INTEGERS
        and _are_digits(keys[name].texts)
        and not _has_codes(query.table.columns[name])
    )


def _has_codes(column: Column) -> bool:
    """Return whether some stored numbers are codes for missing values, or have stripped signs."""
    return bool(getattr(column, "missing", ()) or getattr(column, "signs", ()))


def run_position_sql(values: tuple[str, ...], number: str) -> str | None:
    """Return SQL of the position of a stored number among consecutive declared numbers.

    Returns None if the number must be looked up in a table.
    """
    run = _consecutive_range(values)
    if run is None:
        return None
    least, most, first = run
    inside = f"{number} BETWEEN {quoting.integer(least)} AND {quoting.integer(most)}"
    # Cast before subtracting: the difference of two TINYINT numbers may not fit a TINYINT.
    return (
        f"CASE WHEN {inside} THEN CAST({number} AS BIGINT) - {quoting.integer(least - first)} END"
    )


def number_table_sql(table: str) -> str:
    """Return SQL of a relation that has the numbers of a table's values instead of the texts."""
    number = "TRY_CAST(value AS BIGINT)"
    has_digits = f"regexp_full_match(value, '{DIGITS}')"
    return f"(SELECT {number} AS value, code FROM {table} WHERE {has_digits})"


@lru_cache(CACHED)
def _are_digits(values: tuple[str, ...]) -> bool:
    """Return whether the values are few, and all numbers among them are written as digits."""
    return len(values) <= FEW and all(
        IS_DIGITS.fullmatch(value) for value in values if IS_NUMBER.fullmatch(value)
    )


@lru_cache(CACHED)
def _consecutive_range(values: tuple[str, ...]) -> tuple[int, int, int] | None:
    """Return the minimum and maximum of consecutive numbers, and the position of the first one.

    Returns None if other values are between the numbers, or if a number is missing.
    """
    places = [i for i, value in enumerate(values) if IS_DIGITS.fullmatch(value)]
    if not places:
        return None
    numbers = [int(values[place]) for place in places]
    steps = range(len(places))
    if numbers != [numbers[0] + i for i in steps] or places != [places[0] + i for i in steps]:
        return None
    return numbers[0], numbers[-1], places[0]


def found_as_texts(query: Query, physical: Mapping[str, str]) -> frozenset[str]:
    """Return the keys whose stored texts are compared directly, and that nothing else reads.

    Empty texts need no special treatment if missing values are not replaced: an empty text is then
    an undeclared text like any other.
    """
    keys = {key.column: key for key in (query.finest or query.keys).keys}
    return frozenset(
        name
        for name in grouping_columns(query)
        if base_type(physical[name]) == "VARCHAR"
        and keys[name].nulls is None
        and keys[name].others is None
        and _are_plain(name, query)
    )


def _are_plain(name: str, query: Query) -> bool:
    """Return whether every stored text, unless it is empty, means the declared value it equals."""
    column, source = query.table.columns[name], quoting.identifier(name)
    if not isinstance(column, CategoryColumn) or column.signs:
        return False
    return category_sql(source, "VARCHAR", column.allocated_values) in (
        source,
        f"nullif({source}, '')",
    )
