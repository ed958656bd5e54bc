"""Make texts from any author safe for a terminal.

Names, titles and values come from files, and a terminal obeys some characters instead of showing
them: it moves its cursor, changes its title, reverses the text that follows, or shows nothing. Such
characters are escaped as in JSON, the escape character as \\u001b, so that an answer in JSON keeps
its value. Files, and values in Python, keep the characters unchanged.
"""

from __future__ import annotations

import json
import re

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are invisible on a screen.

These are the characters with the property Default_Ignorable_Code_Point in Unicode's file
DerivedCoreProperties.txt, except those that Python already treats as not printable: control and
format characters, and unassigned code points.
"""


def printable(text: str) -> str:
    """Return a text of several lines, with control and invisible characters escaped."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def one_line(text: str) -> str:
    """Return a text in one line, with control and invisible characters and line ends escaped.

    Every text from outside passes this function before it becomes a part of a line, because a line
    end in the text would start a new line of the message.
    """
    if text.isprintable() and (text.isascii() or not _BLANK.search(text)):
        return text
    return "".join(c if c.isprintable() and not _BLANK.match(c) else _escape(c) for c in text)


def _escape(character: str) -> str:
    """Return a character as JSON escapes it."""
    return json.dumps(character)[1:-1]


def count_text(number: int, one: str, more: str) -> str:
    """Return a number with the noun for what is counted: 1 file, 2 files."""
    return f"{number:,} {one if number == 1 else more}"
