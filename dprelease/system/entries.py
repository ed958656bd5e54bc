"""List the entries of a folder of unknown content, and of its expected subfolders."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path


def entries(
    folder: Path, expected: Collection[str], closed: Callable[[Path], bool] = lambda _: False
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the entries of a folder, with their relative names, in which "/" separates folders.

    Instead of a subfolder that is part of an `expected` name, the function yields its entries. It
    yields all other folders, links, and the folders for which `closed` returns True, as they are.
    No file is opened.

    Raises OSError if a folder can't be read.
    """
    parent_paths = {
        name[: i + 1] for name in expected for i, sign in enumerate(name) if sign == "/"
    }
    folders_to_list = [(folder, "")]
    while folders_to_list:
        path, before = folders_to_list.pop()
        with os.scandir(path) as scan:
            for entry in scan:
                name = before + entry.name
                inside = f"{name}/"
                below = Path(entry.path)
                if (
                    inside in parent_paths
                    and entry.is_dir(follow_symlinks=False)
                    and not closed(below)
                ):
                    folders_to_list.append((below, inside))
                else:
                    yield name, entry
