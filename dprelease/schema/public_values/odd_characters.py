"""Find characters in declared texts that can't be seen, or that look like other characters.

Such a text looks right, and matches no value of the data, or only values with the same character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from dprelease.errors.printable import one_line

PLAIN = re.compile("[!-~]([ -~]*[!-~])?")
"""The pattern of texts that need no further examination: visible ASCII, and blanks inside."""

BLANK_PATTERN = "\u2800"
"""The Braille pattern without dots, which is printable, and shows nothing."""

LATIN_LOOKALIKES = dict(
    zip(
        "АВЕЅІЈКМНОРСТУХаеоѕіјрсухһԁԛԝ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονϲϳ",
        "ABESIJKMHOPCTYXaeosijpcyxhdqw" + "ABEZHIKMNOPTYXovcj",
        strict=True,
    )
)
"""Cyrillic and Greek letters, each with the Latin letter that it looks like."""


def odd_characters(text: str, *, among_latin: bool = False) -> list[str]:
    """Return descriptions of the odd characters of a text, each once, in order.

    `among_latin`: whether the text stands among texts with Latin letters, so that a text of
    look-alikes alone, such as a Cyrillic А, is also odd.
    """
    if PLAIN.fullmatch(text) or not text:
        return []
    found = [_blank_name(end) for end in (text[0], text[-1]) if end == " "]
    found += [_character_name(c) for c in text if _is_invisible(c)]
    found += [_lookalike_text(letter) for letter in _lookalikes(text, among_latin=among_latin)]
    composed = unicodedata.normalize("NFC", text)
    if composed != text:
        found.append(f"{_decomposed_text(text, composed)} as two characters")
    return list(dict.fromkeys(found))


def odd_texts(texts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the texts of a list that have odd characters, with descriptions of these."""
    if all(map(PLAIN.fullmatch, texts)):
        return
    latin = any(re.search("[A-Za-z]", text) for text in texts)
    for text in texts:
        found = odd_characters(text, among_latin=latin)
        if found:
            yield text, found


def _is_invisible(character: str) -> bool:
    """Return whether a character other than a blank shows nothing, or changes how others show."""
    return one_line(character) != character or character == BLANK_PATTERN


def _lookalikes(text: str, *, among_latin: bool) -> list[str]:
    """Return the letters of a text that look like Latin letters in a word of Latin letters."""
    letters: list[str] = []
    for word in re.findall(r"[^\W\d_]+", text):
        alike = [letter for letter in word if letter in LATIN_LOOKALIKES]
        latin = any(_is_latin(letter) for letter in word)
        if alike and (latin or (among_latin and len(alike) == len(word))):
            letters += alike
    return letters


def _is_latin(letter: str) -> bool:
    return unicodedata.name(letter, "").startswith("LATIN ")


def _character_name(character: str) -> str:
    """Return the code point and the name of a character."""
    return f"U+{ord(character):04X} {unicodedata.name(character, 'without a name')}"


def _blank_name(character: str) -> str:
    return f"{_character_name(character)} at an end"


def _lookalike_text(letter: str) -> str:
    return f"{_character_name(letter)}, which looks like {LATIN_LOOKALIKES[letter]}"


def _decomposed_text(text: str, composed: str) -> str:
    """Return the description of the first character that a text writes as several characters."""
    at = next((i for i, (a, b) in enumerate(zip(text, composed, strict=False)) if a != b), 0)
    return _character_name(composed[at : at + 1] or composed[-1])
