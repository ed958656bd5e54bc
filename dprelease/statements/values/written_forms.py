"""SQL that converts numbers with declared separators to the plain form that is parsed.

The separators are declared, never inferred: '1.234' is one number if the point is the decimal
separator, and another number if points separate thousands. If the point is neither, a text with a
point is not a number.
"""

from __future__ import annotations

import re
from functools import cache

from dprelease.query import quoting
from dprelease.schema.source_texts import APOSTROPHES, SPACES
from dprelease.statements.values.spelling import matches_sql

NO_NUMBER = "'?'"

_AROUND_DIGITS = re.compile(r"([^0-9]*)([0-9](?:.*[0-9])?)([^0-9]*)", re.DOTALL)
"""The first to the last digit of a text, and what stands around them."""


def plain_number_sql(text: str, decimal: str, thousands: str | None, own_points: bool) -> str:
    """Return SQL of a text in which a number of the declared form is converted to the plain form.

    `own_points` says that numbers in the plain form occur as well, as unquoted numbers in JSON do.
    """
    between = _separator_pattern(thousands)
    shape = number_pattern(decimal, thousands)
    digits = text
    if between:
        digits = f"regexp_replace({digits}, {quoting.text(between)}, '', 'g')"
    if decimal != ".":
        digits = f"replace({digits}, {quoting.text(decimal)}, '.')"
    rest = text
    if decimal != "." and not own_points:
        # Not NULL: the data owner must learn that the text is unreadable, not that it is missing.
        rest = f"CASE WHEN contains({text}, '.') THEN {NO_NUMBER} ELSE {text} END"
    return f"CASE WHEN {matches_sql(text, shape)} THEN {digits} ELSE {rest} END"


def plain_number(text: str, decimal: str, thousands: str | None) -> str:
    """Return a text in which a number of the declared form is converted to the plain form.

    The signs around the number stay. This is `plain_number_sql` for cells that are texts.
    """
    if (found := _AROUND_DIGITS.fullmatch(text)) is None:
        return text
    before, digits, behind = found.groups()
    if before.endswith(decimal):
        before, digits = before.removesuffix(decimal), decimal + digits
    if behind.startswith(decimal):
        behind, digits = behind.removeprefix(decimal), digits + decimal
    is_number = re.fullmatch(number_pattern(decimal, thousands), digits, re.ASCII) is not None
    if decimal != "." and "." in (f"{before}{behind}" if is_number else text):
        return "?"
    if not is_number:
        return text
    between = _separator_pattern(thousands)
    digits = re.sub(between, "", digits) if between else digits
    return f"{before}{digits.replace(decimal, '.')}{behind}"


@cache
def number_pattern(decimal: str, thousands: str | None) -> str:
    """Return the pattern of a complete number with the declared separators."""
    between = _separator_pattern(thousands)
    grouped = rf"[0-9]{{1,3}}({between}[0-9]{{2,3}})*{between}[0-9]{{3}}|" if between else ""
    digits = rf"({grouped}[0-9]*)({re.escape(decimal)}[0-9]*)?"
    return rf"(?i)\s*[+-]?{digits}(e[+-]?[0-9]+)?\s*"


def _separator_pattern(thousands: str | None) -> str:
    """Return the pattern of the characters that may separate thousands."""
    if thousands is None:
        return ""
    alike = {" ": SPACES, "'": APOSTROPHES}
    return f"[{alike.get(thousands, re.escape(thousands))}]"
