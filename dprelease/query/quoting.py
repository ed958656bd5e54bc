"""Names and literals as SQL text: the only place that makes SQL out of words that people wrote."""

from __future__ import annotations

from datetime import date
from fractions import Fraction


def identifier(name: str) -> str:
    """Return a quoted identifier; quotes inside are doubled, so nothing can end it early."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a text literal; the declarations refuse NUL, the one character it could not hold."""
    return "'" + value.replace("'", "''") + "'"


def day(value: date) -> str:
    """Return a date literal."""
    return f"DATE '{value.isoformat()}'"


def integer(value: int) -> str:
    """Return an integer literal; negative ones in brackets, so that no '--' can arise."""
    return str(value) if value >= 0 else f"({value})"


def double(value: Fraction | float) -> str:
    """Return the float nearest to a number as a DOUBLE literal that reads back to the bit."""
    digits = repr(float(value))
    return f"{digits}::DOUBLE" if not digits.startswith("-") else f"({digits}::DOUBLE)"
