"""Where the rows of tables are stored, to find a public table that reads rows about people.

A public table is read without noise, so its source must not be that of a table about people, by
whatever path or name. Files are compared as the system compares them: a link, a pattern or a folder
that reaches a file is that file. A copy of a file can't be recognized.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

from dprelease.schema.load import Declared

RowPlace = tuple[object, ...]


def places_of(declared: Declared) -> set[RowPlace]:
    """Return the places of a table's rows; two tables with a place in common read the same rows.

    The tables of one database are different places. Their names are compared without case, quotes
    and the names of schemas, so that no spelling hides a table.
    """
    source = declared.table.source
    if source is None:
        return {("frame", declared.table.name)}
    if source.frame is not None:
        return {("frame", source.frame)}
    name = source.table or source.sheet
    part = None if name is None else name.rpartition(".")[2].strip('"`[]').casefold()
    if source.path is None or source.is_uri:
        return {("uri", source.path or "", part)}
    path = os.path.normpath(declared.folder / (source.table_folder or source.path))
    return {("path", path, part), *(("file", *one, part) for one in _files(path))}


def _files(path: str) -> Iterator[tuple[int, int]]:
    """Yield device and number of each file that a path, a pattern or a folder reaches."""
    for found in [path, *glob.iglob(path, recursive=True, include_hidden=True)]:
        inside = (
            os.path.join(folder, name)
            for folder, _, names in os.walk(found, followlinks=True)
            for name in names
        )
        for file in (found, *inside):
            try:
                status = os.stat(file)
            except (OSError, ValueError):
                continue  # a file that is not there is found missing when it is read
            if not os.path.isdir(file):
                yield status.st_dev, status.st_ino
