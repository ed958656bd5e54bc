"""The fixed texts of workbooks: one module per language, named by its language tag.

`WORDS`: every text by its name, with `{places}` for values; all languages have the names of `en`.
`DECIMAL`: the decimal sign in texts. Cells have number formats, which Excel localizes.
"""

import importlib
import math
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_UP, Context
from fractions import Fraction

from dprelease.documents.limit_labels import companion_word
from dprelease.exports.export import PublishedRelease
from dprelease.exports.names import text_in
from dprelease.numerics.rounding import plain_text
from dprelease.schema.load import declaration_from_texts

DEFAULT = "en"


@dataclass(frozen=True, slots=True)
class WorkbookWords:
    """The fixed texts of a workbook, and the language of its labels.

    `language`: the language of the release's texts; `fixed_language`: that of the fixed texts,
    which is English if there are none in that language.
    `id_labels`: the label of each id column of a privacy unit that has one.
    """

    language: str
    fixed_language: str
    sentences: Mapping[str, str]
    decimal: str
    id_labels: Mapping[str, str] = field(default_factory=dict)

    def say(self, name: str, **values: object) -> str:
        """Return a text with inserted values."""
        return self.sentences[name].format(**values)

    def unit(self, name: str) -> str:
        """Return a unit for readers: for an id column, its label if it has one."""
        return self.id_labels.get(name, name)

    @property
    def total(self) -> str:
        """Return the label of totals."""
        return companion_word("total", self.language).capitalize()

    def bound(self, share: float) -> str:
        """Return an upper bound in percent, without the sign: rounded up to one decimal."""
        return self.number(f"{math.ceil(1000.0 * share) / 10.0:.1f}".removesuffix(".0"))

    def parameter(self, text: str) -> str:
        """Return a privacy parameter, a decimal text, rounded up to four significant digits."""
        rounded = Context(prec=4, rounding=ROUND_UP).create_decimal(text)
        return self.number(f"{rounded.normalize():f}")

    def percent(self, share: str) -> str:
        """Return a declared share, a decimal text, in percent without the sign."""
        return self.number(plain_text(100 * Fraction(share)))

    def number(self, text: str) -> str:
        """Return a decimal number with the decimal sign of the language."""
        return text.replace(".", self.decimal)


def workbook_words(language: str) -> WorkbookWords:
    """Return the texts in a language; in English if there are none in that language."""
    fixed_language = language.partition("-")[0].lower()
    known = {module.name for module in pkgutil.iter_modules(__path__)}
    fixed_language = fixed_language if fixed_language in known else DEFAULT
    module = importlib.import_module(f"{__name__}.{fixed_language}")
    return WorkbookWords(language, fixed_language, module.WORDS, module.DECIMAL)


def release_words(release: PublishedRelease, language: str) -> WorkbookWords:
    """Return the texts in a language, with the labels of the id columns of a release."""
    held, metadata = release.central.declaration, release.metadata
    tables = declaration_from_texts(held.texts, held.release, held.variables).tables
    labels = {}
    for unit in release.central.privacy_unit:
        columns = tables[unit.table].table.columns if unit.table in tables else {}
        column = columns.get(unit.id or "")
        if column is not None and column.label is not None:
            label = text_in(column.label.texts(metadata.languages), metadata, language)
            labels[str(unit.id)] = label
    return replace(workbook_words(language), id_labels=labels)
