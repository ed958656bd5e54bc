"""Write JSON-stat 2.0: each table as a cube, with the numbers as the last dimension, the metric.

A margin of error, a standard error or an end of an interval is also a number of the metric, because
cells in JSON-stat have no attributes except one status. The status of a value is its quality code;
a missing number without a quality has a status too. Numbers have all their digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from dprelease.documents.limit_labels import companion_word
from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, TableMetadata, code_text
from dprelease.exports.cubes import STATUS, Cube, Observation, cube_of, displayed_decimals
from dprelease.exports.export import Export, Problem, PublishedRelease
from dprelease.exports.names import (
    create_parent_folder,
    is_address,
    nonempty_properties,
    text_in,
    texts_in,
    with_translations,
)
from dprelease.query.quality import quality_labels
from dprelease.schema.release_parts.limits import QUALITY_LIMITS

FOLDER = "json-stat"
METRIC = "metric"
"""Identifier of the last dimension; a number is appended if a key has this name."""

ITEMS_PER_LINE = 1000
"""Numbers per line of the file."""

DENSE_RATIO = 2
"""A table lists all of its cells if at least 1 / `DENSE_RATIO` of them have a row."""


class JsonStat(Export):
    """The format with one JSON-stat dataset for each table.

    There is no collection of the datasets, because it would need their web addresses.
    """

    name = "json-stat"

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield a problem if no table has readable numbers."""
        if not any(cube_of(table) for table in metadata.tables_for_readers):
            yield Problem("no table has readable numbers")

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write a dataset for each table with readable numbers, and return the names of files."""
        files = []
        for table in release.metadata.tables_for_readers:
            cube = cube_of(table)
            if cube is None:
                continue
            name = f"{FOLDER}/{table.name}.json"
            path = create_parent_folder(folder / name)
            with path.open("w", encoding="utf-8", newline="") as file:
                _write_dataset(cube, release, file)
            files.append(name)
        return files


def _dataset_metadata(metadata: Metadata) -> dict[str, Any]:
    """Return the metadata of the release under the format's property names."""
    about = metadata.about
    linked = {"license": about.licence, "describedby": about.methodology}
    extension = {
        "contact": about.contact,
        "licence": about.licence,
        "period": about.period,
        "area": about.area,
        "version": about.version,
        "replaces": about.replaces,
    }
    return {
        "source": about.publisher,
        "link": {name: [{"href": text}] for name, text in linked.items() if is_address(text)},
        "extension": nonempty_properties(extension),
    }


def _write_dataset(cube: Cube, release: PublishedRelease, file: TextIO) -> None:
    """Write a dataset piece by piece: metadata, then values, then statuses."""
    categories = cube.categories(release)
    head = _dataset_head(cube, categories, release.metadata)
    # Values follow one after the other: a whole dataset might not fit the memory.
    text = json.dumps(head, indent=2, ensure_ascii=False, allow_nan=False)
    file.write(text.removesuffix("\n}"))
    total = math.prod(head["size"])
    if cube.is_dense(total, DENSE_RATIO, release):
        _write_items(
            file, "value", "[]", _dense_values(cube.observations(release, categories), total)
        )
    else:
        sparse = cube.observations(release, categories)
        values = (f'"{one.place}": {one.text}' for one in sparse if one.text is not None)
        _write_items(file, "value", "{}", values)
    marked = (one for one in cube.observations(release, categories) if one.status)
    statuses = (f'"{one.place}": "{one.status}"' for one in marked)
    # Most datasets have no status, and then need no such key.
    first = next(statuses, None)
    if first is not None:
        _write_items(file, "status", "{}", chain([first], statuses))
    file.write("\n}\n")


def _dataset_head(
    cube: Cube, categories: Mapping[str, Sequence[Any]], metadata: Metadata
) -> dict[str, Any]:
    """Return a dataset without its values."""
    table = cube.table
    dimensions = {
        key.name: _key_dimension(key, categories[key.name], metadata) for key in table.keys
    }
    metric = METRIC
    # A key may have the name of the metric.
    while metric in dimensions:
        metric += "_"
    dimensions[metric] = _metric_dimension(cube, metadata)
    about = _dataset_metadata(metadata)
    texts, extension = _dataset_texts(table, metadata)
    times = [key.name for key in table.keys if key.kind.startswith("date")]
    head = {
        "version": "2.0",
        "class": "dataset",
        **texts,
        "source": about["source"],
        "link": about["link"],
        "extension": {**about["extension"], **extension},
    }
    return {
        **nonempty_properties(head),
        "id": list(dimensions),
        "size": [*(len(categories[key.name]) for key in table.keys), len(cube.numbers)],
        "role": nonempty_properties({"time": times, "metric": [metric]}),
        "dimension": dimensions,
    }


