"""Make untrusted texts safe for a page."""

from __future__ import annotations

from dprelease.errors.printable import one_line

LONGEST = 200
"""Maximum number of characters of a label in a page; a longer label is truncated and marked."""

LONGEST_PARAGRAPH = 2_000
"""Maximum number of characters of a note or a description."""

SPACE = "\u00a0"
"""Non-breaking space between a number and its unit."""

ALLOWED_INVISIBLE = dict(
    zip(("\u200c", "\u200d", SPACE, "\u202f"), "\ue000\ue001\ue002\ue003", strict=True)
)
"""Allowed joiners of letters and non-breaking spaces, which neither hide nor reverse text.

Each is temporarily replaced by a private use character.
"""


def printable_text(text: str, longest: int | None = LONGEST) -> str:
    """Return a text in one line, truncated, and without control or invisible characters."""
    if longest is not None and len(text) > longest:
        text = f"{text[: longest - 1]}\u2026"
    if text.isprintable() and text.isascii():
        return text
    for sign, private in ALLOWED_INVISIBLE.items():
        text = text.replace(private, "\ufffd").replace(sign, private)
    private_signs = {ord(private): sign for sign, private in ALLOWED_INVISIBLE.items()}
    parts = (one if ord(one) in private_signs else one_line(one) for one in text)
    return "".join(parts).translate(private_signs)
