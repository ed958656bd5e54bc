"""SQL that rewrites stored texts to the plain form that is parsed.

A text is stripped of declared signs by itself. In columns of numbers, dates and booleans, a text is
stripped only if it has no value as it is written, so that a number means the same in every stored
type. In columns of texts and categories, every text is stripped, and so is the text of a value of
another type.

Separators are declared, never inferred: '1.234' is one number if the point is the decimal
separator, and another number if points separate thousands. If the point is neither, a text with a
point is not a number.
"""

from __future__ import annotations

import re
from functools import cache

from dprelease.query import quoting
from dprelease.schema.columns import Column
from dprelease.schema.public_values.text_signs import BLANKS, MINUS_SIGNS
from dprelease.schema.source_texts import APOSTROPHES, SPACES
from dprelease.statements.values.spelling import matches_sql


def stripped_sql(text: str, column: Column) -> str | None:
    """Return SQL of a text without its signs; None if the column declares no signs.

    A text of signs alone is missing: as an id, it would be the same person in all such rows.
    """
    signs = getattr(column, "signs", ())
    forms = getattr(column, "negative", ())
    if not signs and not forms:
        return None
    text = _strip_sql(text, signs)
    for sign in MINUS_SIGNS:
        if f"{sign}1" in forms:
            text = f"replace({text}, {quoting.text(sign)}, '-')"
    if "(1)" in forms:
        text = rf"regexp_replace({text}, '^[(](.*)[)]$', '-\1')"
    if "1-" in forms:
        text = rf"regexp_replace({text}, '^([^+-].*)-$', '-\1')"
    if hasattr(column, "negative"):  # as in -$5 and (5 %)
        text = _strip_sql(f"regexp_replace({text}, '^-(?:{_either(signs)})+', '-')", signs)
    return f"nullif({text}, '')"


def marks_sql(text: str, column: Column) -> str:
    """Return SQL of the meaning of the first declared mark around a text; NULL without a mark.

    `text`: SQL of the stored text, as it is before its signs are removed.
    """
    either = _either(getattr(column, "signs", ()))
    texts = [text]
    if "(1)" in getattr(column, "negative", ()):  # as in (5 r)
        texts.append(rf"regexp_replace({text}, '^[(](.*)[)]$', '\1')")
    around = [f"regexp_extract({t}, '{end}')" for t in texts
              for end in (f"^(?:{either})+", f"(?:{either})+$")]  # fmt: skip
    found = " || ".join(f"regexp_extract_all({one}, '{either}')" for one in around)
    arms = " ".join(
        f"WHEN list_contains({found}, {quoting.text(mark)}) THEN {quoting.text(meaning)}"
        for mark, meaning in getattr(column, "marks", {}).items()
    )
    return f"CASE {arms} END"


def _strip_sql(text: str, signs: tuple[str, ...]) -> str:
    """Return SQL of a text without the signs, and the white space, around it."""
    either = _either(signs)
    return f"regexp_replace({text}, '^(?:{either})+|(?:{either})+$', '', 'g')"


def _either(signs: tuple[str, ...]) -> str:
    """Return the pattern of a sign or of white space, without a quote."""
    return "|".join([BLANKS, *map(_escape, signs)])


def _escape(sign: str) -> str:
    """Return the pattern of a sign."""
    return re.sub(r"[^0-9A-Za-z\x80-\U0010ffff]", lambda found: rf"\x{{{ord(found[0]):x}}}", sign)


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