def _status_labels(table: TableMetadata, language: str) -> dict[str, str]:
    """Return the label of every status of a table's numbers."""
    words = quality_labels(QUALITY_LIMITS, [language])
    labels = {status: words[code][language] for status, code in STATUS.items()}
    for column in table.of_role(Role.QUALITY):
        if column.codes is not None:
            labels |= {
                str(code): column.codes.label(code, language) for code in column.codes.values
            }
    return labels


def _dense_values(observations: Iterable[Observation], total: int) -> Iterator[str]:
    """Yield a value for every cell in cell order; None for a cell without a row."""
    at = 0
    for one in observations:
        yield from ("null" for _ in range(at, one.place))
        yield one.text or "null"
        at = one.place + 1
    yield from ("null" for _ in range(at, total))


def _write_items(file: TextIO, name: str, marks: str, items: Iterator[str]) -> None:
    """Write a list or a mapping with a thousand items per line."""
    file.write(f',\n  "{name}": {marks[0]}')
    before = ""
    while line := list(islice(items, ITEMS_PER_LINE)):
        file.write(before + ",".join(line))
        before = ",\n"
    file.write(marks[1])


def _texts_and_translations(
    metadata: Metadata, texts_of: Callable[[str], Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return texts in the first language, and an extension with those in other languages."""
    texts = with_translations(metadata, texts_of)
    others = texts.pop("translations", {})
    return texts, nonempty_properties({"translations": others})


def _dataset_texts(
    table: TableMetadata, metadata: Metadata
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the label and the notes of a dataset, and an extension with the other texts.

    These are the labels of statuses, and all translations.
    """
    about = metadata.about
    noted = (about.description, *about.notes, table.description, *table.footnotes)

    def texts_of(language: str) -> dict[str, Any]:
        return {
            "label": text_in(table.label, metadata, language) or table.name,
            "note": texts_in(noted, metadata, language),
            "status": {"label": _status_labels(table, language)},
        }

    texts, translations = _texts_and_translations(metadata, texts_of)
    return texts, {"status": texts.pop("status"), **translations}


def _key_dimension(
    key: ColumnMetadata, values: Iterable[Any], metadata: Metadata
) -> dict[str, Any]:
    """Return the dimension of a key: its label, its values and their labels."""
    # Categories of JSON-stat are texts, whatever the type of the key is.
    codes = [code_text(value) for value in values]
    labels = {} if key.codes is None else key.codes.labels

    def texts_of(language: str) -> dict[str, Any]:
        named = {code_text(value): texts.get(language, "") for value, texts in labels.items()}
        label = {code: named.get(code) or code for code in codes} if any(named.values()) else {}
        if len(codes) == 1 and not label:
            label = {codes[0]: codes[0]}
        return {
            "label": text_in(key.label, metadata, language) or key.name,
            "note": texts_in((key.description, *key.footnotes), metadata, language),
            "category": nonempty_properties({"label": label}),
        }

    texts, translations = _texts_and_translations(metadata, texts_of)
    category = {"index": codes, **texts.get("category", {})}
    return {**texts, "category": category, **nonempty_properties({"extension": translations})}


def _metric_dimension(cube: Cube, metadata: Metadata) -> dict[str, Any]:
    """Return the dimension whose values are the numeric columns of a table."""
    columns = cube.numbers

    def texts_of(language: str) -> dict[str, Any]:
        notes = {
            column.name: texts_in((column.description, *column.footnotes), metadata, language)
            for column in columns
        }
        labels = {column.name: column.title(language) for column in columns}
        category = {"label": labels, "note": nonempty_properties(notes)}
        label = companion_word("measure", language).capitalize()
        return {"label": label, "category": nonempty_properties(category)}

    texts, translations = _texts_and_translations(metadata, texts_of)
    category = {
        "index": [column.name for column in columns],
        **texts["category"],
        "unit": _units_by_column(columns),
    }
    return {
        "label": texts["label"],
        "category": nonempty_properties(category),
        "extension": {
            "role": {column.name: column.role.value for column in columns},
            "of": {column.name: column.of for column in columns if column.role != Role.VALUE},
            "unit": nonempty_properties({column.name: column.unit for column in columns}),
            **translations,
        },
    }


def _units_by_column(columns: Sequence[ColumnMetadata]) -> dict[str, dict[str, Any]]:
    """Return the unit of each number whose decimals are known, which the format requires."""
    return {
        column.name: nonempty_properties({"label": column.unit, "decimals": decimals})
        for column in columns
        if (decimals := displayed_decimals(column)) is not None
    }


EXPORT = JsonStat()
