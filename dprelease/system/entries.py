"""List the entries of a folder that anybody may have filled, and of its expected subfolders."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path


def entries(
    folder: Path, expected: Collection[str], closed: Callable[[Path], bool] = lambda _: False
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the entries of a folder, with names relative to it, separated by "/".

    Folders that lead to an `expected` name are descended into. All other entries are yielded as
    they are, including other folders, links, and folders that are `closed`. No file is opened.

    Raises
    ------
    OSError
        If a folder can't be read.
    """
    ways = {name[: i + 1] for name in expected for i, sign in enumerate(name) if sign == "/"}
    todo = [(folder, "")]
    while todo:
        path, before = todo.pop()
        with os.scandir(path) as scan:
            for entry in scan:
                name = before + entry.name
                inside = f"{name}/"
                below = Path(entry.path)
                if inside in ways and entry.is_dir(follow_symlinks=False) and not closed(below):
                    todo.append((below, inside))
                else:
                    yield name, entry
