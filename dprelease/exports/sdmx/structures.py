"""Build the structures of all cubes: concepts, code lists, data structures, dataflows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

from dprelease.documents.limit_labels import WORDS
from dprelease.documents.metadata import ColumnMetadata, Metadata, Texts, code_text
from dprelease.exports.sdmx.sdmx_cubes import (
    CONF_STATUS,
    OBS_STATUS,
    Cube,
    agency_id,
    code_id,
    component_id,
    cubes_of,
    time_period,
    version_of,
)

Content = TypeVar("Content")

CONCEPTS = "CONCEPTS"
TEXT_TYPES = {
    "int64": "Long",
    "date32[day]": "GregorianDay",
    "timestamp[us]": "DateTime",
    "bool": "Boolean",
}
"""Data types of keys without a code list, by Arrow type; keys of other types are texts."""

COMMON_CONCEPTS = {
    "MEASURE": ("Measure", "Which of the table's columns the number is."),
    "TIME_PERIOD": ("Time period", "The reference period of the release."),
    "OBS_VALUE": ("Observation value", "The noised value."),
    "OBS_STATUS": ("Observation status", "Whether there is a value, and a reliable one."),
    "CONF_STATUS": ("Confidentiality status", "Whether the value is for publication."),
    "UNIT_MEASURE": ("Unit of measure", "The unit of the value and of what stands beside it."),
    "DECIMALS": ("Decimals", "How many decimals a reader is shown."),
    "CONFIDENCE_LEVEL": ("Level of confidence", "That of the margin of error and the interval."),
    "MARGIN_OF_ERROR": ("Margin of error", "The value errs by no more, at the confidence level."),
    "STANDARD_ERROR": ("Standard error", "The standard deviation of the value's error."),
    "LOWER_BOUND": ("Lower bound", "Lower end of the interval around the truth."),
    "UPPER_BOUND": ("Upper bound", "Upper end of the interval around the truth."),
    "VALUE_LABEL": ("Label of the value", "The value as a text, where its ends are coded."),
    "QUALITY": ("Quality", "How far the value may be quoted, or why the cell is empty."),
    "ADJUSTED": (
        "Adjusted",
        "Whether the value, or all values from 0 up, are outside of the interval.",
    ),
}
"""Concepts of every release, with their meanings."""

WORD_OF_CONCEPT = {
    "MEASURE": "measure",
    "MARGIN_OF_ERROR": "moe",
    "STANDARD_ERROR": "se",
    "LOWER_BOUND": "lower",
    "UPPER_BOUND": "upper",
    "QUALITY": "quality",
    "ADJUSTED": "adjusted",
}
"""The words for companion columns that name a concept in the languages of a release."""


@dataclass(frozen=True, slots=True)
class Item:
    """A concept, a code or another named object, with its texts by language."""

    id: str
    name: Texts
    description: Texts = field(default_factory=dict)
    footnotes: tuple[Texts, ...] = ()
    value: str = ""
    """The declared value of a code, if its identifier differs."""


@dataclass(frozen=True, slots=True)
class Component:
    """A component of a data structure.

    `codes`: the identifier of its code list; empty for an uncoded component, which has a
    `text_type`. `level`: for an attribute, "observation" or the dimension to which it belongs.
    """

    id: str
    concept: str
    codes: str = ""
    text_type: str = ""
    level: str = ""
    mandatory: bool = False


@dataclass(frozen=True, slots=True)
class Structure:
    """The data structure of a cube, and the dataflow with the same identifier."""

    item: Item
    dimensions: tuple[Component, ...]
    attributes: tuple[Component, ...]
    measure: Component


@dataclass
class Structures:
    """All structures of a release."""

    agency: str
    agency_name: str
    version: str
    languages: tuple[str, ...]
    title: str
    concepts: dict[str, Item] = field(default_factory=dict)
    code_lists: dict[str, tuple[Item, tuple[Item, ...]]] = field(default_factory=dict)
    cubes: list[Structure] = field(default_factory=list)

    def concept(self, column: ColumnMetadata) -> str:
        """Return the concept of a column, which all tables with the same metadata share."""
        item = _concept_item(component_id(column.name), column, self.languages[0])
        return _identifier_of_content(self.concepts, item.id, item)

    def code_list(self, column: ColumnMetadata) -> str:
        """Return the code list of a column, which all tables with the same codes share."""
        if column.codes is None:
            return ""
        own = component_id(column.name)
        codes = tuple(
            Item(
                code_id(text := code_text(value)),
                column.codes.labels.get(value) or {self.languages[0]: text or '""'},
                value="" if code_id(text) == text else text,
            )
            for value in column.codes.values
        )
        name = column.label or {self.languages[0]: column.name}
        return _identifier_of_content(self.code_lists, f"CL_{own}", (Item("", name), codes))


def structures_of(metadata: Metadata) -> Structures:
    """Return the structures of a release, in the order of its tables."""
    about = metadata.about
    made = Structures(
        agency=agency_id(about.publisher),
        agency_name=about.publisher or "Unspecified",
        version=version_of(about.version),
        languages=metadata.languages,
        title=about.title,
    )
    for name, (title, meaning) in COMMON_CONCEPTS.items():
        made.concepts[name] = Item(name, _concept_names(name, title, metadata), {"en": meaning})
    for name, codes in (("OBS_STATUS", OBS_STATUS), ("CONF_STATUS", CONF_STATUS)):
        items = tuple(Item(code, {"en": a}, {"en": b}) for code, (a, b) in codes.items())
        made.code_lists[f"CL_{name}"] = (Item("", {"en": COMMON_CONCEPTS[name][0]}), items)
    for cube in cubes_of(metadata, time_period(about.period)):
        made.cubes.append(_data_structure(made, cube))
    return made


def _concept_names(concept: str, title: str, metadata: Metadata) -> dict[str, str]:
    """Return the English name of a common concept, and its names in the release's languages."""
    words = WORDS.get(WORD_OF_CONCEPT.get(concept, ""), {})
    translations = {tag: words.get(tag.partition("-")[0], "") for tag in metadata.languages}
    return {"en": title} | {
        tag: f"{word[0].upper()}{word[1:]}"
        for tag, word in translations.items()
        if word and tag != "en"
    }


