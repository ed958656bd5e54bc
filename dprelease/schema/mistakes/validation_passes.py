"""Validate again without the rejected values, to report more errors at once.

pydantic stops at the first failed check of a model: dependencies between columns are checked only
if each column is valid by itself. So the rejected values are removed, and the rest is validated
again. New errors are reported unless they may result from the removal.
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

MOST_PASSES = 50
TABLE_ERRORS = ("DP-JOIN-002",)
"""The errors of a whole table: without the key concerned, nothing else in it can be checked."""
Rejection = tuple[KeyPath, DpReleaseError, ErrorDetails]
"""The key path that is removed because of an error, the error, and pydantic's details of it."""


def validate_in_passes(
    model: type[ModelT],
    document: Document,
    values: dict[str, Plain],
    files: Files,
    stand_ins: Mapping[str, Plain],
) -> tuple[ModelT | None, list[KeyPath], list[DpReleaseError]]:
    """Return the model of the valid values, the paths of removed values, and the errors.

    The errors are those of all passes after the first, whose errors the caller has reported.
    """
    dropped: list[KeyPath] = []
    errors: list[DpReleaseError] = []
    for i in range(MOST_PASSES):
        without = [*dropped, *document.findings]
        if i > 0 and _has_no_columns(values, without):
            return None, dropped, errors
        try:
            return model.model_validate(values, context=files), dropped, errors
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
        refused = list(_rejections(model, document, values, problems))
        if i > 0:
            errors += [
                e
                for _, e, problem in refused
                if not _may_result_from_removal(document, e, problem, without)
            ]
        paths = {path for path, *_ in refused}
        if () in paths:
            missing = {str(p["loc"][0]) for p in problems if len(p["loc"]) == 1} & stand_ins.keys()
            if not missing:
                return None, dropped, errors
            values |= {key: stand_ins[key] for key in missing}
        for path in sorted(paths - {()}, key=len, reverse=True):  # a list is removed as a whole
            _remove_value(values, path, dropped)
    return None, dropped, errors


def _rejections(
    model: type[Model],
    document: Document,
    values: dict[str, Plain],
    problems: Iterable[ErrorDetails],
) -> Iterator[Rejection]:
    """Yield the rejections of a pass; an error of a whole table belongs to the keys it names."""
    for problem in problems:
        (error,) = findings_of(model, document, [problem])
        path = _key_path(values, problem["loc"])
        if path == () and "columns" in values and error.code not in TABLE_ERRORS:
            spot = _error_key_path(document, error)
            inner = {"columns": 2, "privacy_unit": 1}.get(str(spot[0]) if spot else "", len(spot))
            path = spot[:inner]
        yield path, error, problem


def _error_key_path(document: Document, error: DpReleaseError) -> KeyPath:
    return next((keys for keys in document.lines if dotted_path(keys) == error.place.key), ())


def _may_result_from_removal(
    document: Document, error: DpReleaseError, problem: ErrorDetails, dropped: Iterable[KeyPath]
) -> bool:
    own = _error_key_path(document, error)
    texts = [text for text in problem.get("ctx", {}).values() if isinstance(text, str)]
    for path in dropped:
        size = min(len(path), len(own))
        if path[:1] == ("columns",):
            size = min(size, 2)  # all keys of a column
            name = shorten(str(path[1])) if len(path) > 1 else ""
            if any(text == name or f"'{name}'" in text for text in texts):
                return True
        if path[:size] == own[:size]:
            return True
    return False


def _has_no_columns(values: Mapping[str, Plain], dropped: Iterable[KeyPath]) -> bool:
    """Return whether a table has no valid column, so that nothing about it can be checked."""
    columns = values.get("columns")
    return isinstance(columns, dict) and {*columns} <= {path[1] for path in dropped if path[1:]}


def _remove_value(values: dict[str, Plain], path: KeyPath, dropped: list[KeyPath]) -> None:
    """Remove the value at a path, and add the path to the removed ones."""
    columns = values.get("columns")
    if path not in dropped and path[:1] == ("columns",) and len(path) == 2:
        # replace a table's column by a text column, so that messages still list the column
        if isinstance(columns, dict):
            columns[str(path[1])] = {"type": "text"}
    else:
        remove_at(values, path)
    dropped.append(path)


def _key_path(values: Plain, location: tuple[str | int, ...]) -> KeyPath:
    """Return the keys of the document in a pydantic location."""
    keys: list[str | int] = []
    for part in location:  # a location also has names of union members
        if isinstance(values, dict) and part in values:
            keys.append(part)
            values = values[str(part)]
    return tuple(keys)


def remove_at(values: Plain, keys: KeyPath) -> None:
    """Remove the value at a path, or the list that contains it."""
    for i, key in enumerate(keys):
        if not isinstance(values, dict) or str(key) not in values:
            return
        inner = values[str(key)]
        if i == len(keys) - 1 or isinstance(inner, list):
            del values[str(key)]
            return
        values = inner
