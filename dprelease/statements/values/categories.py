"""Find declared values of a category, in whatever type and spelling a source stores them.

A file with the codes 1 and 2 is a column of integers; of floats once a code is missing; of texts
once a code is not a number. So a declared value is found by its meaning: '01' is the number 1 in
all of these types. If two declared values have the same meaning, only texts distinguish them, and
other types are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from dprelease.query import quoting
from dprelease.query.grouping.group_keys import Key
from dprelease.statements.values.physical import EXACT_FLOATS, FAMILY_OF
from dprelease.statements.values.spelling import NUMBER_TEXT, WHOLE_TEXT, matches, text_of

EXACT = 2**53
"""Below it a float holds every integer."""

FEW = 10_000
"""Maximum number of values with which every text is compared before it is parsed."""

SHORT = 64
"""Maximum number of values compared with groups one by one: a table and a join take longer.

If each row were its own group, this would take three times as long as a join, and less than the
grouping."""

CACHED = 256
"""Number of columns whose declared values are analysed only once, for any number of statements."""

MIDNIGHT_TEXT = r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]00:00(:00(\.0*)?)?\s*"
IS_WHOLE = re.compile(WHOLE_TEXT, re.ASCII)
IS_NUMBER = re.compile(NUMBER_TEXT, re.ASCII)
IS_MIDNIGHT = re.compile(MIDNIGHT_TEXT, re.ASCII)


COMPARED = 4
"""Maximum number of values that are compared with each row one by one: a table look-up takes
longer."""


def is_short(values: Sequence[str]) -> bool:
    """Return whether a list of values is searched for every group."""
    return len(values) <= SHORT


def position_in(values: Sequence[str], text: str, *, groups: bool) -> str | None:
    """Return SQL of the position of a text in a list, NULL where the list lacks it.

    None if it must be looked up in a table: for longer lists, of groups or of rows.
    """
    if groups and is_short(values):
        listed = ", ".join(map(quoting.text, values))
        return f"(list_position([{listed}], {text}) - 1)"
    if not groups and len(values) <= COMPARED and "(" not in text:  # it is repeated in the SQL
        places = (f"WHEN {text} = {quoting.text(v)} THEN {i}" for i, v in enumerate(values))
        return f"CASE {' '.join(places)} END" if values else "NULL"
    return None


def or_else(position: str, other: int) -> str:
    """Return a position, or another one where it is NULL.

    A CASE, because `coalesce` splits the rows of every batch by missing values, which takes as long
    as everything else that is done with a key.
    """
    if position.startswith("CASE ") and position.endswith(" END") and " ELSE " not in position:
        return f"{position.removesuffix(' END')} ELSE {other} END"
    return f"CASE WHEN {position} IS NULL THEN {other} ELSE {position} END"


def with_stand_ins(position: str, text: str, key: Key) -> str:
    """Return a position, or the substitute for a text that is missing or not declared."""
    if key.others is not None:
        position = or_else(position, key.others)
    if key.nulls is not None or key.others is not None:
        null = "NULL" if key.nulls is None else str(key.nulls)
        position = f"CASE WHEN {text} IS NULL THEN {null} ELSE {position} END"
    return position


@lru_cache(CACHED)
def category(source: str, stored: str, values: tuple[str, ...], known: str = "") -> str | None:
    """Return the declared value of a stored one, or another text; None if types forbid it.

    `known`: a SELECT of the declared values, if a table of them exists.
    """
    shown = _some(values)
    canonical = {value: _canonical_text(value) for value in shown}
    text = text_of(source, stored)
    is_text = FAMILY_OF[stored] == "texts"
    if not is_text and twins(values) is not None:
        return None
    # Decimals of other tables become texts, or floats: 0.10 and 1e-1 are one number in all of them.
    if is_text or FAMILY_OF[stored] == "decimals":
        return _match_declared(text, canonical, known, few=len(values) <= FEW)
    return _declared_spelling(text, canonical)


@lru_cache(CACHED)
def twins(values: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the first two declared values with the same meaning, if any."""
    first: dict[str, str] = {}
    for value in () if _are_codes(values) else values:
        before = first.setdefault(_canonical_text(value), value)
        if before != value:
            return before, value
    return None


