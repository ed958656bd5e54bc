"""Detect a release that would be written among its sources, or sources in the folder of a release.

A later run would read the output of an earlier run, and --overwrite would delete its source. Paths
are compared after resolving links; in folders, only names are read.
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
from dprelease.release.folder import temporary_paths
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.source_types.source import Source
from dprelease.tables import formats

EVERYWHERE = "**"
"""The part of a pattern that stands for any number of folders."""

MOST_FOLDERS = 10_000
"""Maximum number of searched folders, nearest first, because a pattern may start at the root."""

LOCAL_URI = "file://"
SPARK_WILDCARDS = "*?[]{}\\"
"""Characters that start a pattern in a path of Spark; Spark also searches all folders below."""


def refuse_own_source(
    declaration: Declaration, plan: Plan, output: Path | None = None, more: Sequence[str] = ()
) -> None:
    """Raise if the folder of a release and its sources overlap.

    `output` replaces the declared folder. `more`: names of the files that are written in addition
    to the tables.

    Raises OutputError: DP-OUTPUT-012 if a source is in the folder, or the pattern of a source
    matches files of the folder.
    """
    target = output or declaration.folder / declaration.spec.output
    names = [name for family in plan.families for name in family.published_names]
    copies = [file.copy for file, _ in declaration.copies.values()]
    written = [NAME, *map(formats.table_file_name, names), *more, *copies]
    place = Place() if output is not None else declaration.place("output")
    for declared, source in _sources_of(declaration.tables.values()):
        if source.path is None or source.pattern is None:
            continue
        if source.is_uri:
            meets = _spark_would_search(source.path, target)
        else:
            meets = _is_inside(declared.folder, source.pattern, target) or any(
                _would_read_target(declared.folder, source.pattern, folder, written)
                for folder in (target, *temporary_paths(target))
            )
        if meets:
            name = target.name or target.resolve().name
            raise OutputError("DP-OUTPUT-012", place=place, name=name, table=declared.table.name)


def _spark_would_search(uri: str, target: Path) -> bool:
    """Return whether Spark would search the target folder, or a folder inside it, for files."""
    root = _local_root(uri)
    return root is not None and (_contains_path(root, target) or _contains_path(target, root))


def refuse_as_source(declaration: Declaration, file: Path) -> None:
    """Raise OutputError DP-OUTPUT-012 for an existing file that a run would read as rows."""
    for declared in declaration.tables.values():
        if is_source_of(declared, file):
            raise OutputError("DP-OUTPUT-012", name=file.name, table=declared.table.name)


def is_source_of(declared: Declared, file: Path) -> bool:
    """Return whether an existing file belongs, or may belong, to a table's declared source.

    Links are resolved. The folder of a URI is not searched, since any file in it may be read.
    """
    return any(_is_file_of(source, declared, file) for _, source in _sources_of([declared]))


def _sources_of(tables: Iterable[Declared]) -> Iterator[tuple[Declared, Source]]:
    """Yield each source of tables with its table; a source may have several files."""
    for declared in tables:
        for read in filter(None, (declared, declared.lookup)):
            source = read.table.source
            for one in () if source is None else source.files or (source,):
                yield read, one


def _is_file_of(source: Source, declared: Declared, file: Path) -> bool:
    """Return whether an existing file belongs, or may belong, to one source of a table."""
    if source.path is None:
        return False
    if source.is_uri:
        root = _local_root(source.path)
        return root is not None and (_is_same_file(root, file) or _contains_path(root, file))
    pattern = str(declared.folder / (source.pattern or source.path))
    return any(
        _is_same_file(there, file) for there in (pattern, *glob.glob(pattern, recursive=True))
    )


def _is_same_file(one: str, file: Path) -> bool:
    """Return whether a path leads to an existing file, also through links."""
    try:
        return os.path.samefile(one, file)
    except OSError:
        return False


def _local_root(uri: str) -> str | None:
    """Return the local path of a URI, or the folder above its pattern; None for other machines."""
    if not uri.lower().startswith(LOCAL_URI):
        return None
    path = "/" + uri[len(LOCAL_URI) :].partition("/")[2]
    marks = [path.find(mark) for mark in SPARK_WILDCARDS if mark in path]
    return path[: path.rfind("/", 0, min(marks)) + 1] if marks else path


def _is_inside(folder: Path, path: str, target: Path) -> bool:
    """Return whether a path, or every match of a pattern, is inside the folder."""
    plain = folder / path
    return _contains_path(
        target, plain if os.path.isfile(plain) else folder.joinpath(*_split_pattern(path)[0])
    )


def _split_pattern(pattern: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parts of a pattern before the first wildcard, and the remaining parts."""
    parts = Path(pattern).parts
    marked = [i for i, part in enumerate(parts) if glob.has_magic(part)]
    cut = marked[0] if marked else len(parts)
    return parts[:cut], parts[cut:]


