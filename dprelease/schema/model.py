"""The base class of all document models, and the conversion of pydantic's errors."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from dprelease.errors import DeclarationError, DpReleaseError, Place, raise_all
from dprelease.errors.suggestions import nearest, value_labels_hint
from dprelease.schema.field_types import A_MAPPING, refuse, validation_text
from dprelease.schema.public_values.large_files import (
    DEFAULT_ENCODING,
    LARGEST_TEXT,
    FileCopy,
    Find,
    LargeFile,
    ReadText,
    find_no_file,
)
from dprelease.schema.yaml_text.reader import Document, KeyPath, Plain
from dprelease.system.files import NotRegularFile, TooLarge, read_file


class Model(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        defer_build=True,  # most models are only needed as parts of another
    )


AllowedKeys = dict[tuple[str | int, ...], list[str]]
"""The keys that a model allows, by pydantic location."""

MOST_FINDINGS = 100
"""Maximum number of reported errors per document; one fix often removes several errors."""

ModelT = TypeVar("ModelT", bound=Model)


@dataclass(frozen=True)
class Files:
    """Reads the files that a document names, and stores their texts for the manifest."""

    read: ReadText
    find: Find = find_no_file
    texts: dict[str, str] = field(default_factory=dict)
    copies: dict[str, tuple[FileCopy, Path]] = field(default_factory=dict)

    def text(self, name: str, encoding: str = DEFAULT_ENCODING) -> str:
        """Return the text of a file, whose name is relative to the document's folder."""
        self.texts[name] = self.read(name, encoding)
        return self.texts[name]

    def large_file(self, name: str) -> LargeFile | None:
        """Return a large file, or None for a file whose text is stored in the manifest."""
        found = self.find(name)
        return None if found is None else LargeFile(name, *found, self.copies)


LONGEST_QUOTE = 100
"""Maximum number of characters that a message quotes of a text."""


def relative_reader(folder: Path, texts: Mapping[str, str] | None = None) -> ReadText:
    """Return a function that reads text files relative to `folder`, with errors of `read_file`.

    `texts`: the texts of files that exist only in memory, by name.
    """
    known = texts or {}

    def read(name: str, encoding: str = DEFAULT_ENCODING) -> str:
        """Return the text of a file."""
        if name in known:
            return known[name]
        return read_file(folder / name, LARGEST_TEXT).decode(encoding)

    return read


def unreadable_text(name: str, problem: Exception) -> str:
    """Return the text of the reason why a named file can't be read."""
    reason = "is not there"
    system_message = problem.strerror if isinstance(problem, OSError) else None
    if system_message and isinstance(problem, NotRegularFile | TooLarge):
        reason = system_message.removeprefix("it ")
    elif system_message and not isinstance(problem, FileNotFoundError | NotADirectoryError):
        reason = f"can't be read ({system_message.lower()})"
    return f"'{shorten(name)}' {reason}"


def shorten(text: str) -> str:
    """Return a text as messages quote it, shortened if it is longer than a line."""
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


def normalized_name(text: str) -> str:
    """Return a name in a normalized form, which is equal for names that count as the same."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


def unused_name(name: str, taken: Collection[str], endings: Sequence[str] = ("",)) -> str:
    """Return a name, with as many `_` appended as are needed to make the name unused.

    `endings` are the endings of derived names, which must be unused as well.
    """
    while any(f"{name}{ending}" in taken for ending in endings):
        name += "_"
    return name


def refuse_similar_names(names: Iterable[str]) -> None:
    """Raise DP-DECL-006 if two names differ only in case or Unicode form."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(normalized_name(name), name)
        if other is not name:
            refuse("DP-DECL-006", one=other, other=name)


def check_column_names(names: Collection[str]) -> None:
    """Raise DP-DECL-006 for two similar names, DP-DECL-003 for `*`, which means all rows."""
    refuse_similar_names(names)
    if "*" in names:
        refuse("DP-DECL-003", problem="`*` stands for all rows, and can't be the name of a column")


def validate(model: type[ModelT], document: Document, files: Files) -> ModelT:
    """Return the model of a document, or raise all its errors together, in the order of lines."""
    model_read: ModelT | None = None
    errors: list[DpReleaseError] = list(document.findings.values())
    error_places = {error.place for error in errors}
    problems: list[ErrorDetails] = []
    try:
        model_read = model.model_validate(document.values, context=files)
    except ValidationError as refused:
        problems = _without_empty_lists(refused.errors(include_url=False, include_input=False))
    placed = sorted(problems, key=lambda problem: _line_number(document, problem))
    several = _converted_errors(model, document, placed[:MOST_FINDINGS], {})
    # A key without a value is None, which its field would refuse again at the same place.
    errors += [error for error in several if error.place not in error_places]
    errors.sort(key=lambda error: error.place.line or 0)
    more = len(errors[MOST_FINDINGS:]) + len(placed[MOST_FINDINGS:])
    if more:
        place = Place(document.path.name)
        rest = DeclarationError("DP-DECL-007", place=place, more=f"{more:,}")
        errors = [*errors[:MOST_FINDINGS], rest]
    raise_all(errors)
    if model_read is None:
        raise AssertionError("a refused document has findings")
    return model_read


