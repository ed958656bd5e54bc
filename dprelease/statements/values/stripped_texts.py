"""SQL that removes declared signs around stored texts, and rewrites negative numbers.

A text is stripped by itself. In columns of numbers, dates and booleans, a text is stripped only if
it has no value as it is written, so that a number means the same in every stored type. In columns
of texts and categories, every text is stripped, and so is the text of a value of another type.
"""

from __future__ import annotations

import re

from dprelease.query import quoting
from dprelease.schema.columns import Column
from dprelease.schema.public_values.text_signs import BLANKS

MINUS = "\u2212"


def stripped_sql(text: str, column: Column) -> str | None:
    """Return SQL of a text without its signs; None if the column declares no signs.

    A text of signs alone is missing: as an id, it would be the same person in all such rows.
    """
    signs = getattr(column, "signs", ())
    forms = getattr(column, "negative", ())
    if not signs and not forms:
        return None
    text = _strip_sql(text, signs)
    if f"{MINUS}1" in forms:
        text = f"replace({text}, {quoting.text(MINUS)}, '-')"
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
