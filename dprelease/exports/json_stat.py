"""JSON-stat 2.0: each table as a cube, its numbers as the last dimension, the metric.

What stands beside a value (a margin, a standard error, the ends of an interval) is a number of the
metric, too: readers of JSON-stat know no attributes of a cell but one status. A missing value has
a status, and so has an unreliable one. Numbers are written to the last digit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, TableMetadata, written
from dprelease.exports.base import Problem, PublishedRelease
from dprelease.exports.cubes import Cube, Observation, cube_of
from dprelease.exports.names import in_first, is_address, parent, write_json

FOLDER = "json-stat"
METRIC = "metric"
"""The identifier of the last dimension; a key of this name has a number behind it."""

STATUS = {
    "O": "there is none, as there is no mean where the noised count is below 1",
    "Q": "left empty: the noised value is below what the release declares",
    "U": "unreliable: the margin of error is larger than the declared part of the value",
}
"""Of cells, by the codes of SDMX (CL_OBS_STATUS)."""

LINE = 1000
"""Numbers in a line of the file."""

DENSE = 2
"""A table with a row for more than one in so many cells lists all cells."""


@dataclass(frozen=True, slots=True)
class JsonStat:
    """A dataset for each table, and a collection of them; see `Export`."""

    name: str = "json-stat"
    extra: str | None = None

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """See `Export.problems`."""
        if not any(cube_of(table) for table in metadata.read):
            yield Problem("no table has numbers to be read")

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """See `Export.write`."""
        metadata, files = release.metadata, []
        items = []
        for table in metadata.read:
            cube = cube_of(table)
            if cube is None:
                continue
            name = f"{table.name}.json"
            with parent(folder / FOLDER / name).open("w", encoding="utf-8", newline="") as file:
                _write_dataset(cube, release, file)
            files.append(f"{FOLDER}/{name}")
            items.append({"class": "dataset", "href": name, "label": _title(table, metadata)})
        collection = {
            "version": "2.0",
            "class": "collection",
            "label": metadata.about.title,
            **(said := _said(metadata)),
            "link": {"item": items, **said.get("link", {})},
        }
        write_json(folder / FOLDER / "collection.json", collection)
        return [*files, f"{FOLDER}/collection.json"]


def _title(table: TableMetadata, metadata: Metadata) -> str:
    return in_first(table.label, metadata) or table.name


def _said(metadata: Metadata) -> dict[str, Any]:
    """Return what is said of the release, with the words that the format has for it."""
    about = metadata.about
    notes = [in_first(note, metadata) for note in (about.description, *about.notes)]
    linked = {"license": about.licence, "describedby": about.methodology}
    links = {name: [{"href": text}] for name, text in linked.items() if is_address(text)}
    words = {"contact": about.contact, "licence": about.licence, "period": about.period}
    more = {"area": about.area, "version": about.version, "replaces": about.replaces}
    extension = {name: text for name, text in {**words, **more}.items() if text}
    return {
        **({"source": about.publisher} if about.publisher else {}),
        **({"note": [note for note in notes if note]} if any(notes) else {}),
        **({"link": links} if links else {}),
        **({"extension": extension} if extension else {}),
    }


def _write_dataset(cube: Cube, release: PublishedRelease, file: TextIO) -> None:
    """Write a dataset piece by piece: what is said of it, then values, then statuses."""
    metadata, table = release.metadata, cube.table
    categories = cube.categories(release)
    sizes = [len(values) for values in categories.values()]
    dimensions = {
        name: _dimension(key, values, metadata)
        for (name, values), key in zip(categories.items(), table.keys, strict=True)
    }
    metric = METRIC
    while metric in dimensions:
        metric += "_"
    dimensions[metric] = _metric(cube, metadata)
    said = _said(metadata)
    notes = [*said.pop("note", []), *(in_first(note, metadata) for note in table.footnotes)]
    extension = {**said.pop("extension", {}), "status": {"label": STATUS}}
    times = [key.name for key in table.keys if key.kind.startswith("date")]
    head: dict[str, Any] = {
        "version": "2.0",
        "class": "dataset",
        "label": _title(table, metadata),
        **said,
        **({"note": notes} if notes else {}),
        "extension": extension,
        "id": list(dimensions),
        "size": [*sizes, len(cube.numbers)],
        "role": {**({"time": times} if times else {}), "metric": [metric]},
        "dimension": dimensions,
    }
    text = json.dumps(head, indent=2, ensure_ascii=False, allow_nan=False)
    file.write(text.removesuffix("\n}"))
    total = math.prod([*sizes, len(cube.numbers)])
    if cube.is_dense(total, DENSE, release):
        _write_items(file, "value", "[]", _dense(cube.observations(release, categories), total))
    else:
        sparse = cube.observations(release, categories)
        values = (f'"{one.place}": {one.text}' for one in sparse if one.text is not None)
        _write_items(file, "value", "{}", values)
    marked = (one for one in cube.observations(release, categories) if one.status)
    statuses = (f'"{one.place}": "{one.status}"' for one in marked)
    first = next(statuses, None)
    if first is not None:
        _write_items(file, "status", "{}", chain([first], statuses))
    file.write("\n}\n")


def _dense(observations: Iterable[Observation], total: int) -> Iterator[str]:
    """Yield a value for every cell, in the order of cells; what has no row has none."""
    at = 0
    for one in observations:
        yield from ("null" for _ in range(at, one.place))
        yield one.text or "null"
        at = one.place + 1
    yield from ("null" for _ in range(at, total))


def _write_items(file: TextIO, name: str, marks: str, items: Iterator[str]) -> None:
    """Write a list or a mapping, a thousand items a line."""
    file.write(f',\n  "{name}": {marks[0]}')
    before = ""
    while line := list(islice(items, LINE)):
        file.write(before + ",".join(line))
        before = ",\n"
    file.write(marks[1])


def _dimension(key: ColumnMetadata, values: Iterable[Any], metadata: Metadata) -> dict[str, Any]:
    codes = [written(value) for value in values]
    language = metadata.language
    labels = {} if key.codes is None else key.codes.labels
    named = {written(value): texts.get(language, "") for value, texts in labels.items()}
    label = {code: named[code] for code in codes if named.get(code)}
    category: dict[str, Any] = {"index": codes, **({"label": label} if label else {})}
    if len(codes) == 1 and not label:
        category["label"] = {codes[0]: codes[0]}
    notes = [in_first(note, metadata) for note in (key.description, *key.footnotes)]
    notes = [note for note in notes if note]
    title = in_first(key.label, metadata) or key.name
    return {"label": title, **({"note": notes} if notes else {}), "category": category}


def _metric(cube: Cube, metadata: Metadata) -> dict[str, Any]:
    columns = cube.numbers
    notes: Mapping[str, list[str]] = {
        column.name: [
            text
            for note in (column.description, *column.footnotes)
            if (text := in_first(note, metadata))
        ]
        for column in columns
    }
    noted = {name: lines for name, lines in notes.items() if lines}
    return {
        "label": "Number",
        "category": {
            "index": [column.name for column in columns],
            "label": {column.name: column.title(metadata.language) for column in columns},
            "unit": {column.name: _unit(column) for column in columns},
            **({"note": noted} if noted else {}),
        },
        "extension": {
            "role": {column.name: column.role.value for column in columns},
            "of": {column.name: column.of for column in columns if column.role != Role.VALUE},
        },
    }


def _unit(column: ColumnMetadata) -> dict[str, Any]:
    """Return the unit of a number; `decimals` are those that a reader is shown."""
    decimals = {} if column.decimals is None else {"decimals": column.decimals}
    return {**({"label": column.unit} if column.unit else {}), **decimals}


EXPORT = JsonStat()
