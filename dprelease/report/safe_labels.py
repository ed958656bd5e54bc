"""Make labels in one language safe for a page: escaped, of bounded length, and isolated.

A label may be malicious, or written from right to left. So each label is isolated, and characters
are removed that would reverse or hide the text after the label.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup, escape

from dprelease.documents.limit_labels import companion_word
from dprelease.documents.metadata import (
    Code,
    ColumnMetadata,
    Metadata,
    TableMetadata,
    Texts,
    code_text,
)
from dprelease.errors.printable import one_line
from dprelease.schema.release_parts.about import UNDETERMINED

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


BREAKS = re.compile(r"(?<=[A-Za-z0-9][_.])(?=[A-Za-z])(?![^<]*>)")
"""Break points in names of several parts, such as people.age or discrete_laplace, but not in
HTML entities."""


def breakable(cell: str) -> Markup:
    """Return a table cell whose names may break between their parts."""
    return Markup("<wbr>").join(Markup(part) for part in BREAKS.split(str(escape(cell))))


@dataclass(frozen=True, slots=True)
class Names:
    """The labels of a release in one language, or in its first language."""

    metadata: Metadata
    language: str
    longest_paragraph: int = LONGEST_PARAGRAPH

    def text(self, texts: Texts, fallback: str = "", longest: int = LONGEST) -> Markup:
        """Return a declared text marked with its language; the fallback if no text was declared."""
        for language in (self.language, self.metadata.language):
            if texts.get(language):
                return self._bidi_isolate(texts[language], language, longest)
        return self._bidi_isolate(fallback) if fallback else Markup("")

    @property
    def estimates(self) -> Markup:
        """The word with which the titles of tables of estimates end."""
        languages = self.metadata.languages
        language = self.language if self.language in languages else self.metadata.language
        return self._bidi_isolate(companion_word("estimates", language), language)

    def paragraph(self, texts: Texts) -> Markup:
        """Return a declared note or description marked with its language."""
        return self.text(texts, longest=self.longest_paragraph)

    def name(self, text: str, longest: int = LONGEST) -> Markup:
        """Return a text that is not a label: a name, a code, or a text by other authors."""
        return self._bidi_isolate(text, longest=longest)

    def sentence(self, text: str, longest: int = LONGEST) -> Markup:
        """Return a sentence of the manifest, with names in backticks formatted as code."""
        parts = printable_text(text, longest).split("`")
        if len(parts) % 2 == 0:  # a truncated sentence may have an unpaired backtick
            return self.name(text, longest)
        set_ = [
            Markup("<code>{}</code>").format(part) if i % 2 else escape(part)
            for i, part in enumerate(parts)
        ]
        return Markup("<bdi>{}</bdi>").format(Markup("").join(set_))

    def table(self, table: TableMetadata) -> Markup:
        """Return the title of a table."""
        return self.text(table.label, table.name.removeprefix("tables/"))

    def column(self, column: ColumnMetadata) -> Markup:
        """Return the title of a column."""
        return self.text(column.label, column.name)

    def value(self, column: ColumnMetadata, code: Code) -> Markup:
        """Return the label of a value of a key."""
        labels = {} if column.codes is None else column.codes.labels.get(code, {})
        return self.text(labels, code_text(code))

    def value_with_code(self, column: ColumnMetadata, code: Code) -> Markup:
        """Return the label of a value of a key, followed by its code unless a word is the code."""
        label = self.value(column, code)
        plain = self.plain_value(column, code)
        text = code_text(code)
        if plain == printable_text(text) or text in re.split(r"\W+", plain):
            return label
        return Markup("{} ({})").format(label, self.name(text))

    def plain_value(self, column: ColumnMetadata, code: Code) -> str:
        """Return the label of a value as plain text."""
        labels = {} if column.codes is None else column.codes.labels.get(code, {})
        return self.plain(labels, code_text(code))

    def plain(self, texts: Texts, fallback: str, longest: int = LONGEST) -> str:
        """Return a label as plain text, for an alternative text."""
        for language in (self.language, self.metadata.language):
            if texts.get(language):
                return printable_text(texts[language], longest)
        return printable_text(fallback, longest)

    def _bidi_isolate(self, text: str, language: str = "", longest: int = LONGEST) -> Markup:
        """Return a text whose direction of writing does not affect its surroundings."""
        if language in ("", UNDETERMINED):
            return Markup("<bdi>{}</bdi>").format(printable_text(text, longest))
        return Markup('<bdi lang="{}">{}</bdi>').format(language, printable_text(text, longest))