def _without_empty_lists(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """Remove errors about lists that are empty only because their items are invalid."""
    inside = {problem["loc"][:i] for problem in problems for i in range(len(problem["loc"]))}
    return [p for p in problems if p["type"] != "too_short" or p["loc"] not in inside]


def findings_of(
    model: type[Model], document: Document, problems: Iterable[ErrorDetails]
) -> Iterator[DpReleaseError]:
    """Yield an error with a code and a position in the document for each pydantic error."""
    return _converted_errors(model, document, problems, {})


def _line_number(document: Document, problem: ErrorDetails) -> int:
    """Return the line of a pydantic error in the document; 0 if it is unknown."""
    return document.place(*_key_path(document, problem["loc"], missing=False)).line or 0


def _converted_errors(
    model: type[Model], document: Document, problems: Iterable[ErrorDetails], known: AllowedKeys
) -> Iterator[DpReleaseError]:
    """Yield an error for each pydantic error; `known` caches the allowed keys."""
    for problem in problems:
        kind, context = problem["type"], problem.get("ctx", {})
        keys = _key_path(document, problem["loc"], missing=kind == "missing")
        place = document.place(*keys)
        if kind.startswith("DP-"):
            own = keys[:-1] if keys and keys[-1] == context.get("key") else keys
            if own and context.get("column") == THIS_COLUMN:
                context = {**context, "column": own[-1]}
            if context.get("problem") == A_TYPE:
                keys, context = _type_found(document, keys)
            spot = _reported_key_path(document, kind, keys, context)
            yield DeclarationError(kind, place=document.place(*spot), **context)
        elif kind == "extra_forbidden":
            yield _unknown_key(model, document, problem["loc"], keys, known)
        elif kind == "missing":
            yield DeclarationError(
                "DP-DECL-002", place=document.place(*keys[:-1]), name=str(keys[-1])
            )
        else:
            message = validation_text(kind, context, problem["msg"])
            names = _allowed_keys(model, problem["loc"], known) if message == A_MAPPING else []
            message += f"; known keys are: {', '.join(names)}" if names else ""
            yield DeclarationError("DP-DECL-003", place=place, problem=message)


A_TYPE = "a type is needed: category, integer, number, boolean, date, timestamp, text, or a `cut`"
TYPES = ("category", "integer", "number", "boolean", "date", "timestamp", "text")
THIS_COLUMN = "this column"
"""The text for a column in its own validators, which don't know the column's name."""

SPOTS: dict[str, tuple[str, ...]] = {
    "DP-SCHEMA-001": ("lower",),
    "DP-SCHEMA-003": ("values",),
    "DP-JOIN-002": ("privacy_unit",),
    "DP-SCHEMA-004": ("values_from",),
    "DP-SCHEMA-006": ("edges",),
    "DP-SCHEMA-007": ("columns", "{column}", "cut"),
    "DP-SCHEMA-008": ("privacy_unit", "id"),
    "DP-SCHEMA-010": ("step",),
    "DP-SCHEMA-016": ("columns", "{column}", "within"),
    "DP-SCHEMA-017": ("values",),
    "DP-SCHEMA-018": ("columns", "{column}"),
    "DP-SCHEMA-019": ("columns", "{column}"),
    "DP-DERIVE-001": ("derive", "{column}"),
    "DP-RELEASE-007": ("columns", "{name}"),
    "DP-RELEASE-015": ("k",),
}
"""The keys at which an error of a whole mapping is reported: the first key that exists."""


def _type_found(document: Document, keys: KeyPath) -> tuple[KeyPath, dict[str, object]]:
    """Return the key path at which an unknown type is declared, and the fields of its message."""
    written: Plain = document.values
    for key in (*keys, "type"):
        written = written.get(str(key)) if isinstance(written, dict) else None
    if not isinstance(written, str):
        return keys, {"problem": A_TYPE}
    message = f"there is no type '{written[:60]}'{nearest(written, TYPES)}; there are "
    message += f"{', '.join(TYPES)}, and a `cut`"
    return (*keys, "type"), {"problem": message}


def _reported_key_path(
    document: Document, kind: str, keys: KeyPath, context: Mapping[str, object]
) -> KeyPath:
    """Return the key path at which an error is reported, which may lie inside a mapping."""
    named = ("{key}",) if "key" in context else SPOTS.get(kind, ())
    inner = context.get("spot") or [part.format(**context) for part in named]
    path = keys
    for part in inner if isinstance(inner, Sequence) else ():
        longer = (*path, part if isinstance(part, int) else str(part))
        if longer not in document.lines:
            break
        path = longer
    if kind == "DP-DECL-006":  # find the second of two similar names
        path = next(_find_keys(_value_at(document, keys), str(context["other"]), keys), keys)
    return path


def _value_at(document: Document, keys: KeyPath) -> Plain:
    value: Plain = document.values
    for key in keys:
        value = value[key]  # type: ignore[index]
    return value


def _find_keys(value: Plain, name: str, keys: KeyPath) -> Iterator[KeyPath]:
    """Yield the key paths below a value that end in a name, in document order."""
    parts = value.items() if isinstance(value, dict) else enumerate(value or ())
    for key, inner in parts if isinstance(value, dict | list) else ():
        if key == name:
            yield (*keys, key)
        yield from _find_keys(inner, name, (*keys, key))


def _key_path(document: Document, loc: tuple[str | int, ...], *, missing: bool) -> KeyPath:
    """Return the document's keys in a pydantic location, which also names union members."""
    keys: list[str | int] = []
    value: object = document.values
    for i, part in enumerate(loc):
        is_key = isinstance(value, Mapping) and part in value
        is_index = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if _is_named_like_key(loc, i):
            continue
        if is_key or is_index:
            keys.append(part)
            value = value[part]  # type: ignore[index]
        elif missing and i == len(loc) - 1:
            keys.append(part)
    return tuple(keys)


def _is_named_like_key(loc: tuple[str | int, ...], i: int) -> bool:
    """Return whether a part of a location is a union member with the same name as its key."""
    return loc[i] == "cut" and i > 1 and loc[i - 2] in ("columns", "derive")


def _unknown_key(
    model: type[Model],
    document: Document,
    loc: tuple[str | int, ...],
    keys: KeyPath,
    known: AllowedKeys,
) -> DeclarationError:
    """Return the error for an unknown key, with a similar key and all allowed keys."""
    names = _allowed_keys(model, loc[:-1], known)
    name = str(loc[-1])
    return DeclarationError(
        "DP-DECL-001",
        place=document.place(*keys),
        name=shorten(name),
        nearest=value_labels_hint(loc)
        or _types_with_key(model, loc, known)
        or nearest(name[:LONGEST_QUOTE], names),
        known=", ".join(names),
    )


def _types_with_key(model: type[Model], loc: tuple[str | int, ...], known: AllowedKeys) -> str:
    """Return the text "; columns of type ... have it", if other types of columns have a key."""
    if len(loc) < 4 or loc[-4] != "columns" or loc[-2] not in TYPES:
        return ""
    others = [t for t in TYPES if loc[-1] in _allowed_keys(model, (*loc[:-2], t), known)]
    words = " or ".join(others)
    return f"; columns of type {words} have it" if others else ""


def _allowed_keys(model: type[Model], loc: tuple[str | int, ...], known: AllowedKeys) -> list[str]:
    """Return the allowed keys at a pydantic location, and cache them in `known`."""
    if loc not in known:
        known[loc] = sorted(_fields_at(model, loc))
    return known[loc]


def _fields_at(model: type[Model], loc: tuple[str | int, ...]) -> set[str]:
    """Return the keys that the model at a pydantic location allows."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    spots = [schema]
    for i, part in enumerate(loc):
        if _is_named_like_key(loc, i):
            continue
        spots = [
            below
            for spot in spots
            for below in _inner_schemas(_flattened_schemas(spot, definitions), part)
        ] or spots  # the name of a union member is not a key
    flat = [arm for spot in spots for arm in _flattened_schemas(spot, definitions)]
    arms = [arm for arm in flat if _matches_location(arm, loc)] or flat
    return {name for arm in arms for name in arm.get("properties", {})}


def _flattened_schemas(
    spot: dict[str, object], definitions: dict[str, dict[str, object]]
) -> list[dict]:  # type: ignore[type-arg]
    """Return the JSON Schemas of all alternatives, with references resolved."""
    if "$ref" in spot:
        return _flattened_schemas(definitions[str(spot["$ref"]).rsplit("/", 1)[-1]], definitions)
    arms = spot.get("anyOf") or spot.get("oneOf")
    if isinstance(arms, list):
        return [flat for arm in arms for flat in _flattened_schemas(arm, definitions)]
    return [spot]


def _inner_schemas(arms: list[dict], part: str | int) -> list[dict]:  # type: ignore[type-arg]
    """Return the JSON Schemas that the alternatives have for the value at a key or an index."""
    schemas = []
    for arm in arms:
        if part in arm.get("properties", {}):
            schemas.append(arm["properties"][part])
        elif isinstance(part, int) and "items" in arm:
            schemas.append(arm["items"])
        elif isinstance(part, str):
            by_name = [arm.get("additionalProperties"), *arm.get("patternProperties", {}).values()]
            schemas += [below for below in by_name if isinstance(below, dict)]
    return schemas


def _matches_location(arm: dict[str, object], loc: tuple[str | int, ...]) -> bool:
    """Return whether a pydantic location ends with the name of this alternative."""
    properties = arm.get("properties", {})
    if not isinstance(properties, dict) or not loc:
        return False
    kind = properties.get("type", {}).get("const")
    return bool(kind == loc[-1]) or (kind is None and loc[-1] in properties)


MOST_COLUMNS = 10_000
"""Maximum number of columns of a table."""


def refuse_too_many_columns(columns: object) -> object:
    """Return declared columns; refuse more than the maximum number."""
    if isinstance(columns, Sized) and len(columns) > MOST_COLUMNS:
        refuse("DP-SCHEMA-015", found=f"{len(columns):,}", most=f"{MOST_COLUMNS:,}")
    return columns
