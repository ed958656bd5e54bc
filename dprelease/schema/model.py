"""The base of all document models, and the way from pydantic's findings to ours."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from dprelease.errors import DeclarationError, DpReleaseError, raise_all
from dprelease.schema.reader import Document, KeyPath
from dprelease.schema.values import refuse


class Model(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        defer_build=True,  # most are only built as parts of a document's model
    )


ModelT = TypeVar("ModelT", bound=Model)


@dataclass(frozen=True)
class Files:
    """Reads the files that a document names, and remembers their texts for the manifest."""

    read: Callable[[str], str]
    texts: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the text of a file named relative to the document."""
        self.texts[name] = self.read(name)
        return self.texts[name]


def read_beside(folder: Path) -> Callable[[str], str]:
    """Return a reader of UTF-8 files relative to `folder`."""
    return lambda name: (folder / name).read_text(encoding="utf-8-sig")


def same_name(text: str) -> str:
    """Return the form under which two names count as the same."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


def refuse_twins(names: Iterable[str]) -> None:
    """Raise DP-DECL-006 if two names differ by case or Unicode form only."""
    folded = [same_name(name) for name in names]
    if len(set(folded)) < len(folded):
        refuse("DP-DECL-006")


def validate(model: type[ModelT], document: Document, files: Files) -> ModelT:
    """Return the model of a document; all findings are raised together, by line."""
    try:
        return model.model_validate(document.values, context=files)
    except ValidationError as problems:
        found = list(_findings(model, document, problems.errors(include_input=False)))
    found.sort(key=lambda error: error.place.line or 0)
    raise_all(found)
    raise AssertionError("a refused document has findings")


def _findings(
    model: type[Model], document: Document, problems: Iterable[ErrorDetails]
) -> Iterator[DpReleaseError]:
    for problem in problems:
        kind, context = problem["type"], problem.get("ctx", {})
        keys = _key_path(document, problem["loc"], missing=kind == "missing")
        place = document.place(*keys)
        if kind.startswith("DP-"):
            yield DeclarationError(kind, place=place, **context)
        elif kind == "extra_forbidden":
            yield _unknown_key(model, document, problem["loc"], keys)
        elif kind == "missing":
            yield DeclarationError(
                "DP-DECL-002", place=document.place(*keys[:-1]), name=str(keys[-1])
            )
        else:
            words = problem["msg"].removeprefix("Value error, ").lower()
            yield DeclarationError("DP-DECL-003", place=place, problem=words)


def _key_path(document: Document, loc: tuple[str | int, ...], *, missing: bool) -> KeyPath:
    """Return the document's keys in a pydantic location, which also holds names of union arms."""
    keys: list[str | int] = []
    value: object = document.values
    for i, part in enumerate(loc):
        is_key = isinstance(value, Mapping) and part in value
        is_index = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if is_key or is_index:
            keys.append(part)
            value = value[part]  # type: ignore[index]
        elif missing and i == len(loc) - 1:
            keys.append(part)
    return tuple(keys)


def _unknown_key(
    model: type[Model], document: Document, loc: tuple[str | int, ...], keys: KeyPath
) -> DeclarationError:
    known = sorted(_fields_at(model, loc[:-1]))
    name = str(loc[-1])
    close = get_close_matches(name, known, n=1)
    nearest = f"; did you mean '{close[0]}'" if close else ""
    return DeclarationError(
        "DP-DECL-001",
        place=document.place(*keys),
        name=name,
        nearest=nearest,
        known=", ".join(known),
    )


def _fields_at(model: type[Model], loc: tuple[str | int, ...]) -> set[str]:
    """Return the keys that the model at a pydantic location allows."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    spots = [schema]
    for part in loc:
        spots = [
            below for spot in spots for below in _below(_flat(spot, definitions), part)
        ] or spots  # the name of a union's arm is no key
    flat = [arm for spot in spots for arm in _flat(spot, definitions)]
    arms = [arm for arm in flat if _is_arm(arm, loc)] or flat
    return {name for arm in arms for name in arm.get("properties", {})}


def _flat(spot: dict[str, object], definitions: dict[str, dict[str, object]]) -> list[dict]:  # type: ignore[type-arg]
    if "$ref" in spot:
        return _flat(definitions[str(spot["$ref"]).rsplit("/", 1)[-1]], definitions)
    arms = spot.get("anyOf") or spot.get("oneOf")
    if isinstance(arms, list):
        return [flat for arm in arms for flat in _flat(arm, definitions)]
    return [spot]


def _below(arms: list[dict], part: str | int) -> list[dict]:  # type: ignore[type-arg]
    found = []
    for arm in arms:
        if part in arm.get("properties", {}):
            found.append(arm["properties"][part])
        elif isinstance(part, int) and "items" in arm:
            found.append(arm["items"])
        elif isinstance(part, str) and isinstance(arm.get("additionalProperties"), dict):
            found.append(arm["additionalProperties"])
    return found


def _is_arm(arm: dict[str, object], loc: tuple[str | int, ...]) -> bool:
    properties = arm.get("properties", {})
    kind = properties.get("type", {}) if isinstance(properties, dict) else {}
    return bool(loc) and kind.get("const") == loc[-1]