def _data_structure(made: Structures, cube: Cube) -> Structure:
    """Return the data structure of a cube: dimensions, measure and attributes."""
    table = cube.table
    dimensions = [_dimension_component(made, key) for key in table.keys]
    language = made.languages[0]
    codes = tuple(_concept_item(component_id(value.name), value, language) for value in cube.values)
    several = (Item("", {"en": f"Measures of {table.name}"}), codes)
    measures = _identifier_of_content(made.code_lists, f"CL_{cube.id}-MEASURE", several)
    dimensions.append(Component("MEASURE", "MEASURE", codes=measures))
    if cube.time is not None:
        dimensions.append(
            Component("TIME_PERIOD", "TIME_PERIOD", text_type="ObservationalTimePeriod")
        )
    return Structure(
        Item(
            cube.id,
            table.label or {language: table.name},
            table.description,
            table.footnotes,
        ),
        tuple(dimensions),
        tuple(_attribute_components(made, cube)),
        _measure_component(made, cube),
    )


def _dimension_component(made: Structures, key: ColumnMetadata) -> Component:
    concept = made.concept(key)
    codes = made.code_list(key) if is_coded(key) else ""
    text_type = "" if codes else TEXT_TYPES.get(key.kind, "String")
    return Component(component_id(key.name), concept, codes, text_type)


def is_coded(key: ColumnMetadata) -> bool:
    """Return whether a key has a code list: declared texts, and keys with labels.

    Integers and days have no code list: there may be as many of them as cells, and they need no
    explanation.
    """
    return key.codes is not None and (key.kind == "string" or bool(key.codes.labels))


def _measure_component(made: Structures, cube: Cube) -> Component:
    """Return the component `OBS_VALUE`, which holds the numbers or codes."""
    if cube.labels:
        codes = made.code_list(cube.values[0])
        return Component("OBS_VALUE", "OBS_VALUE", codes, "" if codes else "String")
    kinds = {value.kind for value in cube.values}
    text_type = "Double" if "double" in kinds else "Decimal"
    return Component("OBS_VALUE", "OBS_VALUE", "", "Long" if kinds == {"int64"} else text_type)


def _attribute_components(made: Structures, cube: Cube) -> Iterator[Component]:
    """Yield the attributes of the observations and of the measures."""
    for status in ("OBS_STATUS", "CONF_STATUS"):
        yield Component(status, status, f"CL_{status}", level="observation", mandatory=True)
    for name, columns in cube.attribute_columns.items():
        codes = _shared_code_list(made, name, columns.values())
        text_type = "" if codes else _common_text_type(columns.values())
        yield Component(name, name, codes, text_type, "observation")
    if cube.confidence:
        yield Component("CONFIDENCE_LEVEL", "CONFIDENCE_LEVEL", "", "Decimal", "MEASURE")
    if cube.has_units:
        yield Component("UNIT_MEASURE", "UNIT_MEASURE", "", "String", "MEASURE")
    if cube.has_declared_decimals:
        yield Component("DECIMALS", "DECIMALS", "", "Integer", "MEASURE")


def _shared_code_list(made: Structures, attribute: str, columns: Iterable[ColumnMetadata]) -> str:
    """Return the code list of an attribute, which its columns share; empty without codes."""
    coded = next((column for column in columns if column.codes is not None), None)
    if coded is None:
        return ""
    title = {"en": COMMON_CONCEPTS[attribute][0]}
    return made.code_list(replace(coded, name=attribute, label=title))


def _common_text_type(columns: Iterable[ColumnMetadata]) -> str:
    """Return the data type in which the values of several columns fit."""
    kinds = {column.kind for column in columns}
    if kinds <= {"bool"}:
        return "Boolean"
    if "string" in kinds:
        return "String"
    return "Double" if "double" in kinds else "Decimal"


def _concept_item(own: str, column: ColumnMetadata, language: str) -> Item:
    """Return the concept of a column, with its label and its descriptions."""
    name = column.label or {language: column.name}
    return Item(own, name, column.description, column.footnotes)


def _identifier_of_content(held: dict[str, Content], own: str, content: Content) -> str:
    """Return the identifier of some content; equal contents have the same identifier.

    A number is appended if another content already has the wanted identifier `own`.
    """
    if held.setdefault(own, content) == content:
        return own
    names = (f"{own}-{number}" for number in count(2))
    return next(name for name in names if held.setdefault(name, content) == content)
