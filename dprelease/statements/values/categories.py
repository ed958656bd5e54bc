"""SQL that finds the declared values of a category in any stored type and spelling.

A file with the codes 1 and 2 is read as a column of integers, as floats once a code is missing, and
as texts once a code is not a number. So a declared value is found by its meaning: '01' is the
number 1 in all of these types. If two declared values have the same meaning, only texts distinguish
the two values: these two are found by their exact texts, and every other stored type is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from dprelease.query import quoting
from dprelease.query.grouping.group_keys import Key
from dprelease.statements.values.physical import EXACT_FLOATS, FAMILY_OF
from dprelease.statements.values.spelling import NUMBER_TEXT, WHOLE_TEXT, matches_sql, text_sql

EXACT = 2**53
"""The number below which a 64-bit float holds every integer."""

FEW = 10_000
"""Maximum number of declared values with which each stored text is compared before parsing."""

SHORT = 64
"""Maximum number of values that are compared with each group one by one.

For more values, a join with a table is faster. If each row were a group, the comparisons would take
three times as long as a join, but still less time than the grouping."""

CACHED = 256
"""Number of columns whose analysed declared values are cached for further statements."""

MIDNIGHT_TEXT = r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]00:00(:00(\.0*)?)?\s*"
IS_WHOLE = re.compile(WHOLE_TEXT, re.ASCII)
IS_NUMBER = re.compile(NUMBER_TEXT, re.ASCII)
IS_MIDNIGHT = re.compile(MIDNIGHT_TEXT, re.ASCII)


COMPARED = 4
"""Maximum number of values that are compared with each row one by one.

For more values, a look-up in a table is faster."""


def is_short_list(values: Sequence[str]) -> bool:
    """Return whether a list is so short that its values are compared with each group."""
    return len(values) <= SHORT


def listed_position_sql(values: Sequence[str], text: str, *, groups: bool) -> str | None:
    """Return SQL of the position of a text in a list of values, which is NULL for other texts.

    Returns None if the list is so long that the text must be looked up in a table. `groups` says
    that the SQL is evaluated for groups, instead of rows.
    """
    if groups and is_short_list(values):
        listed = ", ".join(map(quoting.text, values))
        return f"(list_position([{listed}], {text}) - 1)"
    if not groups and len(values) <= COMPARED and "(" not in text:  # the SQL repeats `text`
        places = (f"WHEN {text} = {quoting.text(v)} THEN {i}" for i, v in enumerate(values))
        return f"CASE {' '.join(places)} END" if values else "NULL"
    return None


def position_or_sql(position: str, other: int) -> str:
    """Return SQL of a position, or of `other` where the position is NULL.

    The SQL is a CASE, because DuckDB's `coalesce` splits the rows of every batch by missing values,
    which takes as long as everything else that is computed for a key.
    """
    # Of an expression that is a CASE already, a second one would repeat the text.
    if position.startswith("CASE ") and position.endswith(" END") and " ELSE " not in position:
        return f"{position.removesuffix(' END')} ELSE {other} END"
    return f"CASE WHEN {position} IS NULL THEN {other} ELSE {position} END"


def substituted_position_sql(position: str, text: str, key: Key) -> str:
    """Return SQL of a position, with the key's substitutes for missing and undeclared texts."""
    if key.others is not None:
        position = position_or_sql(position, key.others)
    if key.nulls is not None or key.others is not None:
        null = "NULL" if key.nulls is None else str(key.nulls)
        position = f"CASE WHEN {text} IS NULL THEN {null} ELSE {position} END"
    return position


@lru_cache(CACHED)
def category_sql(source: str, stored: str, values: tuple[str, ...], known: str = "") -> str | None:
    """Return SQL of the declared value that a stored value means, or of another text.

    Returns None if values of the stored type can't be read as a category. `known` is a SELECT of
    the declared values, if a table of them exists.
    """
    shown = _representative_values(values)
    canonical = {value: _canonical_text(value) for value in shown}
    text = text_sql(source, stored)
    is_text = FAMILY_OF[stored] == "texts"
    if not is_text and same_meaning_pair(values) is not None:
        return None
    # Other programs may store a decimal as a text or a float: 0.10 and 1e-1 are the same number.
    if is_text or FAMILY_OF[stored] == "decimals":
        return _declared_value_sql(text, canonical, known, few=len(values) <= FEW)
    return _declared_spelling_sql(text, canonical)


