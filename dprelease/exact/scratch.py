"""Private folders of a process, and the removal of those whose process is gone."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def make_private(parent: Path, prefix: str) -> Path:
    """Return a new folder, mode 0700, whose name tells the process that owns it."""
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent))


def remove_stale(parent: Path, prefix: str) -> None:
    """Remove folders made by `make_private` of this user whose process is gone.

    Spill files and half-written releases survive a kill; the next run removes them.
    """
    for folder in parent.glob(f"{prefix}*"):
        owner = folder.name.removeprefix(prefix).split("-")[0]
        if owner.isdigit() and not _alive(int(owner)) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.getuid()
    except FileNotFoundError:
        return False  # another process removed it meanwhile


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