def _contains_path(folder: Path | str, inside: Path | str) -> bool:
    """Return whether a path, with its links resolved, is a folder or is inside that folder."""
    return _is_below(os.path.realpath(folder), os.path.realpath(inside))


def _is_below(outer: str, inner: str) -> bool:
    """Return whether a resolved path equals another resolved path, or is inside it."""
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def _would_read_target(folder: Path, pattern: str, target: Path, written: Iterable[str]) -> bool:
    """Return whether a run would read files in a folder, which may not exist yet, as its source.

    The pattern is followed through existing folders, each of which may have several names by links.
    In the last existing folder, the rest of the pattern must match the missing parts of the target.
    """
    if os.path.isfile(folder / pattern):  # Path.is_file raises for a name that is too long
        return False
    # Resolved, because a link would let a source be in the folder under another name.
    end = os.path.realpath(target)
    begin, marked = _split_pattern(pattern)
    root = os.path.realpath(folder.joinpath(*begin))
    if _is_below(root, end):
        inside = Path(end).relative_to(root).parts
        if any(_matches_path(marked, (*inside, *name.split("/"))) for name in written):
            return True  # the pattern matches without a link
    there, missing = _existing_part(end)
    files = [(*missing, *name.split("/")) for name in written]
    parts = Path(pattern).parts
    todo, seen = deque([(str(folder), 0)]), set[tuple[str, int]]()
    while todo and len(seen) < MOST_FOLDERS:
        path, used = todo.popleft()
        real = os.path.realpath(path)
        if (real, used) in seen:
            continue
        seen.add((real, used))
        if real == there and any(_matches_path(parts[used:], file) for file in files):
            return True
        # A file that is not a link is inside the folder that contains it.
        for reached, then in _next_matches(real, parts, used, links=not _is_below(end, real)):
            if os.path.isdir(reached):
                todo.append((reached, then))
            elif then == len(parts) and _contains_path(target, reached):
                return True
    return False


def _existing_part(path: str) -> tuple[str, list[str]]:
    """Return the longest existing part of a path, and the names after that part."""
    missing: list[str] = []
    # Even the root of a path may be unreadable.
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path, name = os.path.split(path)
        missing.insert(0, name)
    return path, missing


def _next_matches(
    folder: str, parts: Sequence[str], used: int, *, links: bool
) -> Iterator[tuple[str, int]]:
    """Yield the matches of the next part of a pattern, and the number of used parts.

    `links`: whether files that are not links are left out.
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
            if passed or not _matches_name(part, entry.name):
                continue
            yield entry.path, used + 1
            if part == EVERYWHERE:
                yield entry.path, used


def _matches_path(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a pattern matches a path, part by part, by the rules of `glob`."""
    if not pattern or not names:
        return not names and all(part == EVERYWHERE for part in pattern)
    first, name = pattern[0], names[0]
    if first == EVERYWHERE:
        return _matches_path(pattern[1:], names) or (
            _matches_name(first, name) and _matches_path(pattern, names[1:])
        )
    return _matches_name(first, name) and _matches_path(pattern[1:], names[1:])


def _matches_name(part: str, name: str) -> bool:
    """Return whether one part of a pattern matches a name; a hidden name needs an explicit dot."""
    if not glob.has_magic(part):
        return name == part
    is_shown = not name.startswith(".") or (part.startswith(".") and part != EVERYWHERE)
    return is_shown and fnmatch.fnmatchcase(name, part)
