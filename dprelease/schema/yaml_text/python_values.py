"""Write values of Python as the YAML text in which a person would declare them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time
from numbers import Number
from pathlib import PurePath

import yaml

from dprelease.errors import DeclarationError, Place
from dprelease.schema.yaml_text.reader import (
    DEPTH_LIMIT,
    NODE_LIMIT,
    KeyPath,
    Plain,
    dotted_path,
)

RELEASE_NAME = "release.yaml"
"""The name of the release file of a release that is built in Python."""

WRITTEN = "texts, numbers, booleans, dates, paths, None, lists and mappings"


class _Unquoted(str):
    """The text of a number or a date, which is written without quotes, as a person would."""


class _Dumper(yaml.SafeDumper):
    """Writes texts that look like numbers in quotes, and numbers without."""

    def represent_unquoted(self, text: _Unquoted) -> yaml.ScalarNode:
        """Return a node with the tag that the text has without quotes."""
        plain = (True, False)
        tag: str = self.resolve(yaml.ScalarNode, str(text), plain)  # type: ignore[no-untyped-call]
        return self.represent_scalar(tag, str(text))


_Dumper.add_representer(_Unquoted, _Dumper.represent_unquoted)


def yaml_text(values: Mapping[str, object], keys: KeyPath = ()) -> str:
    """Return a mapping as YAML text; `keys` is its position, for messages.

    Raises DeclarationError: DP-DECL-003 for an object that YAML does not have, DP-YAML-006 for too
    many levels.
    """
    plain = _plain(values, keys)
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _plain(value: object, keys: KeyPath) -> Plain | bool:
    """Return a value of Python as texts, lists and mappings, which share no objects."""
    if len(keys) > DEPTH_LIMIT:
        place = Place(key=dotted_path(keys[:3]))
        raise DeclarationError("DP-YAML-006", place=place, limit=DEPTH_LIMIT, nodes=NODE_LIMIT)
    # By the method, so that none of these libraries has to be imported.
    if hasattr(value, "tolist"):  # NumPy arrays and scalars, pandas Series and Index
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # `str(value)` of an enumeration is its name, such as Kind.TEXT.
        text = str.__str__(value)  # a subclass, such as an enumeration, as plain text
        if any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
            problem = "the text has half of a surrogate pair, which UTF-8 can't hold"
            raise _error_at(keys, problem)
        return text
    if isinstance(value, Mapping):
        names = {key: _key_text(key, keys) for key in value}
        _refuse_equal_keys(list(names.values()), keys)
        return {name: _plain(value[key], (*keys, name)) for key, name in names.items()}  # type: ignore[misc]
    if isinstance(value, (list, tuple)):
        return [_plain(item, (*keys, i)) for i, item in enumerate(value)]  # type: ignore[misc]
    if isinstance(value, Number | date | time):
        return _Unquoted(value)
    if isinstance(value, PurePath):
        return str(value)
    problem = f"an object of the type {type(value).__name__} can't be declared: {WRITTEN} can"
    raise _error_at(keys, problem)


def _error_at(keys: KeyPath, problem: str) -> DeclarationError:
    """Return the error for a value at a key path that can't be declared."""
    return DeclarationError("DP-DECL-003", place=Place(key=dotted_path(keys)), problem=problem)


def _key_text(key: object, keys: KeyPath) -> str:
    """Return a key of a mapping as text, as in YAML."""
    text = _plain(key, keys)
    if isinstance(text, list | dict):
        raise _error_at(keys, f"a {type(key).__name__} can't be a key of a mapping: use a text")
    return text if isinstance(text, str) else {None: "null", True: "true", False: "false"}[text]


def _refuse_equal_keys(names: list[str], keys: KeyPath) -> None:
    """Raise DP-YAML-005 for two keys that are the same text, such as 1 and "1"."""
    for name, number in Counter(names).items():
        if number > 1:
            place = Place(key=dotted_path((*keys, name)))
            raise DeclarationError("DP-YAML-005", place=place, name=name)


@dataclass(frozen=True)
class PythonDeclaration:
    """A release that is declared by a mapping: its texts as YAML files, and the frames in it.

    `texts`: the release file and the schemas of tables, by file name. `positions`: the key path of
    each file in the mapping. `frames`: the frames that are sources, by the name of their table.
    """

    texts: Mapping[str, str]
    positions: Mapping[str, str]
    frames: Mapping[str, object] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> PythonDeclaration:
        """Return the texts of a mapping in the form of a release file.

        An item of `tables` is the path of a schema, or a mapping in the form of a schema, whose
        `source` may be a frame. Raises the errors of `yaml_text`.
        """
        texts, positions = dict[str, str](), {RELEASE_NAME: ""}
        frames: dict[str, object] = {}
        tables = values.get("tables")
        listed = list(tables) if isinstance(tables, list | tuple) else []
        used = {PurePath(item).name for item in listed if isinstance(item, str | PurePath)}
        for i, item in enumerate(listed):
            if isinstance(item, Mapping):
                name = _unused_file_name(item.get("table"), used | {RELEASE_NAME})
                used.add(name)
                schema = _without_frame(item, frames)
                texts[name] = yaml_text(schema, ("tables", i))
                positions[name] = dotted_path(("tables", i))
                listed[i] = name
        whole = {**values, "tables": listed} if listed else values
        return cls({RELEASE_NAME: yaml_text(whole), **texts}, positions, frames)

    def place_in_mapping(self, place: Place) -> Place:
        """Return the key path in the mapping for a position in one of the texts."""
        position = self.positions.get(place.file or "")
        if position is None:
            return place
        return Place(key=".".join(filter(None, (position, place.key))))


def _unused_file_name(table: object, used: set[str]) -> str:
    base = table if isinstance(table, str) and table.isidentifier() else "table"
    name, number = f"{base}.yaml", 1
    while name in used:
        number += 1
        name = f"{base}_{number}.yaml"
    return name


def _without_frame(schema: Mapping[str, object], frames: dict[str, object]) -> dict[str, object]:
    """Return a schema that names its frame, and add the frame to `frames`."""
    source, table = schema.get("source"), schema.get("table")
    frame = source.get("frame") if isinstance(source, Mapping) else source
    is_text = frame is None or isinstance(frame, str | PurePath | Number | list | tuple)
    if is_text or not isinstance(table, str):
        return dict(schema)
    frames[table] = frame
    options = dict(source) if isinstance(source, Mapping) else {}
    return {**schema, "source": {**options, "frame": table}}
