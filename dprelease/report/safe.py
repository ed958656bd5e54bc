"""Texts of others as a page may have them, whoever has written them."""

from __future__ import annotations

from dprelease.errors.printable import one_line

LONGEST = 200
"""Letters of a label in a page; a longer one is cut, and says so."""

SPACE = "\u00a0"
"""Between a number and its unit, where no line may break."""

KEPT = dict(zip(("\u200c", "\u200d", SPACE, "\u202f"), "\ue000\ue001\ue002\ue003", strict=True))
"""Joiners of letters, and spaces where no line breaks: they hide nothing and turn nothing around.

Each with a sign for private use that stands for it meanwhile.
"""


def printable_text(text: str, longest: int | None = LONGEST) -> str:
    """Return a text in one line, without signs that are obeyed or hidden, cut to a length."""
    if longest is not None and len(text) > longest:
        text = f"{text[: longest - 1]}\u2026"
    if text.isprintable() and text.isascii():
        return text
    for sign, private in KEPT.items():
        text = text.replace(private, "\ufffd").replace(sign, private)
    private_signs = {ord(private): sign for sign, private in KEPT.items()}
    parts = (one if ord(one) in private_signs else one_line(one) for one in text)
    return "".join(parts).translate(private_signs)
