"""SQL that finds the stored values which a column declares as missing.

A code is compared as the column reads it. In a column of numbers, 9, 09 and 9.0 are one code, and
in a column of dates all spellings of a day. In a category a code is found as a declared value is:
by its text, and a number also by its value. In a column of texts only the same text is the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dprelease.query import quoting
from dprelease.schema.columns import (
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TextColumn,
    TimestampColumn,
)
from dprelease.schema.public_values.missing_codes import numbers_of
from dprelease.statements.values.categories import category_sql, same_meaning_pair
from dprelease.statements.values.physical import FLOATS, TEXTS
from dprelease.statements.values.spelling import timestamp_of_text_sql

LARGEST = {"FLOAT": Fraction(2**127), "DOUBLE": Fraction(2**1023)}
"""Numbers below which codes are compared, because larger ones could overflow a cast."""


def missing_code_sql(value: str, source: str, stored: str, column: Column, zone: str) -> str | None:
    """Return the SQL condition that a stored value is a declared code for a missing value.

    The condition may be NULL for other values. Returns None if no code can occur.

    Parameters
    ----------
    value
        SQL of the value in its declared type.
    source, stored
        SQL of the stored value, and the engine's type without parameters.
    column
        The declaration of the column.
    zone
        The time zone of the column's timestamps.
    """
    codes: tuple[str, ...] = getattr(column, "missing", ())
    if not codes:
        return None
    if isinstance(column, IntegerColumn | NumberColumn):
        return _number_condition(value, source, stored, column)
    if isinstance(column, DateColumn | TimestampColumn):
        return f"{value} IN ({', '.join(_instants_sql(column, zone))})"
    if isinstance(column, CategoryColumn):
        return _category_condition(source, stored, codes)
    return _is_in(value, map(quoting.text, codes)) if isinstance(column, TextColumn) else None


def unread_code_sql(source: str, stored: str, column: Column) -> str | None:
    """Return the SQL condition that a stored text is a declared code, such as k.A. for a number."""
    codes = getattr(column, "missing", ())
    if not codes or stored not in TEXTS:
        return None
    return _is_in(f"trim(CAST({source} AS VARCHAR))", map(quoting.text, codes))


def _number_condition(
    value: str, source: str, stored: str, column: IntegerColumn | NumberColumn
) -> str | None:
    """Return the SQL condition that a number equals a code."""
    numbers = numbers_of(column.missing)
    if stored in FLOATS:  # a float equals a code if it is the nearest float of this type
        inside = [code for code in numbers if abs(code) < LARGEST[stored]]
        return _is_in(source, (f"CAST({quoting.double(code)} AS {stored})" for code in inside))
    if isinstance(column, IntegerColumn):
        whole = [code for code in numbers if code.denominator == 1 and abs(code) < 2**126]
        return _is_in(value, (quoting.integer(code.numerator) for code in whole))
    return _is_in(value, map(quoting.double, numbers))


def _instants_sql(column: DateColumn | TimestampColumn, zone: str) -> list[str]:
    """Return SQL of each code of a column of dates or timestamps, read as the column's texts."""
    instants = [
        timestamp_of_text_sql(quoting.text(code), column.format, zone, column.pivot)
        for code in column.missing
    ]
    is_date = isinstance(column, DateColumn)
    return [f"CAST({instant} AS DATE)" if is_date else instant for instant in instants]


def _category_condition(source: str, stored: str, codes: tuple[str, ...]) -> str | None:
    """Return the SQL condition that a stored value has the meaning of a code."""
    # `category_sql` refuses several values with one meaning. Of codes, one of them is enough.
    while (pair := same_meaning_pair(codes)) is not None:
        codes = tuple(code for code in codes if code != pair[1])
    text = category_sql(source, stored, codes)
    return None if text is None else _is_in(text, map(quoting.text, codes))


def _is_in(value: str, literals: Iterable[str]) -> str | None:
    """Return the SQL condition that a value is in a list; None for an empty list."""
    listed = ", ".join(literals)
    return f"{value} IN ({listed})" if listed else None
