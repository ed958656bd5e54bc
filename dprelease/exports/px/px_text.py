"""Write keywords and cells as the PX file format requires (AXIS-VERSION 2013).

A text stands in quotation marks, so it can't contain any. A long text is written in several lines,
each in quotation marks; a list is broken after a comma. Only names in parentheses can make a line
longer than 256 characters, because a line can't end between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TextIO

from dprelease.schema.release_parts.about import UNDETERMINED

LINE = 256
"""Maximum characters of a line."""

TEXT = LINE - 3
"""Maximum characters of a name, or of a part of a text, which stand in quotation marks."""

ENGLISH = "en"
"""The language of a file if the release declares none; it is that of the fixed texts."""

TextsIn = Callable[[str], Iterable[str]]
"""A function that returns texts in a language of the release."""


class Keywords:
    """Writes keywords into a file, in every language of the release.

    `languages`: the languages; the first one is the main language of the file. `tags`: what follows
    a keyword in each language.
    """

    def __init__(self, file: TextIO, languages: Sequence[str]) -> None:
        self._file = file
        codes = language_codes(languages)
        self.tags = dict(zip(languages, ["", *(f"[{code}]" for code in codes[1:])], strict=True))

    def write(self, keyword: str, value: str, keys: Sequence[str] = ()) -> None:
        """Write a keyword without languages, whose value has no quotation marks."""
        self._write_lines(f"{keyword}{_in_parentheses(keys)}=", [value])

    def write_texts(self, keyword: str, texts: Sequence[str], keys: Sequence[str] = ()) -> None:
        """Write a list of texts that is the same in all languages."""
        self._write_lines(f"{keyword}{_in_parentheses(keys)}=", list(map(_quote, texts)))

    def write_texts_in(
        self, keyword: str, texts: TextsIn, keys: TextsIn = lambda _language: ()
    ) -> None:
        """Write a list of texts in each language; `keys`: the names in parentheses."""
        for language, tag in self.tags.items():
            if found := list(texts(language)):
                head = f"{keyword}{tag}{_in_parentheses(keys(language))}="
                self._write_lines(head, list(map(_quote, found)))

    def write_notes_in(
        self, keyword: str, notes: TextsIn, keys: TextsIn = lambda _language: ()
    ) -> None:
        """Write paragraphs in each language, as one text; `##` separates paragraphs."""
        for language, tag in self.tags.items():
            text = "##".join(
                "#".join(map(clean_text, note.splitlines())) for note in notes(language)
            )
            parts = [_quote(text[i : i + TEXT]) for i in range(0, len(text), TEXT)]
            if parts:
                head = f"{keyword}{tag}{_in_parentheses(keys(language))}="
                self._write_lines(head, parts, between="")

    def write_cells(self, cells: Iterable[str], per_row: int) -> None:
        """Write the cells of the cube, which end the file; a row of cells begins a line."""
        self._file.write("DATA=")
        length = 0
        for i, cell in enumerate(cells):
            length += 1 + len(cell)
            if i % per_row == 0 or length >= LINE:
                self._file.write(" \n" if i else "\n")
                length = len(cell)
            else:
                self._file.write(" ")
            self._file.write(cell)
        self._file.write(";\n")

    def _write_lines(self, head: str, parts: Sequence[str], between: str = ",") -> None:
        """Write a keyword and the parts of its value, as many in each line as fit."""
        lines = [head]
        for i, part in enumerate(parts, 1):
            piece = part + (between if i < len(parts) else ";")
            if len(lines[-1]) + len(piece) > LINE:
                lines.append("")
            lines[-1] += piece
        self._file.write("\n".join(lines) + "\n")


def unique_texts(texts: Iterable[str]) -> list[str]:
    """Return texts as different names that the format can hold, none of them empty."""
    taken: dict[str, None] = {}
    for text in texts:
        whole = clean_text(text)[:TEXT].strip() or "-"
        name, number = whole, 1
        while name in taken:
            number += 1
            ending = f" ({number})"
            name = whole[: TEXT - len(ending)] + ending
        taken[name] = None
    return list(taken)


def clean_text(text: str) -> str:
    """Return a text in one line, without the quotation marks that a PX file can't hold."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text.replace('"', "'"))


def plain_number(text: str) -> str:
    """Return a number without exponent."""
    return f"{Decimal(text):f}" if "e" in text else text


def _quote(text: str) -> str:
    return f'"{clean_text(text)}"'


def _in_parentheses(names: Iterable[str]) -> str:
    quoted = ",".join(map(_quote, names))
    return f"({quoted})" if quoted else ""


def language_codes(languages: Sequence[str]) -> list[str]:
    """Return codes of languages: of two or three letters, or the whole tags if these differ."""
    short = [tag.partition("-")[0].lower() for tag in languages]
    codes = short if len(set(short)) == len(short) else languages
    return [ENGLISH if code == UNDETERMINED else code for code in codes]
