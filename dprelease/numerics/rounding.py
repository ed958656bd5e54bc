"""Read exact numbers from text, and round them up or down to floats."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real

# The lengths are limited, because Python needs quadratic time for long numbers, and 10^9999999
# would fill the memory.
_DECIMAL = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?")

_MOST_BITS = 2**13

Number = int | float | str | Decimal | Fraction
"""Python types of numbers in budgets; NumPy numbers are accepted as well."""


def exact(text: str) -> Fraction:
    """Return the exact number of a decimal text, such as "0.1", "-3" or "1e-9".

    Raises ValueError for all other texts, such as nan, inf, hexadecimal numbers, numbers with
    underscores, or exponents of four digits.
    """
    if not _DECIMAL.fullmatch(text):
        raise ValueError("not a decimal number")
    return Fraction(text)


def exact_or_none(text: str) -> Fraction | None:
    """Return the number that a decimal text stands for; None if it is no such text."""
    try:
        return exact(text)
    except ValueError:
        return None


def exact_of(value: object) -> Fraction:
    """Return the exact value of a decimal text or of a Python or NumPy number.

    A float stands for the decimal number that Python prints for it.

    Raises ValueError for all other values, such as booleans, nan, inf, or numbers with thousands of
    digits.
    """
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
            raise ValueError("a number of thousands of digits")
        return value
    if isinstance(value, bool) or not isinstance(value, str | Decimal | Real):
        raise ValueError("not a number")
    return exact(str(int(value) if isinstance(value, Integral) else value))


def round_up(x: Fraction) -> float:
    """Return the least float that is >= `x`.

    Raises OverflowError if no finite float is large enough.
    """
    nearest = float(x)  # Python rounds a Fraction to the nearest float
    if Fraction(nearest) < x:
        nearest = math.nextafter(nearest, math.inf)
    if math.isinf(nearest):
        raise OverflowError("no finite float is >= x")
    return nearest


def round_down(x: Fraction) -> float:
    """Return the greatest float that is <= `x`.

    Raises OverflowError if no finite float is small enough.
    """
    return 0.0 - round_up(-x)  # 0.0 - 0.0 keeps zero positive


def plain_text(x: Fraction) -> str:
    """Return the decimal text of a number, or the text "p/q" if its decimals never end."""
    digits = decimal_digits(x)
    if digits is None:
        return f"{x.numerator}/{x.denominator}"
    if digits == 0:
        return str(x.numerator)
    scaled = abs(x) * 10**digits
    body = str(scaled.numerator).rjust(digits + 1, "0")
    return f"{'-' if x < 0 else ''}{body[:-digits]}.{body[-digits:]}"


def decimal_digits(x: Fraction) -> int | None:
    """Return the number of decimal places of `x`, or None if its decimals never end."""
    rest, digits = x.denominator, 0
    while rest % 10 == 0:
        rest, digits = rest // 10, digits + 1
    for prime in (2, 5):
        while rest % prime == 0:
            rest, digits = rest // prime, digits + 1
    return digits if rest == 1 else None


def finite(x: float) -> float | None:
    """Return the number if it is finite; otherwise None, which is written to JSON as null."""
    return x if math.isfinite(x) else None
