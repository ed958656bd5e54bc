"""A document is read in rounds, each without what the one before refused.

A fault hides those that are looked for after it, of the same model: which columns lean on others is
looked at once each is in order by itself. So what is refused is left out and the rest is read
again. What is found then is told, unless it may come of what was left out.
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
"""Findings that say what a whole table is about, so that nothing of it can be told without them."""
Refused = tuple[KeyPath, DpReleaseError, ErrorDetails]
"""A finding, and the path of what is left out for it."""


def in_rounds(
    model: type[ModelT],
    document: Document,
    values: dict[str, Plain],
    files: Files,
    stand_ins: Mapping[str, Plain],
) -> tuple[ModelT | None, list[KeyPath], list[DpReleaseError]]:
    """Return the model of what is left of some values, the paths of what was dropped, and findings.

    These are those of all rounds but the first, which whoever read the document has told.
    """
    dropped: list[KeyPath] = []
    told: list[DpReleaseError] = []
    for i in range(MOST_ROUNDS):
        without = [*dropped, *document.findings]
        if i > 0 and _is_bare(values, without):
            return None, dropped, told
        try:
            return model.model_validate(values, context=files), dropped, told
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
        refused = list(_rejections(model, document, values, problems))
        if i > 0:
            told += [e for _, e, problem in refused if not _follows(document, e, problem, without)]
        paths = {path for path, *_ in refused}
        if () in paths:
            missing = {str(p["loc"][0]) for p in problems if len(p["loc"]) == 1} & stand_ins.keys()
            if not missing:
                return None, dropped, told
            values |= {key: stand_ins[key] for key in missing}
        for path in sorted(paths - {()}, key=len, reverse=True):  # lists are dropped as a whole
            _leave_out(values, path, dropped)
    return None, dropped, told


def _rejections(
    model: type[Model],
    document: Document,
    values: dict[str, Plain],
    problems: Iterable[ErrorDetails],
) -> Iterator[Refused]:
    """Yield what a round refused; findings of a whole table are those of what they name."""
    for problem in problems:
        (error,) = findings_of(model, document, [problem])
        path = _key_path(values, problem["loc"])
        if path == () and "columns" in values and error.code not in OF_ALL:
            spot = _keys(document, error)
            inner = {"columns": 2, "privacy_unit": 1}.get(str(spot[0]) if spot else "", len(spot))
            path = spot[:inner]
        yield path, error, problem


def _keys(document: Document, error: DpReleaseError) -> KeyPath:
    """Return the keys of the place of a finding."""
    return next((keys for keys in document.lines if dotted_path(keys) == error.place.key), ())


def _follows(
    document: Document, error: DpReleaseError, problem: ErrorDetails, dropped: Iterable[KeyPath]
) -> bool:
    """Return whether a finding may come of what was left out."""
    own = _keys(document, error)
    said = [text for text in problem.get("ctx", {}).values() if isinstance(text, str)]
    for path in dropped:
        size = min(len(path), len(own))
        if path[:1] == ("columns",):
            size = min(size, 2)  # all of a column, and all that names it
            name = shorten(str(path[1])) if len(path) > 1 else ""
            if any(text == name or f"'{name}'" in text for text in said):
                return True
        if path[:size] == own[:size]:
            return True
    return False


def _is_bare(values: Mapping[str, Plain], dropped: Iterable[KeyPath]) -> bool:
    """Return whether no column of a table is in order: nobody knows what it is about, then."""
    columns = values.get("columns")
    return isinstance(columns, dict) and {*columns} <= {path[1] for path in dropped if path[1:]}


def _leave_out(values: dict[str, Plain], path: KeyPath, dropped: list[KeyPath]) -> None:
    columns = values.get("columns")
    if path not in dropped and path[:1] == ("columns",) and len(path) == 2:
        if isinstance(columns, dict):  # a table's: messages that list them name this one, too
            columns[str(path[1])] = {"type": "text"}
    else:
        dropped_from(values, path)
    dropped.append(path)


def _key_path(values: Plain, location: tuple[str | int, ...]) -> KeyPath:
    """Return the keys in a location."""
    keys: list[str | int] = []
    for part in location:  # which also holds names of the arms of unions
        if isinstance(values, dict) and part in values:
            keys.append(part)
            values = values[str(part)]
    return tuple(keys)


def dropped_from(values: Plain, keys: KeyPath) -> None:
    """Remove the value at a path, or the list that it is in."""
    for i, key in enumerate(keys):
        if not isinstance(values, dict) or str(key) not in values:
            return
        inner = values[str(key)]
        if i == len(keys) - 1 or isinstance(inner, list):
            del values[str(key)]
            return
        values = inner
