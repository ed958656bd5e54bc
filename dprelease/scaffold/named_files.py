"""The file, pattern or folder that a first schema is asked for."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from dprelease.errors import DataError, Place
from dprelease.errors.printable import one_line
from dprelease.schema.source_files import find_files, problem_of
from dprelease.schema.table import Source
from dprelease.system.lake_tables import Problem


def first_of(asked: Path) -> Path:
    """Return a file itself; of a pattern or a folder of Parquet the first one by name.

    Raises
    ------
    DataError
        DP-DATA-018 if there is none, 024 for files that may not all count.
    """
    source = Source.model_construct(path=f"{asked}/" if asked.is_dir() else str(asked))
    found, place = find_files(Path(), source), Place(file=asked.name)
    problem = problem_of(Path(), source, found)
    if problem is not None:
        raise file_error(asked, problem)
    if not found:
        raise DataError("DP-DATA-018", place=place, path=asked)
    return found[0]


def file_error(asked: Path, problem: Problem) -> DataError:
    """Return the error DP-DATA-024 of a file, a pattern or a folder: why, and what to do."""
    (reason, way), place = problem, Place(file=asked.name)
    kind = Source.model_construct(path=f"{asked}/" if asked.is_dir() else str(asked)).kind
    table, stored = stem_of(asked), kind or "a table"
    return DataError(
        "DP-DATA-024", place=place, table=table, named="", format=stored, reason=reason, way=way
    )


def first_told(asked: Path, first: Path) -> list[str]:
    """Return a comment that says which of several files was looked at; none for a file alone."""
    if asked == first:
        return []
    return [
        f"# Looked at was the first of its files, {one_line(first.name)}: all need its columns."
    ]


def stem_of(asked: Path) -> str:
    """Return what its table may be called: the name before any pattern, or that of the folder."""
    name = asked.name.split(".")[0]
    if not asked.is_file() and glob.has_magic(name):
        name = name.partition("*")[0].rstrip("_-")
    if name and not glob.has_magic(name):
        return name
    return next(part for part in reversed(asked.absolute().parts[:-1]) if not glob.has_magic(part))


def path_of(asked: Path, folder: Path | None) -> str:
    """Return the path as a schema in `folder` has it; without one it is beside a file.

    A pattern or a folder is then told as it is asked for. A folder ends with a stroke.
    """
    if folder is not None:
        path = os.path.relpath(asked, folder)
    else:
        path = asked.name if asked.is_file() else str(asked)
    return f"{path}/" if asked.is_dir() else path
