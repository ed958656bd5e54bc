"""Texts as they may leave for a terminal, whoever has written what stands in them.

Names, titles and values come from files, and a terminal obeys some characters in place of showing
them: it moves its cursor, changes its title, reverses what follows, or shows nothing. Such
characters are shown as JSON writes them, the escape as \\u001b, so that an answer in JSON stays the
same value. What they stand in is not changed: files, and what Python gets, hold them as they are.
"""

from __future__ import annotations

import json
import re

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that nothing is shown of.

Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, without what Python knows to be
no letter: controls, formats (all that is bidirectional or of no width) and what is not assigned.
"""


def printable(text: str) -> str:
    """Return a text of several lines without what a terminal would obey, or not show."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def one_line(text: str) -> str:
    """Return a text without what a terminal would obey, or not show; a line end is such, too.

    What comes from outside is put into lines by this: else it could write lines of its own.
    """
    if text.isprintable() and (text.isascii() or not _BLANK.search(text)):
        return text
    return "".join(c if c.isprintable() and not _BLANK.match(c) else _escape(c) for c in text)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def amount(number: int, one: str, more: str) -> str:
    """Return a number with the word for what is counted: 1 file, 2 files."""
    return f"{number:,} {one if number == 1 else more}"
