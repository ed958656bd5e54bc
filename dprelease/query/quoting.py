"""Quote names and literals: the only module that turns texts of declarations into SQL."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction


def identifier(name: str) -> str:
    """Return a quoted identifier, in which quotes are doubled so that no name can end it early."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a text literal; declarations refuse NUL, which a literal can't contain."""
    return "'" + value.replace("'", "''") + "'"


def day(value: date) -> str:
    """Return a date literal."""
    return f"DATE '{value.isoformat()}'"


def instant(value: datetime) -> str:
    """Return a literal of a timestamp without a time zone."""
    return f"TIMESTAMP '{value.isoformat(sep=' ')}'"


def integer(value: int) -> str:
    """Return an integer literal, in parentheses if it is negative, so that no '--' can arise."""
    return str(value) if value >= 0 else f"({value})"


def double(value: Fraction | float) -> str:
    """Return the nearest float as a DOUBLE literal that parses back to the same bits."""
    digits = repr(float(value))
    return f"{digits}::DOUBLE" if not digits.startswith("-") else f"({digits}::DOUBLE)"
