"""Find the files of a declared source by name, and detect files that are no complete table."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from dprelease.schema.field_types import RESERVED
from dprelease.schema.source_types.registry import SOURCE_TYPES
from dprelease.schema.source_types.source import Source
from dprelease.system.files import NotRegularFile, refuse_side_files
from dprelease.system.lake_tables import (
    ICEBERG_SUFFIXES,
    FolderTree,
    Problem,
    job_problem,
    table_format,
)
from dprelease.system.stores.address import StoreAddress, matches, store_address

TEXT_FORMAT = "csv"
"""The format by which `init` reads a file whose ending is that of no format."""


def source_of_path(path: Path) -> Source:
    """Return the source of a path whose format is not declared, from its name and its folder."""
    kind = table_format(path) or ("iceberg" if path.name.endswith(ICEBERG_SUFFIXES) else None)
    text = f"{path}/" if path.is_dir() else str(path)
    source = Source.model_construct(path=text, format=kind if kind in SOURCE_TYPES else None)
    if source.kind is None and source.path is not None and path.is_file():
        return Source.model_construct(path=text, format=TEXT_FORMAT)
    return source


def to_table_name(stem: str) -> str:
    """Return a valid name of a table that is similar to another name."""
    cleaned = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in stem)[:60]
    is_usable = cleaned[:1].isalpha() and cleaned.casefold() not in RESERVED
    return cleaned if is_usable else f"t_{cleaned}"


def find_files(folder: Path, source: Source) -> list[Path]:
    """Return the files of a path, a pattern or a folder, sorted by name.

    Files of a folder whose names begin with _ are left out, because they are incomplete or foreign.
    """
    return [file for file in _matching_paths(folder, source) if os.path.isfile(file)]


def _matching_paths(folder: Path, source: Source) -> list[Path]:
    """Return all matches of a path, a pattern or a folder, whether they are files or not."""
    path = source.pattern or ""
    if os.path.isfile(folder / path):  # Path.is_file raises for a name that is too long
        return [folder / path]
    root = None if Path(path).is_absolute() else folder  # the folder's name may contain '[' or '*'
    matches = glob.glob(path, root_dir=root, recursive=True)
    if source.is_folder:
        matches = [one for one in matches if _underscore_part(path, one) is None]
    return sorted(folder / one for one in matches)


def problem_of(folder: Path, source: Source, files: Sequence[Path]) -> Problem | None:
    """Return the problem that makes a source's files no complete table; None if there is none.

    The check opens no file: it needs only the names of the files and of their neighbours.
    """
    odd: NotRegularFile | None = None
    try:
        for file in files:
            refuse_side_files(file, source.type.side_files)
    except NotRegularFile as problem:
        odd = problem
    if odd is not None:
        reason = f"'{odd.filename}', which its database would open, is no file that can be read"
        way = "move it out of the folder, or copy the database alone into another one"
        return f"{reason} ({odd.strerror})", way
    lost = next(
        (one for one in _matching_paths(folder, source) if _is_broken_link_or_pipe(one)), None
    )
    if lost is not None:
        reason = f"it finds '{lost.name}', which is no file that can be read"
        return reason, "remove it, or bring back the file that it links to"
    own = source.type.find_problem(files)
    whole = folder / (source.path or "") if source.is_folder else None
    return own or job_problem(files, whole) or _pattern_problem(folder, source, files)


def match_objects(source: Source, keys: Iterable[str]) -> list[str]:
    """Return those keys in a store that a pattern or a folder includes, sorted.

    As in local folders, keys in a folder with a part that begins with _ are left out.
    """
    address = store_address(source.pattern)
    pattern = "" if address is None else address.key
    found = [key for key in keys if matches(pattern, key)]
    if source.is_folder:
        found = [key for key in found if _underscore_part(pattern, key) is None]
    return sorted(found)


def problem_of_objects(
    source: Source, address: StoreAddress, keys: Sequence[str], tree: FolderTree
) -> Problem | None:
    """Return the problem that makes objects no complete table, by their names; None if none."""
    files = [Path(key) for key in keys]
    whole = Path(address.key) if source.is_folder else None
    own = source.type.find_problem(files, tree) or job_problem(files, whole, tree)
    if own is not None or source.is_folder or address.key in keys:
        return own
    return _marked_problem(address.key, keys)


def _is_broken_link_or_pipe(match: Path) -> bool:
    """Return whether a match is neither a file nor a folder: a pipe, or a broken link.

    A circular path, through a link to one of its parent folders, is ignored.
    """
    try:
        mode = os.stat(match).st_mode
    except OSError as problem:
        return problem.errno != errno.ELOOP
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _pattern_problem(folder: Path, source: Source, files: Sequence[Path]) -> Problem | None:
    """Return the problem of a pattern that finds names with a leading _ which it does not have."""
    path = source.pattern or ""
    is_one = os.path.isfile(folder / path)
    if is_one or source.is_folder:
        return None
    root = Path(Path(path).anchor or folder)
    return _marked_problem(path, [str(file.relative_to(root)) for file in files])


def _marked_problem(pattern: str, found: Iterable[str]) -> Problem | None:
    """Return the problem of matches with a part, after the declared folder, that begins with _."""
    if any(part.startswith("_") for part in Path(pattern).parts):
        return None
    marked = next(filter(None, (_underscore_part(pattern, one) for one in found)), None)
    if marked is None:
        return None
    reason = f"its pattern finds '{marked}', and writers mark by _ what is no part of a table"
    return reason, "rename it, or begin a part of the pattern with _ if it is to be read"


def _underscore_part(pattern: str, match: str) -> str | None:
    """Return the part of a match, after the declared folder, that begins with _."""
    parts = Path(pattern).parts
    depth = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return next((part for part in Path(match).parts[depth:] if part.startswith("_")), None)
