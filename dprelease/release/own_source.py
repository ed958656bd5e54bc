"""Whether a release would stand among its own sources, or they in its folder.

A later run would read what an earlier one has published, and --overwrite would take away what it
reads. Paths are compared by what they lead to, so links make no difference; of folders nothing but
names is looked at.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dprelease.errors import OutputError, Place
from dprelease.query.resolve import Query
from dprelease.release.replaceable import MANIFEST
from dprelease.schema.load import Declaration

EVERYWHERE = "**"
"""The part of a pattern that stands for any number of folders."""

LOCAL_URI = "file://"
SPARKS_MARKS = "*?[]{}\\"
"""What begins a pattern in a path that Spark reads; it finds files in all folders below."""


def refuse_own_source(
    declaration: Declaration, queries: Sequence[Query], output: Path | None = None
) -> None:
    """Raise unless the folder of a release and its sources are apart.

    `output` stands in for the declared folder.

    Raises
    ------
    OutputError
        DP-OUTPUT-012 if a source is in the folder, or has a pattern that files in it would fit.
    """
    target = output or declaration.folder / declaration.spec.output
    written = [MANIFEST, *(f"{query.name}.parquet" for query in queries)]
    place = Place() if output is not None else declaration.place("output")
    for declared in declaration.tables.values():
        source = declared.table.source
        if source is None or source.path is None:
            continue
        if source.is_uri:
            meets = _meets_uri(source.path, target)
        else:
            meets = _is_inside(declared.folder, source.path, target) or any(
                _fits_pattern(declared.folder, source.path, folder, written)
                for folder in (target, target.parent / f".{target.name}.staging")
            )
        if meets:
            name = target.name
            raise OutputError("DP-OUTPUT-012", place=place, name=name, table=declared.table.name)


def _meets_uri(uri: str, target: Path) -> bool:
    """Return whether Spark would look for files in the folder, or somewhere inside it."""
    if not uri.lower().startswith(LOCAL_URI):
        return False
    path = "/" + uri[len(LOCAL_URI) :].partition("/")[2]
    marks = [path.find(mark) for mark in SPARKS_MARKS if mark in path]
    root = path[: path.rfind("/", 0, min(marks)) + 1] if marks else path
    return _holds(root, target) or _holds(target, root)


def _is_inside(folder: Path, path: str, target: Path) -> bool:
    """Return whether files of a path or pattern are, or would be, in the folder."""
    plain = folder / path
    parts = plain.parts if plain.is_file() else _fixed(Path(path))
    if _holds(target, folder.joinpath(*parts)):
        return True
    return target.is_dir() and any(_holds(target, found) for found in _found(folder, path))


def _fixed(pattern: Path) -> tuple[str, ...]:
    """Return the part of a pattern before its first mark."""
    marked = [i for i, part in enumerate(pattern.parts) if glob.has_magic(part)]
    return pattern.parts[: marked[0]] if marked else pattern.parts


def _holds(folder: Path | str, inside: Path | str) -> bool:
    outer, inner = os.path.realpath(folder), os.path.realpath(inside)
    return os.path.commonpath([outer, inner]) == outer


def _found(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield what a pattern finds, as a run looks for it."""
    root = None if os.path.isabs(pattern) else folder
    for found in glob.iglob(pattern, root_dir=root, recursive=True):
        yield folder / found


def _fits_pattern(folder: Path, pattern: str, target: Path, written: Iterable[str]) -> bool:
    """Return whether a run would take files in a folder, which need not be there, for its source.

    The folders that are there may have any number of names, by links. So the first parts of the
    pattern look for the last one of them, and the others have to fit what is not there yet.
    """
    if (folder / pattern).is_file():
        return False
    there, missing = _split(os.path.realpath(target))
    files = [(*missing, name) for name in written]
    parts = Path(pattern).parts
    for i in range(len(parts)):
        if not any(_fits(parts[i:], file) for file in files):
            continue
        heads = [parts[:i]] + [parts[: i + 1]] * (parts[i] == EVERYWHERE)
        if any(_leads(folder, head, there) for head in heads):
            return True
    return False


def _split(path: str) -> tuple[str, list[str]]:
    """Return the longest part of a path that is there, and the names after it."""
    missing: list[str] = []
    while not os.path.lexists(path):
        path, name = os.path.split(path)
        missing.insert(0, name)
    return path, missing


def _leads(folder: Path, head: Sequence[str], there: str) -> bool:
    """Return whether the first parts of a pattern find a folder."""
    found = _found(folder, os.path.join(*head, "")) if head else [folder]
    return any(os.path.realpath(one) == there for one in found)


def _fits(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a pattern finds a path, part by part, by the rules of `glob`."""
    if not pattern or not names:
        return not names and all(part == EVERYWHERE for part in pattern)
    first, name = pattern[0], names[0]
    is_shown = not name.startswith(".")
    if first == EVERYWHERE:
        return _fits(pattern[1:], names) or (is_shown and _fits(pattern, names[1:]))
    same = name == first
    if glob.has_magic(first):
        same = fnmatch.fnmatchcase(name, first) and (is_shown or first.startswith("."))
    return same and _fits(pattern[1:], names[1:])