@lru_cache(CACHED)
def is_beyond_floats(values: tuple[str, ...], stored: str) -> bool:
    """Return whether a float may be one of several declared values."""
    numbers = (float(v) for v in values if IS_NUMBER.fullmatch(v))
    most = EXACT_FLOATS.get(stored)
    return most is not None and any(most <= abs(number) < float("inf") for number in numbers)


def _canonical_text(value: str) -> str:
    """Return the meaning of a declared value, spelled as `text_of` spells it."""
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


def _some(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return values on which a statement depends: of many codes of one length, very few.

    No two of these have the same meaning, which is their number, so only their length matters, and
    whether any has a leading zero.
    """
    if not _are_codes(values):
        return values
    zero = next((value for value in values if value.startswith("0")), None)
    return values[:1] if zero in (None, values[0]) else (values[0], zero)


def _are_codes(values: tuple[str, ...]) -> bool:
    """Return whether values are many, and consist of digits alone, equally many each."""
    if len(values) <= FEW or len({*map(len, values)}) > 1:
        return False
    together = "".join(values)
    return together.isascii() and together.isdigit()


def _match_declared(text: str, canonical: dict[str, str], known: str, *, few: bool) -> str:
    """Return the declared value that a text means, or the text.

    An empty text is missing unless it is declared: some readers store missing values as empty texts
    when other values make the column a text.
    """
    other = text if "" in canonical else f"nullif({text}, '')"
    if len(set(canonical.values())) < len(canonical):
        return other
    arms = []
    number = [value for value in canonical if IS_NUMBER.fullmatch(value)]
    if number:
        integer_text = f"CAST(TRY_CAST(trim({text}) AS HUGEINT) AS VARCHAR)"
        real = text_of(f"TRY_CAST(trim({text}) AS DOUBLE)", "DOUBLE")
        arms.append(
            f"WHEN {matches(text, WHOLE_TEXT)} THEN {_declared_spelling(integer_text, canonical)}"
        )
        arms.append(f"WHEN {matches(text, NUMBER_TEXT)} THEN {_declared_spelling(real, canonical)}")
    if {"true", "false"} & set(canonical.values()):
        truth = f"lower(trim({text}))"
        arms.append(
            f"WHEN {truth} IN ('true', 'false') THEN {_declared_spelling(truth, canonical)}"
        )
    if any(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", day) for day in canonical.values()):
        day = f"left(trim({text}), 10)"
        arms.append(
            f"WHEN {matches(text, MIDNIGHT_TEXT)} THEN {_declared_spelling(day, canonical)}"
        )
    if not arms:
        return other
    if known or few:  # most texts are declared values, spelled as declared
        same = known or ", ".join(quoting.text(value) for value in canonical)
        arms.insert(0, f"WHEN {text} IN ({same}) THEN {text}")
    return f"CASE {' '.join(arms)} ELSE {other} END"


def _declared_spelling(text: str, canonical: dict[str, str]) -> str:
    """Return the declared value with the meaning of a text from `text_of`, or the text."""
    others = {value: form for value, form in canonical.items() if value != form}
    if not others:
        return text
    width = _width(canonical)
    if width is not None:
        short = matches(text, rf"[0-9]{{1,{width - 1}}}")
        return f"CASE WHEN {short} THEN lpad({text}, {width}, '0') ELSE {text} END"
    arms = " ".join(
        f"WHEN {quoting.text(form)} THEN {quoting.text(value)}" for value, form in others.items()
    )
    return f"CASE {text} {arms} ELSE {text} END"


def _width(canonical: dict[str, str]) -> int | None:
    """Return the length of declared numbers, if leading zeros give all of them the same."""
    numbers = {value for value, form in canonical.items() if re.fullmatch(r"[0-9]+", form)}
    widths = {len(value) for value in numbers}
    padded = all(canonical[value].zfill(len(value)) == value for value in numbers)
    others = any(value != form for value, form in canonical.items() if value not in numbers)
    return widths.pop() if padded and len(widths) == 1 and not others else None
