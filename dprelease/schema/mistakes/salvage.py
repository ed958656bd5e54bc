"""What is left of a declaration with mistakes, so that those of other kinds are told beside them.

A wrong value hides nothing but itself: the rest of both files is read as if it were not there. No
release is ever made of what comes out; whatever leans on a part that was left out is left out too,
so that nothing is said of it that its mending would make untrue.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from dprelease.errors import DeclarationError, Findings
from dprelease.schema.load import Declaration, Declared, prepared
from dprelease.schema.mistakes.nearest import nearest
from dprelease.schema.model import Files, Model, read_beside
from dprelease.schema.public_values.large_files import find_beside
from dprelease.schema.release import QuerySpec, ReleaseSpec
from dprelease.schema.release_parts.variables import TABLES, Variables, filled
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.reader import Document, KeyPath, Plain, parse, read_document

ModelT = TypeVar("ModelT", bound=Model)

STAND_INS: dict[str, Plain] = {"title": "-", "budget": {"epsilon": "1"}, "output": "out"}
"""What a release has for the moment where it has none: no finding comes of these."""

MOST_ROUNDS = 50
LEANING = ("from", "join", "derive", "histogram", "private_keys")
"""Parts of a query that others lean on: without them it is left out whole."""
FOR_READERS = ("label", "description", "footnotes", "decimals")
"""Parts of a column that change nothing that is asked of it."""


def what_is_left(path: Path, variables: Mapping[str, str] | None = None) -> Declaration | None:
    """Return the parts of a release file and its tables that are in order; None if too few are.

    Raises nothing: what is wrong with the rest has been told by whoever read it.
    """
    read = read_beside(path.parent)
    try:
        document, known = prepared(read_document(path), read, {}, variables or {})
    except (DeclarationError, Findings):
        return None
    names = document.values.get("tables")
    tables, lost = {}, set[str]()
    for name in names if isinstance(names, list) else ():
        declared = _table(path.parent, name, lost, known) if isinstance(name, str) else None
        if declared is None:
            return None  # nobody knows what its queries are about
        tables[declared.table.name] = declared
    values = _values(document)
    queries = values.get("queries")
    if isinstance(queries, dict):
        values["queries"] = dict(_queries(queries, tables, lost))
    files = Files(read, find_beside(path.parent))
    spec, dropped = _model(ReleaseSpec, values, files, STAND_INS)
    if spec is None:
        return None
    inside = [path for path in dropped if path[:1] == ("queries",) and len(path) > 2]
    leaning = {path[1] for path in inside if _is_leaned_on(str(path[2]))}
    kept = {name: query for name, query in spec.queries.items() if name not in leaning}
    return Declaration(spec.model_copy(update={"queries": kept}), document, tables)


def _is_leaned_on(key: str) -> bool:
    """Return whether others may lean on a part of a query, also if its name is misspelt."""
    known = [field.alias or name for name, field in QuerySpec.model_fields.items()]
    meant = key if key in known else nearest(key, known)
    return not any(part in meant for part in known if part not in LEANING)


def _values(document: Document) -> dict[str, Plain]:
    """Return the values, without those that the reader itself refuses."""
    values = copy.deepcopy(document.values)
    for keys in document.findings:
        for path in _beside(document, keys):
            _drop(values, path)
    return values


def _beside(document: Document, keys: KeyPath) -> Iterator[KeyPath]:
    """Yield a path, and those beside it on its line: a stray comma may have cut a value in two."""
    line = document.lines.get(keys)
    for path, other in document.lines.items():
        if path == keys or (other == line and path[:-1] == keys[:-1] and len(path) == len(keys)):
            yield path


def _table(folder: Path, name: str, lost: set[str], known: Variables) -> Declared | None:
    """Return what is left of a table; names of columns that are not are added to `lost`."""
    beside = folder / Path(name).parent
    files = Files(read_beside(beside), find_beside(beside))
    try:
        text = read_beside(folder)(name)
        document = filled(parse(text, folder / name), known, TABLES)
    except (OSError, ValueError, DeclarationError):
        return None
    table, dropped = _model(Table, _values(document), files, {})
    for path in [*dropped, *document.findings]:
        lost.update(_names(document, path))
    return None if table is None else Declared(table, document, document.path.parent)


def _names(document: Document, path: KeyPath) -> Iterator[str]:
    """Yield what is not what was declared without a part of the schema: columns, and the unit."""
    if path[:1] == ("columns",) and len(path) > 2 and str(path[2]) in FOR_READERS:
        return
    if path[:1] == ("columns",) and len(path) > 1:
        yield str(path[1])
    elif path and path[0] != "columns":  # it may be the unit, badly spelt: nobody knows its id
        yield from ("count_distinct", "on_unit")
        yield from _texts(document.values.get(str(path[0])))


def _texts(value: Plain) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
    elif value is not None:
        yield value


def _queries(
    queries: Mapping[str, Plain], tables: Mapping[str, Declared], lost: set[str]
) -> Iterator[tuple[str, Plain]]:
    """Yield queries without what names a lost column, or asks a table that there is not."""
    names = (rf"(?<!\w){re.escape(name)}(?!\w)" for name in lost if name)
    word = re.compile("|".join(names) or r"$^")
    for name, query in queries.items():
        if not isinstance(query, dict):
            yield name, query
            continue
        join = query.get("join")
        other = join.get("table") if isinstance(join, dict) else None
        if query.get("from") not in [*tables] or other not in [None, *tables]:
            continue
        left = {key: value for key, value in query.items() if not _names_any(value, word)}
        columns = query.get("columns")
        if isinstance(columns, dict):
            left["columns"] = {k: v for k, v in columns.items() if not _names_any(v, word)}
        if left.get("columns") and not (query.keys() - left.keys()) & set(LEANING):
            yield name, left


def _names_any(value: Plain, word: re.Pattern[str]) -> bool:
    if isinstance(value, dict):
        return any(_names_any(part, word) for part in (*value, *value.values()))
    if isinstance(value, list):
        return any(_names_any(part, word) for part in value)
    return value is not None and word.search(value) is not None


def _model(
    model: type[ModelT], values: dict[str, Plain], files: Files, stand_ins: Mapping[str, Plain]
) -> tuple[ModelT | None, list[KeyPath]]:
    """Return the model of what is left of some values, and the paths of what was dropped."""
    dropped: list[KeyPath] = []
    for _ in range(MOST_ROUNDS):
        problems: Sequence[tuple[str | int, ...]] = ()
        try:
            return model.model_validate(values, context=files), dropped
        except ValidationError as error:
            problems = [problem["loc"] for problem in error.errors(include_input=False)]
        for path in _paths(values, problems):
            if len(path) == 0:
                missing = {str(loc[0]) for loc in problems if len(loc) == 1} & stand_ins.keys()
                if not missing:
                    return None, dropped
                values |= {key: stand_ins[key] for key in missing}
                break
            if path not in dropped and path[:1] == ("columns",) and len(path) == 2:
                columns = values["columns"]  # a table's: messages that list them name this one, too
                if isinstance(columns, dict):
                    columns[str(path[1])] = {"type": "text"}
            else:
                _drop(values, path)
            dropped.append(path)
    return None, dropped


def _paths(values: dict[str, Plain], locations: Iterable[tuple[str | int, ...]]) -> list[KeyPath]:
    """Return the keys in each location, the longest first; lists are dropped as a whole."""
    paths = {_known(values, location) for location in locations}
    return sorted(paths, key=len, reverse=True)


def _known(values: Plain, location: tuple[str | int, ...]) -> KeyPath:
    keys: list[str | int] = []
    for part in location:  # which also holds names of the arms of unions
        if isinstance(values, dict) and part in values:
            keys.append(part)
            values = values[str(part)]
    return tuple(keys)


def _drop(values: Plain, keys: KeyPath) -> None:
    """Remove the value at a path, or the list that it is in."""
    for i, key in enumerate(keys):
        if not isinstance(values, dict) or str(key) not in values:
            return
        inner = values[str(key)]
        if i == len(keys) - 1 or isinstance(inner, list):
            del values[str(key)]
            return
        values = inner
