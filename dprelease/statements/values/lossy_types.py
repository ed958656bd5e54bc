"""Stored types that may lose what a source's value was: zeros in front, digits, other spellings.

The decision depends on the declared column and the stored type alone, and on no value.
"""

from __future__ import annotations

from dprelease.schema.columns import (
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    TextColumn,
    TimestampColumn,
)
from dprelease.statements.values.categories import EXACT, is_beyond_floats, same_meaning_pair
from dprelease.statements.values.physical import EXACT_FLOATS, FAMILY_OF, FLOATS
from dprelease.statements.values.spelling import loses_digits, reads_integers

NUMBER_FAMILIES = ("integers", "floats", "decimals")
"""The families of stored types that hold numbers."""


def loses_spelling(column: Column, stored: str) -> bool:
    """Return whether a stored type loses a spelling that matters: 01 becomes 1, 34.0 becomes 34.

    One row with a letter turns such a column of numbers into texts, and then all other rows would
    be read differently.
    """
    if isinstance(column, DateColumn | TimestampColumn):
        return FAMILY_OF[stored] in NUMBER_FAMILIES and loses_digits(column.format)
    return isinstance(column, TextColumn) and FAMILY_OF[stored] not in (
        "texts",
        "identifiers",
        "nothing",
    )


def is_inexact(column: Column, stored: str) -> bool:
    """Return whether some declared values are so large that the stored floats confuse them."""
    if isinstance(column, CategoryColumn):
        return is_beyond_floats(column.allocated_values, stored)
    if isinstance(column, DateColumn | TimestampColumn):
        return stored in FLOATS and reads_integers(column.format, beyond=EXACT_FLOATS[stored])
    return stored in FLOATS and may_exceed_exact_floats(column, EXACT_FLOATS[stored])


def may_lose_values(column: Column, stored: str) -> bool:
    """Return whether the stored type of a column, or of one value, may lose the original value.

    A type loses values if several texts become the same value of the type, or several declared
    numbers the same float. The toolkit refuses such a type, because one row can change the type of
    all other rows, as a missing number turns integers into floats.
    """
    if (
        isinstance(column, CategoryColumn)
        and same_meaning_pair(column.allocated_values) is not None
    ):
        return FAMILY_OF[stored] not in ("texts", "identifiers", "nothing")
    return loses_spelling(column, stored) or is_inexact(column, stored)


def may_exceed_exact_floats(column: Column, most: int = EXACT) -> bool:
    """Return whether an integer column may hold integers that floats can't distinguish.

    `most` is the number up to which the float type holds every integer.
    """
    if not isinstance(column, IntegerColumn):
        return False
    if column.lower is None or column.upper is None:  # without bounds, any integer may occur
        return True
    return max(abs(column.lower), abs(column.upper)) > most
