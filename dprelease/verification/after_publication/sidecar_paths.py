"""Where what is written after a publication goes: beside the release, never into it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from dprelease.system.renaming import rename_new


def beside(folder: Path, ending: str) -> Path:
    """Return a path beside a folder that is called as it is, with an ending.

    As relative as the folder was given; by "." it is told from inside of itself.
    """
    whole = folder.resolve()
    parent = whole.parent if folder.name in ("", "..") else folder.parent
    return parent / f"{whole.name}{ending}"


def write_whole(path: Path, data: bytes, *, replace: bool) -> None:
    """Write a file by a rename: whatever ends this, no half of it is ever there.

    Raises
    ------
    FileExistsError
        If something is there that is not to be replaced.
    OSError
        If the system does not take it.
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
