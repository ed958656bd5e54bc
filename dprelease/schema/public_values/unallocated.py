"""The value for rows whose code is missing or not declared: "not stated", "county unknown".

With `unallocated`, a category or a cut has one more value, `_X`, the code of SDMX for "not
allocated". In a category within another one, each area has one more part, such as `BE_X` for the
rows of the area BE whose own code is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema, model_validator

from dprelease.schema.field_types import TEXT_SCHEMA, refuse
from dprelease.schema.localized_text import EVERY, LocalizedText, to_label
from dprelease.schema.public_values.missing_codes import Filled

UNALLOCATED = "_X"
"""The code of the value, in every column; the end of the codes of parts of areas."""

_NOT_STATED = {
    "en": "Not stated",
    "de": "Ohne Angabe",
    "fr": "Non déclaré",
    "es": "No consta",
    "it": "Non indicato",
    "nl": "Niet opgegeven",
    "pt": "Não declarado",
}
_AREA_UNKNOWN = {
    "en": "area unknown",
    "de": "Gebiet unbekannt",
    "fr": "zone inconnue",
    "es": "área desconocida",
    "it": "area sconosciuta",
    "nl": "gebied onbekend",
    "pt": "área desconhecida",
}


@dataclass(frozen=True, slots=True)
class ResidualLabel(LocalizedText):
    """The label of an unallocated value, in English for languages that it does not have."""

    @property
    def languages(self) -> None:
        """None, because the label serves all languages."""
        return None

    def texts(self, languages: Sequence[str]) -> dict[str, str]:
        """Return the text in each of the given languages."""
        return {tag: _text_in(self.by_language, tag) for tag in languages}


def _text_in(texts: Mapping[str, str], tag: str) -> str:
    """Return the text in a language, in the same language elsewhere, or the text for all others."""
    found = texts.get(tag, texts.get(tag.partition("-")[0]))
    return found or next(texts[key] for key in (EVERY, "en", *texts) if key in texts)


def unallocated_part(area: str) -> str:
    """Return the code of the part of an area to which rows with unknown parts are assigned."""
    return UNALLOCATED if area == UNALLOCATED else area + UNALLOCATED


def _to_unallocated(value: object) -> object:
    """Return whether there is an unallocated value, or the declared label of this value."""
    if value in (True, False, "true", "false"):
        return value in (True, "true")
    return to_label(value)


_LABEL = {"type": "object", "additionalProperties": TEXT_SCHEMA}
_SCHEMA = WithJsonSchema({"anyOf": [{"type": "boolean"}, TEXT_SCHEMA, _LABEL]})


class Allocatable(Filled):
    """A column of declared values that may have a value for all rows without one of them.

    `unallocated: true` adds the value `_X` ("Not stated") for missing and for undeclared codes; a
    text, or one text per language, is its label. `fill` and `others` may still name other values.
    """

    unallocated: Annotated[bool | LocalizedText, BeforeValidator(_to_unallocated), _SCHEMA] = False

    @model_validator(mode="before")
    @classmethod
    def _cover_all_rows(cls, raw: Any) -> Any:
        """Assign missing and undeclared codes to the unallocated value, unless declared."""
        if not isinstance(raw, Mapping) or raw.get("unallocated", False) in (False, "false"):
            return raw
        fill = raw.get("fill", raw.get("nulls", UNALLOCATED))
        others = raw.get("others", UNALLOCATED)
        if UNALLOCATED not in (fill, others):
            problem = "`fill` and `others` assign all rows already, so that it would be empty"
            refuse("DP-DECL-003", problem=problem, key="unallocated")
        if "within" in raw and (fill, others) != (UNALLOCATED, UNALLOCATED):
            problem = "a category within another one can't have `fill` or `others` as well"
            refuse("DP-DECL-003", problem=problem, key="unallocated")
        # `nulls` is the former name of `fill`, and both together would be refused.
        rest = {key: value for key, value in raw.items() if key != "nulls"}
        return {**rest, "fill": fill, "others": others}

    @property
    def has_unallocated(self) -> bool:
        """Whether the column has a value for rows whose code is missing or not declared."""
        return self.unallocated is not False

    def unallocated_labels(
        self, areas: Mapping[str, LocalizedText | None]
    ) -> dict[str, LocalizedText]:
        """Return the labels of the unallocated values, by code.

        `areas` has the areas that contain the values, with their labels; it is empty for a column
        that lies within no other.
        """
        if not self.has_unallocated:
            return {}
        own = self.unallocated.by_language if isinstance(self.unallocated, LocalizedText) else {}
        found: dict[str, LocalizedText] = {UNALLOCATED: ResidualLabel(own or _NOT_STATED)}
        for area, label in areas.items():
            if isinstance(label, ResidualLabel):  # the area is unknown itself
                found[unallocated_part(area)] = label
            else:
                texts = {EVERY: area} if label is None else label.by_language
                found[unallocated_part(area)] = _part_label(texts, own or _AREA_UNKNOWN)
        return found


def _part_label(area: Mapping[str, str], part: Mapping[str, str]) -> ResidualLabel:
    """Return the label of an area's unallocated part, in the languages of either label."""
    tags = {*area, *part} - {EVERY} or {EVERY}
    return ResidualLabel({t: f"{_text_in(area, t)}, {_text_in(part, t)}" for t in sorted(tags)})


def refuse_declared_code(values: Iterable[str], added: Iterable[str]) -> None:
    """Raise DP-DECL-003 if a declared value has the code of an unallocated value."""
    taken = next(iter({*added}.intersection(values)), None)
    if taken is not None:
        problem = f"`unallocated` adds the value '{taken}', which is declared already"
        refuse("DP-DECL-003", problem=problem, key="unallocated")
