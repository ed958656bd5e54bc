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