@lru_cache(CACHED)
def same_meaning_pair(values: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the first two declared values with the same meaning; None if all meanings differ."""
    first: dict[str, str] = {}
    for value in () if _are_codes(values) else values:
        before = first.setdefault(_canonical_text(value), value)
        if before != value:
            return before, value
    return None


@lru_cache(CACHED)
def is_beyond_floats(values: tuple[str, ...], stored: str) -> bool:
    """Return whether one float of the stored type may stand for several declared values."""
    numbers = (float(v) for v in values if IS_NUMBER.fullmatch(v))
    most = EXACT_FLOATS.get(stored)
    return most is not None and any(most <= abs(number) < float("inf") for number in numbers)


def _canonical_text(value: str) -> str:
    """Return the meaning of a declared value, in the spelling of `text_of`."""
    if IS_WHOLE.fullmatch(value):
        return str(int(value.strip().split(".")[0]))
    if IS_NUMBER.fullmatch(value):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**127 else repr(number)
    if value.strip().lower() in ("true", "false"):
        return value.strip().lower()
    if IS_MIDNIGHT.fullmatch(value):
        return value.strip()[:10]
    return value


def _representative_values(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values on which a statement depends: very few of many codes of one length.

    The meaning of such a code is its number, and no two codes have the same number. So the
    statement depends only on the length of the codes, and on whether any has a leading zero.
    """
    if not _are_codes(values):
        return values
    zero = next((value for value in values if value.startswith("0")), None)
    return values[:1] if zero in (None, values[0]) else (values[0], zero)


def _are_codes(values: tuple[str, ...]) -> bool:
    """Return whether there are many values that all consist of the same number of digits."""
    if len(values) <= FEW or len({*map(len, values)}) > 1:
        return False
    together = "".join(values)
    return together.isascii() and together.isdigit()


def _declared_value_sql(text: str, canonical: dict[str, str], known: str, *, few: bool) -> str:
    """Return SQL of the declared value that a text means, or of the text itself.

    An empty text is a missing value unless it is declared, because some programs store missing
    values as empty texts once another value makes the column a column of texts.
    """
    other = text if "" in canonical else f"nullif({text}, '')"
    arms = []
    number = [value for value in canonical if IS_NUMBER.fullmatch(value)]
    if number:
        integer_text = f"CAST(TRY_CAST(trim({text}) AS HUGEINT) AS VARCHAR)"
        real = text_sql(f"TRY_CAST(trim({text}) AS DOUBLE)", "DOUBLE")
        arms.append(
            f"WHEN {matches_sql(text, WHOLE_TEXT)} "
            f"THEN {_unambiguous_spelling_sql(integer_text, text, canonical)}"
        )
        arms.append(
            f"WHEN {matches_sql(text, NUMBER_TEXT)} "
            f"THEN {_unambiguous_spelling_sql(real, text, canonical)}"
        )
    if {"true", "false"} & set(canonical.values()):
        truth = f"lower(trim({text}))"
        arms.append(
            f"WHEN {truth} IN ('true', 'false') "
            f"THEN {_unambiguous_spelling_sql(truth, text, canonical)}"
        )
    if any(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", day) for day in canonical.values()):
        day = f"left(trim({text}), 10)"
        arms.append(
            f"WHEN {matches_sql(text, MIDNIGHT_TEXT)} "
            f"THEN {_unambiguous_spelling_sql(day, text, canonical)}"
        )
    if not arms:
        return other
    if known or few:  # most stored texts are declared values in the declared spelling
        same = known or ", ".join(quoting.text(value) for value in canonical)
        arms.insert(0, f"WHEN {text} IN ({same}) THEN {text}")
    return f"CASE {' '.join(arms)} ELSE {other} END"


def _unambiguous_spelling_sql(form: str, text: str, canonical: dict[str, str]) -> str:
    """Return SQL of the declared value with a form, or of the text if several have this form.

    So 9 and 09, if both are declared, are found by their exact texts, and 009 is undeclared.
    """
    counts = Counter(canonical.values())
    one = {value: meaning for value, meaning in canonical.items() if counts[meaning] == 1}
    spelling = _declared_spelling_sql(form, one)
    shared = ", ".join(quoting.text(meaning) for meaning in counts if counts[meaning] > 1)
    return f"CASE WHEN {form} IN ({shared}) THEN {text} ELSE {spelling} END" if shared else spelling


def _declared_spelling_sql(text: str, canonical: dict[str, str]) -> str:
    """Return SQL of the declared value with the meaning of a text of `text_of`, or the text."""
    others = {value: form for value, form in canonical.items() if value != form}
    if not others:
        return text
    width = _width(canonical)
    if width is not None:
        short = matches_sql(text, rf"[0-9]{{1,{width - 1}}}")
        return f"CASE WHEN {short} THEN lpad({text}, {width}, '0') ELSE {text} END"
    arms = " ".join(
        f"WHEN {quoting.text(form)} THEN {quoting.text(value)}" for value, form in others.items()
    )
    return f"CASE {text} {arms} ELSE {text} END"


def _width(canonical: dict[str, str]) -> int | None:
    """Return the length of the declared numbers, if leading zeros make all lengths equal."""
    numbers = {value for value, form in canonical.items() if re.fullmatch(r"[0-9]+", form)}
    widths = {len(value) for value in numbers}
    padded = all(canonical[value].zfill(len(value)) == value for value in numbers)
    others = any(value != form for value, form in canonical.items() if value not in numbers)
    return widths.pop() if padded and len(widths) == 1 and not others else None
