"""Choose and write files after publication: next to the folder of a release, never inside it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from dprelease.system.renaming import rename_new


def sidecar_path(folder: Path, ending: str) -> Path:
    """Return a path next to a folder: the name of the folder with an ending.

    The path is relative if `folder` is relative, except for "." and "..", which have no name: for
    them the path is absolute.
    """
    whole = folder.resolve()
    parent = whole.parent if folder.name in ("", "..") else folder.parent
    return parent / f"{whole.name}{ending}"


def write_file_atomically(path: Path, data: bytes, *, replace: bool) -> None:
    """Write a file by a rename, so that an interruption never leaves a partial file.

    Raises FileExistsError if the path exists and `replace` is false. Raises OSError if writing
    fails.
    """
    name = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        with name.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(name, path)
        else:
            rename_new(name, path)
    except BaseException:
        with suppress(OSError):
            name.unlink()
        raise
