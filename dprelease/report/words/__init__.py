"""The report's texts: one module per language, named by its language tag.

`SENTENCES`: every sentence by its name, as HTML with `{places}` for values; all languages use the
names of `en`. `DECIMAL` and `THOUSANDS`: the separators of numbers.

The sentences are trusted HTML; values are escaped when they are inserted.

**Labels** are escaped, and their length is bounded. A label may be malicious, or written from right
to left. So each label is isolated, and characters are removed that would reverse or hide the text
after the label.
"""

import importlib
import math
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

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
from dprelease.numerics.rounding import plain_text
from dprelease.schema.release_parts.about import UNDETERMINED

DEFAULT = "en"
NOTHING = "\u2013"
"""Text for a missing number."""


@dataclass(frozen=True, slots=True)
class Words:
    """The sentences of one language by name."""

    language: str
    sentences: Mapping[str, str]
    decimal: str
    thousands: str

    def say(self, name: str, /, **values: object) -> Markup:
        """Return a sentence with inserted values, each escaped unless it is trusted HTML."""
        safe = {
            place: value if isinstance(value, Markup) else printable_text(str(value), None)
            # Labels and names come from declarations and from other people's manifests.
            for place, value in values.items()
        }
        return Markup(self.sentences[name]).format(**safe)

    def plain(self, name: str, /, **values: object) -> str:
        """Return a sentence as plain text, for pictures and their alternative texts."""
        return self.sentences[name].format(**values)

    def many(self, name: str, number: int, /, **values: object) -> Markup:
        """Return the sentence about a number of things, in the singular or in the plural."""
        return self.say(self.sentence_name(name, number), number=self.number(number), **values)

    def sentence_name(self, name: str, number: int, /) -> str:
        """Return the name of the sentence for a number of things."""
        return f"{name}.one" if number == 1 else name

    def number(self, value: float | None, decimals: int | None = None) -> str:
        """Return a number: integers in full, others with three significant digits."""
        if value is None or not math.isfinite(value):
            return NOTHING
        short = decimals is None
        if decimals is None:
            size = abs(value)
            if value == int(value) and size < 1e15:
                decimals = 0
            elif size >= 1e15 or size < 1e-4:
                return self._localized_separators(f"{value:.3g}")
            else:
                decimals = max(0, 2 - math.floor(math.log10(size)))
        text = f"{value:,.{decimals}f}"
        if short and "." in text:
            text = text.rstrip("0").rstrip(".")
        return self._localized_separators(
            # A noisy number that rounds to zero must not be written as -0.
            "0" if text.strip("-0.,") == "" and decimals == 0 else text
        )

    def percent(self, part: float | None, *, up: bool = False) -> str:
        """Return a share as a percentage.

        `up`: whether the share is an upper bound, which is rounded up. No share above 0 is written
        as 0 %, and no share below 1 as 100 % unless it is rounded up.
        """
        if part is None or not math.isfinite(part):
            return NOTHING
        if 0.0 < part < 0.001:
            return self._localized_separators(f"<{SPACE}0.1{SPACE}%")
        if 0.999 < part < 1.0 and not up:
            return self._localized_separators(f">{SPACE}99.9{SPACE}%")
        if part >= 10.0:
            return f"{self.number(float(f'{100.0 * part:.2g}'))}{SPACE}%"
        tenths = 1000.0 * part
        rounded = math.ceil(tenths - 1e-9) if up else round(tenths)
        text = f"{rounded / 10.0:.1f}".removesuffix(".0")
        return self._localized_separators(f"{text}{SPACE}%")

    def exactly(self, value: Fraction) -> str:
        """Return a declared number with all its digits, unless it has too many."""
        text = plain_text(value)
        if len(text) > 16:
            return self._localized_separators(f"{float(value):g}")
        whole, point, decimals = text.removeprefix("-").partition(".")
        return self._localized_separators(f"{'-' * (value < 0)}{int(whole):,}{point}{decimals}")

    def _localized_separators(self, text: str) -> str:
        """Return a number with the separators and the minus sign of the language."""
        signs = {".": self.decimal, ",": self.thousands, "-": "\u2212"}
        return "".join(signs.get(sign, sign) for sign in text)


def to_three_digits(value: float) -> float:
    """Return a number with three significant digits."""
    return float(f"{value:.3g}")


def round_up_to_three_digits(value: float) -> float:
    """Return a number rounded up to three significant digits, or to an integer if it is larger.

    Rounding up keeps an upper bound of an error an upper bound.
    """
    rounded = to_three_digits(value)
    if abs(value) < 1000.0 and value == int(value):
        return value
    if rounded < value and not math.isclose(rounded, value, rel_tol=1e-12):
        rounded = to_three_digits(rounded + 10.0 ** (math.floor(math.log10(abs(value))) - 2))
    return rounded


def languages() -> list[str]:
    """Return the languages of the report's texts."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def words_in(language: str) -> Words:
    """Return the texts of a language; in English if there are none in that language."""
    primary = language.split("-")[0].lower()
    name = primary if primary in languages() else DEFAULT
    module = importlib.import_module(f"{__name__}.{name}")
    return Words(name, module.SENTENCES, module.DECIMAL, module.THOUSANDS)


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
