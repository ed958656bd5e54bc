"""Validate again without the rejected values, to report more errors at once.

An error hides those that are checked later in the same model: dependencies between columns are
checked once each column is valid by itself. So rejected values are removed, and the rest is
validated again. Errors that are found then are reported, unless they may result from the removal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dprelease.errors import DpReleaseError
from dprelease.schema.model import Files, Model, findings_of, shorten
from dprelease.schema.yaml_text.reader import Document, KeyPath, Plain, dotted_path

ModelT = TypeVar("ModelT", bound=Model)

MOST_ROUNDS = 50
OF_ALL = ("DP-JOIN-002",)
"""Errors about a whole table: without the key in question nothing else of it can be checked."""
Refused = tuple[KeyPath, DpReleaseError, ErrorDetails]
"""An error, and the path that is removed because of it."""


def in_rounds(
    model: type[ModelT],
    document: Document,
    values: dict[str, Plain],
    files: Files,
    stand_ins: Mapping[str, Plain],
) -> tuple[ModelT | None, list[KeyPath], list[DpReleaseError]]:
    """Return the model of the valid values, the paths of dropped values, and the errors.

    These are the errors of all passes but the first, which the caller has reported.
    """
    dropped: list[KeyPath] = []
    errors: list[DpReleaseError] = []
    for i in range(MOST_ROUNDS):
        without = [*dropped, *document.findings]
        if i > 0 and _is_bare(values, without):
            return None, dropped, errors
        try:
            return model.model_validate(values, context=files), dropped, errors
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
        refused = list(_rejections(model, document, values, problems))
        if i > 0:
            errors += [
                e for _, e, problem in refused if not _follows(document, e, problem, without)
            ]
        paths = {path for path, *_ in refused}
        if () in paths:
            missing = {str(p["loc"][0]) for p in problems if len(p["loc"]) == 1} & stand_ins.keys()
            if not missing:
                return None, dropped, errors
            values |= {key: stand_ins[key] for key in missing}
        for path in sorted(paths - {()}, key=len, reverse=True):  # lists are dropped as a whole
            _leave_out(values, path, dropped)
    return None, dropped, errors


def _rejections(
    model: type[Model],
    document: Document,
    values: dict[str, Plain],
    problems: Iterable[ErrorDetails],
) -> Iterator[Refused]:
    """Yield what a pass rejected; an error of a whole table belongs to the keys that it names."""
    for problem in problems:
        (error,) = findings_of(model, document, [problem])
        path = _key_path(values, problem["loc"])
        if path == () and "columns" in values and error.code not in OF_ALL:
            spot = _keys(document, error)
            inner = {"columns": 2, "privacy_unit": 1}.get(str(spot[0]) if spot else "", len(spot))
            path = spot[:inner]
        yield path, error, problem


def _keys(document: Document, error: DpReleaseError) -> KeyPath:
    """Return the key path of an error."""
    return next((keys for keys in document.lines if dotted_path(keys) == error.place.key), ())


def _follows(
    document: Document, error: DpReleaseError, problem: ErrorDetails, dropped: Iterable[KeyPath]
) -> bool:
    """Return whether an error may result from the removal of other values."""
    own = _keys(document, error)
    texts = [text for text in problem.get("ctx", {}).values() if isinstance(text, str)]
    for path in dropped:
        size = min(len(path), len(own))
        if path[:1] == ("columns",):
            size = min(size, 2)  # everything in a column, and everything that names it
            name = shorten(str(path[1])) if len(path) > 1 else ""
            if any(text == name or f"'{name}'" in text for text in texts):
                return True
        if path[:size] == own[:size]:
            return True
    return False


def _is_bare(values: Mapping[str, Plain], dropped: Iterable[KeyPath]) -> bool:
    """Return whether a table has no valid column, so that nothing about it can be checked."""
    columns = values.get("columns")
    return isinstance(columns, dict) and {*columns} <= {path[1] for path in dropped if path[1:]}


def _leave_out(values: dict[str, Plain], path: KeyPath, dropped: list[KeyPath]) -> None:
    columns = values.get("columns")
    if path not in dropped and path[:1] == ("columns",) and len(path) == 2:
        # a table's: messages that list its columns name this one, too
        if isinstance(columns, dict):
            columns[str(path[1])] = {"type": "text"}
    else:
        dropped_from(values, path)
    dropped.append(path)


def _key_path(values: Plain, location: tuple[str | int, ...]) -> KeyPath:
    """Return the keys in a location."""
    keys: list[str | int] = []
    for part in location:  # which also holds names of union members
        if isinstance(values, dict) and part in values:
            keys.append(part)
            values = values[str(part)]
    return tuple(keys)


def dropped_from(values: Plain, keys: KeyPath) -> None:
    """Remove the value at a path, or the list that contains it."""
    for i, key in enumerate(keys):
        if not isinstance(values, dict) or str(key) not in values:
            return
        inner = values[str(key)]
        if i == len(keys) - 1 or isinstance(inner, list):
            del values[str(key)]
            return
        values = inner
