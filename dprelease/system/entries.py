"""What is in a folder that anybody may have filled, and in the folders that are expected in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path


def entries(
    folder: Path, expected: Collection[str], closed: Callable[[Path], bool] = lambda _: False
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield whatever is in a folder, with its name relative to it, parted by "/".

    Folders on the way to an `expected` name are looked into; all else stands for itself, other
    folders and links among it, and so do folders that are `closed`. No name is opened because it
    was expected.

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
