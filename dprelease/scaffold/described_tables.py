"""The descriptions of tables that other tools give, and helpers to read their documents.

A document is read with all scalars as texts. Nothing in it is trusted: what a draft takes from it
is quoted, and an option that a schema could not hold is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from dprelease.schema.public_values.missing_codes import TRUTHS, number_of
from dprelease.schema.source_types.source import Source

TYPES = {
    "integer": (
        "int", "integer", "long", "short", "byte", "nonnegativeinteger", "positiveinteger", "int32",
        "int64", "unsignedint", "i32", "i64", "u32", "u64",
    ),
    "number": (
        "float", "double", "decimal", "number", "numeric", "real", "f32", "f64", "float64",
    ),
    "boolean": ("boolean", "bool"),
    "date": ("date",),
    "timestamp": ("datetime", "timestamp", "datetimestamp"),
    "text": ("string", "str", "text", "varchar", "token", "anyuri", "normalizedstring"),
}  # fmt: skip
_KIND_BY_TYPE = {word: kind for kind, words in TYPES.items() for word in words}


Properties = Mapping[str, Any]

OptionValue = str | list[str] | list[int] | int | dict[str, list[int]]
"""The value of a key of `source`."""

BOOLEANS = TRUTHS | {"0", "1"}
"""Texts of booleans that need no declaration, in lower case."""


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """The description of one column: its kind, as in declarations, and its properties as texts.

    `labels`: the labels of `values`. `format`: the strptime format of days. `missing`: the codes
    for missing values of this column alone.
    """

    name: str
    kind: str
    lower: str | None = None
    upper: str | None = None
    values: tuple[str, ...] = ()
    label: str = ""
    is_unit: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    format: str = ""
    missing: tuple[str, ...] = ()
    note: str = ""
    """What the owner has to decide about the column, for a comment."""


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """The description of a table.

    `max_groups` and `max_rows` are contribution limits, and `source` is the file with the rows;
    each of them is None if the description does not have it. `options` are keys of `source`.
    `others` are the names of the other tables that the same document describes.
    """

    form: str
    name: str
    columns: tuple[ColumnDescription, ...]
    max_groups: str | None = None
    max_rows: str | None = None
    source: str | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """The properties of the description that the draft does not have."""


def valid_options(options: Mapping[str, Any], source: str | None) -> dict[str, OptionValue]:
    """Return the keys of `source` that a schema can hold, without those that have no value."""
    found: dict[str, OptionValue] = {}
    for key, value in options.items():
        if value in (None, "", [], ()):
            continue
        try:
            # Keys are added one by one, so that one invalid key does not cost the others.
            Source.model_validate({"path": source or "rows.csv", **found, key: value})
        except ValidationError:
            continue
        found[key] = value
    return found


def invalid_options(options: Mapping[str, Any], valid: Mapping[str, OptionValue]) -> list[str]:
    """Return the keys of `source` that have a value which a schema can't hold."""
    empty: tuple[object, ...] = (None, "", [], ())
    return [key for key, value in options.items() if value not in empty and key not in valid]


def declared_properties(properties: Properties, names: Sequence[str]) -> list[str]:
    """Return the names of properties that are declared, and neither false nor 0."""
    return [name for name in names if scalar_text(properties.get(name)) not in (None, "false", "0")]


def relative_path(path: str | None) -> str | None:
    """Return the path of a file in or below the folder of its description; None for another one.

    Other people write descriptions, so no path may lead out of the folder, to a server, or to
    several files.
    """
    if not path or re.search(r"[\\:*?\[\]\x00-\x1f]", path):
        return None
    parts = PurePosixPath(path)
    return None if parts.is_absolute() or ".." in parts.parts else path


def shared_number_marks(columns: Sequence[Properties]) -> dict[str, str]:
    """Return the decimal mark and the separator of thousands that all columns of numbers have."""
    marks = {}
    for key, name, default in (("decimal", "decimalChar", "."), ("thousands", "groupChar", "")):
        found = {scalar_text(column.get(name)) or default for column in columns}
        if len(found) == 1 and found != {default}:
            marks[key] = found.pop()
    return marks


def missing_codes(codes: Sequence[str], kind: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return the codes for missing values that a column of a kind can declare."""
    found = []
    for code in dict.fromkeys(codes):
        is_number = number_of(code) is not None
        is_misspelled = not is_number and any(map(str.isdigit, code))
        if kind in ("integer", "number") and is_misspelled:
            continue
        if kind in ("date", "timestamp") or (kind == "boolean" and code.lower() in BOOLEANS):
            continue
        if code and code not in values:
            found.append(code)
    return tuple(found)


def column_kind(written: object) -> str:
    """Return the type to propose for a column from its declared type; text if it is unknown."""
    type_name = re.split(r"[.:#/]", str(written or "string"))[-1].strip().lower()
    return _KIND_BY_TYPE.get(type_name, "text")


def mappings_in(values: object) -> Iterator[Properties]:
    """Return the mappings in a list; none if the value is no list."""
    return (one for one in (values if isinstance(values, list) else ()) if isinstance(one, Mapping))


def is_true(value: object) -> bool:
    """Return whether a value is true or the word "true"."""
    return (scalar_text(value) or "").lower() == "true"


def scalar_text(value: object) -> str | None:
    """Return a text; of a list or mapping, such as titles in several languages, the first text."""
    if isinstance(value, Mapping):
        value = next(iter(value.values()), None)
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) else None


def texts_in(value: object) -> list[str]:
    """Return the texts in a list, or a single text as a list; none for other values."""
    values = value if isinstance(value, list) else [value]
    return [text for one in values if isinstance(text := one, str)]
