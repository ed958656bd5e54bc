"""Load the report's texts in one language, and format numbers in that language.

A language is one module of `words`: a mapping of names to sentences, and two separators of numbers.
The sentences are trusted HTML; values are escaped when they are inserted.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from markupsafe import Markup

from dprelease.numerics.rounding import plain_text
from dprelease.report import words
from dprelease.report.safe_labels import SPACE, printable_text

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
    return sorted(module.name for module in pkgutil.iter_modules(words.__path__))


def words_in(language: str) -> Words:
    """Return the texts of a language; in English if there are none in that language."""
    primary = language.split("-")[0].lower()
    name = primary if primary in languages() else DEFAULT
    module = importlib.import_module(f"{words.__name__}.{name}")
    return Words(name, module.SENTENCES, module.DECIMAL, module.THOUSANDS)
