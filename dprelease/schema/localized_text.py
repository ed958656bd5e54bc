"""Declared texts for readers: labels, descriptions and footnotes, in one or several languages.

Many programs that display these texts interpret some characters: terminals, workbooks, XML, web
pages. So a text must be one line of visible characters. Characters that hide, reverse or break the
text are refused when the text is declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from dprelease.schema.field_types import TEXT_SCHEMA, ShortForm, Whole, refuse
from dprelease.schema.model import Model

EVERY = ""
"""The key of a text that is the same in every language of a release."""

LONGEST_LABEL, LONGEST_TEXT = 200, 1000
MOST_FOOTNOTES, MOST_DECIMALS = 20, 18

# Ranges, and not Unicode categories, which change with the Python version: all versions must accept
# the same releases. Joiners, direction marks and variation selectors are allowed, because they are
# part of the spelling of many languages.
_NO_TEXT = {
    "a line break": "\n\r\v\f\x85\u2028\u2029",
    "a control character": "\0-\x1f\x7f-\x9f",
    "a character that changes the text direction": "\u202a-\u202e\u2066-\u2069",
    "an invisible character": (
        "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff"
        "\uffa0\ufff0-\ufffb\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
    ),
    "a code point that is not a character": (
        "\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"
        + "".join(chr(plane + end) for plane in range(1 << 16, 15 << 16, 1 << 16)
                  for end in (0xFFFE, 0xFFFF))
    ),
}  # fmt: skip
NO_TEXT = [(words, re.compile(f"[{marks}]")) for words, marks in _NO_TEXT.items()]
ANY_OF_THEM = re.compile(f"[{''.join(_NO_TEXT.values())}]")

LANGUAGE = r"([A-Za-z]{2,3})(-[A-Za-z]{4})?(-(?:[A-Za-z]{2}|[0-9]{3}))?((?:-[A-Za-z0-9]{5,8})*)"
"""A BCP 47 tag: language, script, region and variants."""


@dataclass(frozen=True, slots=True)
class LocalizedText:
    """A declared text by language tag; the text under `EVERY` is the same in all languages."""

    by_language: Mapping[str, str]

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages of the text; None if one text serves all languages."""
        return None if EVERY in self.by_language else frozenset(self.by_language)

    def texts(self, languages: Sequence[str]) -> dict[str, str]:
        """Return the text in each of the given languages, which must be declared."""
        every = self.by_language.get(EVERY)
        return {tag: self.by_language[tag] if every is None else every for tag in languages}


def to_language(value: object) -> str:
    """Return the normalized language tag, such as en, pt-BR or zh-Hant."""
    match = re.fullmatch(LANGUAGE, value) if isinstance(value, str) else None
    if match is None:
        refuse("DP-LABEL-004", found=str(value)[:60], problem="is not a language tag")
    language, script, region, variants = (part or "" for part in match.groups())
    return language.lower() + script.title() + region.upper() + variants.lower()


def display_problem(text: str, most: int) -> str | None:
    """Return the reason why a text can't be displayed everywhere; None if it can be."""
    if not text:
        return "it is empty"
    if len(text) > most:
        return f"it has {len(text):,} characters, more than {most:,}"
    # One search is enough for nearly all texts; a file may have millions of labels.
    if ANY_OF_THEM.search(text) is None:
        return None
    description, mark = next(
        (description, found[0]) for description, marks in NO_TEXT if (found := marks.search(text))
    )
    return f"it holds {description} (U+{ord(mark):04X})"


def to_line(value: object, most: int = LONGEST_TEXT) -> str:
    """Return a text as one line, without white space at its ends."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        several = isinstance(value, Mapping)
        why = "it must be one text for all languages" if several else "it is not a text"
        refuse("DP-LABEL-001", problem=why)
    text = text.strip()
    problem = display_problem(text, most)
    if problem is not None:
        refuse("DP-LABEL-001", problem=problem)
    return text


def to_localized_text(value: object, most: int = LONGEST_TEXT) -> LocalizedText:
    """Return a localized text: one text for all languages, or one text per language."""
    if isinstance(value, LocalizedText):
        return value
    if not isinstance(value, Mapping):
        return LocalizedText({EVERY: to_line(value, most)})
    if not value:
        refuse("DP-LABEL-001", problem="it is empty")
    texts: dict[str, str] = {}
    for tag, text in value.items():
        language = _apply_at_key(str(tag), to_language, tag)
        if language in texts:
            refuse("DP-LABEL-004", key=str(tag), found=language, problem="is listed twice")
        texts[language] = _apply_at_key(str(tag), partial(to_line, most=most), text)
    return LocalizedText(texts)


def _apply_at_key(key: str, parse: Callable[[object], str], value: object) -> str:
    """Return the result of `parse` for a value, whose error is reported at a key."""
    try:
        return parse(value)
    except PydanticCustomError as problem:
        refuse(problem.type, **{**(problem.context or {}), "key": key})


to_label = partial(to_localized_text, most=LONGEST_LABEL)


def labels_of_values(
    values: Mapping[object, object], *keys: str
) -> Iterator[tuple[str, LocalizedText]]:
    """Yield listed values with their labels; an error is reported at its value, below `keys`."""
    for value, labels in values.items():
        try:
            yield str(value), to_label(labels)
        except PydanticCustomError as problem:
            context = {
                name: part for name, part in (problem.context or {}).items() if name != "key"
            }
            refuse(problem.type, spot=(*keys, str(value)), **context)


def _as_list(value: object) -> object:
    """Return a list with a single text, or the list as it is."""
    return [value] if isinstance(value, str | Mapping) else value


_BY_LANGUAGE = {"type": "object", "minProperties": 1, "additionalProperties": TEXT_SCHEMA}
_TEXT_OR_TEXTS = WithJsonSchema({"anyOf": [TEXT_SCHEMA, _BY_LANGUAGE]})

Line = Annotated[str, BeforeValidator(to_line), WithJsonSchema({"type": ["string", "integer"]})]
Language = Annotated[str, BeforeValidator(to_language), WithJsonSchema(TEXT_SCHEMA)]
Label = Annotated[LocalizedText, BeforeValidator(to_label), _TEXT_OR_TEXTS]
Prose = Annotated[LocalizedText, BeforeValidator(to_localized_text), _TEXT_OR_TEXTS]
Texts = Annotated[
    tuple[Prose, ...],
    BeforeValidator(_as_list),
    Field(max_length=MOST_FOOTNOTES),
    ShortForm(TEXT_SCHEMA, _BY_LANGUAGE),
]
"""Several texts in order; a single text may be written without a list."""
Decimals = Annotated[Whole, Field(ge=0, le=MOST_DECIMALS)]
ValueLabels = dict[str, Label]


class Documented(Model):
    """Descriptions for readers of a table, a column or a key."""

    label: Label | None = None
    description: Prose | None = None
    footnotes: Texts = ()
