"""Detect a release that would be written among its sources, or sources in its folder.

A later run would read what an earlier one has published, and --overwrite would delete its source.
Paths are compared after resolving links; in folders, only names are read.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from dprelease.documents.encoding import NAME
from dprelease.errors import OutputError, Place
from dprelease.planning.plan import Plan
from dprelease.release.folder import working_names
from dprelease.schema.load import Declaration, Declared
from dprelease.tables import formats

EVERYWHERE = "**"
"""The part of a pattern that stands for any number of folders."""

MOST_FOLDERS = 10_000
"""Maximum number of folders searched, nearest first: a pattern may start at the root of a disk."""

LOCAL_URI = "file://"
SPARKS_MARKS = "*?[]{}\\"
"""Characters that start a pattern in a path of Spark, which also searches all folders below."""


def refuse_own_source(
    declaration: Declaration, plan: Plan, output: Path | None = None, more: Sequence[str] = ()
) -> None:
    """Raise if the folder of a release and its sources overlap.

    `output` replaces the declared folder. `more`: files that are written next to the tables.

    Raises
    ------
    OutputError
        DP-OUTPUT-012 if a source is in the folder, or files in the folder would match its pattern.
    """
    target = output or declaration.folder / declaration.spec.output
    names = [name for family in plan.families for name in family.published_names]
    copies = [file.copy for file, _ in declaration.kept.values()]
    written = [NAME, *map(formats.file_of, names), *more, *copies]
    place = Place() if output is not None else declaration.place("output")
    for declared in declaration.tables.values():
        source = declared.table.source
        if source is None or source.path is None or source.pattern is None:
            continue
        if source.is_uri:
            meets = _meets_uri(source.path, target)
        else:
            meets = _is_inside(declared.folder, source.pattern, target) or any(
                _finds(declared.folder, source.pattern, folder, written)
                for folder in (target, *working_names(target))
            )
        if meets:
            name = target.name or target.resolve().name
            raise OutputError("DP-OUTPUT-012", place=place, name=name, table=declared.table.name)


def _meets_uri(uri: str, target: Path) -> bool:
    """Return whether Spark would look for files in the folder, or somewhere inside it."""
    root = _root_of(uri)
    return root is not None and (_holds(root, target) or _holds(target, root))


def refuse_as_source(declaration: Declaration, file: Path) -> None:
    """Raise OutputError DP-OUTPUT-012 for an existing file that a run would read as rows."""
    for declared in declaration.tables.values():
        if is_source_of(declared, file):
            raise OutputError("DP-OUTPUT-012", name=file.name, table=declared.table.name)


def is_source_of(declared: Declared, file: Path) -> bool:
    """Return whether an existing file belongs, or may belong, to a table's declared source.

    Links are resolved. The folder of a URI is not searched: any file in it may be read.
    """
    source = declared.table.source
    if source is None or source.path is None:
        return False
    if source.is_uri:
        root = _root_of(source.path)
        return root is not None and (_is_same(root, file) or _holds(root, file))
    pattern = str(declared.folder / (source.pattern or source.path))
    return any(_is_same(there, file) for there in (pattern, *glob.glob(pattern, recursive=True)))


def _is_same(one: str, file: Path) -> bool:
    try:
        return os.path.samefile(one, file)
    except OSError:
        return False


def _root_of(uri: str) -> str | None:
    """Return the file, or the folder of a pattern, of a local URI; None for other machines."""
    if not uri.lower().startswith(LOCAL_URI):
        return None
    path = "/" + uri[len(LOCAL_URI) :].partition("/")[2]
    marks = [path.find(mark) for mark in SPARKS_MARKS if mark in path]
    return path[: path.rfind("/", 0, min(marks)) + 1] if marks else path


def _is_inside(folder: Path, path: str, target: Path) -> bool:
    """Return whether a path, or every match of a pattern, is in the folder."""
    plain = folder / path
    return _holds(target, plain if os.path.isfile(plain) else folder.joinpath(*_cut(path)[0]))


def _cut(pattern: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parts of a pattern before the first wildcard, and the other parts."""
    parts = Path(pattern).parts
    marked = [i for i, part in enumerate(parts) if glob.has_magic(part)]
    cut = marked[0] if marked else len(parts)
    return parts[:cut], parts[cut:]


def _holds(folder: Path | str, inside: Path | str) -> bool:
    return _is_below(os.path.realpath(folder), os.path.realpath(inside))


def _is_below(outer: str, inner: str) -> bool:
    """Return whether a resolved path equals another one, or is inside it."""
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def _finds(folder: Path, pattern: str, target: Path, written: Iterable[str]) -> bool:
    """Return whether a run would read files in a folder, which may not exist yet, as its source.

    The pattern is followed through existing folders, each of which may have several names by links.
    From the last one on, the rest of the pattern must match the missing parts.
    """
    if os.path.isfile(folder / pattern):  # Path.is_file raises for a long name
        return False
    end = os.path.realpath(target)
    begin, marked = _cut(pattern)
    root = os.path.realpath(folder.joinpath(*begin))
    if _is_below(root, end):
        inside = Path(end).relative_to(root).parts
        if any(_fits(marked, (*inside, *name.split("/"))) for name in written):
            return True  # without a link
    there, missing = _split(end)
    files = [(*missing, *name.split("/")) for name in written]
    parts = Path(pattern).parts
    todo, seen = deque([(str(folder), 0)]), set[tuple[str, int]]()
    while todo and len(seen) < MOST_FOLDERS:
        path, used = todo.popleft()
        real = os.path.realpath(path)
        if (real, used) in seen:
            continue
        seen.add((real, used))
        if real == there and any(_fits(parts[used:], file) for file in files):
            return True
        # A file that is not a link lies where its folder lies.
        for reached, then in _steps(real, parts, used, links=not _is_below(end, real)):
            if os.path.isdir(reached):
                todo.append((reached, then))
            elif then == len(parts) and _holds(target, reached):
                return True
    return False


def _split(path: str) -> tuple[str, list[str]]:
    """Return the longest existing part of a path, and the names after it."""
    missing: list[str] = []
    # a path may be unreadable from its root on
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path, name = os.path.split(path)
        missing.insert(0, name)
    return path, missing


def _steps(
    folder: str, parts: Sequence[str], used: int, *, links: bool
) -> Iterator[tuple[str, int]]:
    """Yield the matches of the next part of a pattern, and the number of parts used.

    `links`: of files, yield only links.
    """
    if used == len(parts):
        return
    part = parts[used]
    if not glob.has_magic(part):
        yield os.path.join(folder, part), used + 1
        return
    if part == EVERYWHERE:
        yield folder, used + 1
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            passed = links and entry.is_file(follow_symlinks=False)
            if passed or not _fits_part(part, entry.name):
                continue
            yield entry.path, used + 1
            if part == EVERYWHERE:
                yield entry.path, used


def _fits(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a pattern matches a path, part by part, by the rules of `glob`."""
    if not pattern or not names:
        return not names and all(part == EVERYWHERE for part in pattern)
    first, name = pattern[0], names[0]
    if first == EVERYWHERE:
        return _fits(pattern[1:], names) or (_fits_part(first, name) and _fits(pattern, names[1:]))
    return _fits_part(first, name) and _fits(pattern[1:], names[1:])


def _fits_part(part: str, name: str) -> bool:
    """Return whether a part of a pattern matches a name; hidden names need an explicit dot."""
    if not glob.has_magic(part):
        return name == part
    is_shown = not name.startswith(".") or (part.startswith(".") and part != EVERYWHERE)
    return is_shown and fnmatch.fnmatchcase(name, part)
