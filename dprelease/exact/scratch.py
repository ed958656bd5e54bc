"""Create private folders that are locked, and remove folders whose lock nobody holds any more.

The owner of a folder holds the lock of a file in the folder. The process number of the owner would
not suffice, because different containers have processes with the same number.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dprelease.system.deferred_signals import defer_signals
from dprelease.system.forks import Maker
from dprelease.system.locks import Lock

LOCK = "held"
"""The name of the file in a private folder that the owner of the folder locks."""


@contextmanager
def private_folder(parent: Path, prefix: str, again: Path | None = None) -> Iterator[Path]:
    """Yield a new folder, mode 0700, and remove it afterwards.

    Folders that killed processes left behind are removed too. A child that is forked meanwhile
    removes nothing, because the folder belongs to its parent. `again`: the path of an earlier
    folder, which is used again unless another file has this path.

    Raises OSError if the folder can't be created, or its file system has no locks.
    """
    remove_stale(parent, prefix)
    made: tuple[Path, Lock] | None = None
    maker = Maker()
    try:
        with defer_signals():
            made = _make_folder(parent, prefix, again)
        yield made[0]
    finally:
        if made is not None and maker.is_here:
            with defer_signals():
                shutil.rmtree(made[0], ignore_errors=True)
                made[1].release()


def _make_folder(parent: Path, prefix: str, again: Path | None) -> tuple[Path, Lock]:
    """Return a new folder and its lock.

    Before the folder is locked, another process may take it for a leftover and remove it; then
    another folder is created.
    """
    while True:
        folder = _create_again(again) or Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            try:
                lock = Lock.acquire(folder / LOCK)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            if lock is not None:
                return folder, lock


def _create_again(folder: Path | None) -> Path | None:
    """Create a folder and return its path; return None if a file with this path exists."""
    if folder is not None:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700)
            return folder
    return None


def remove_stale(parent: Path, prefix: str) -> None:
    """Remove those of this user's folders with a prefix that nobody holds; never raises.

    If a run is killed, its spilled rows remain; the next run removes them.
    """
    for folder in folders_with_prefix(parent, prefix):
        with contextlib.suppress(OSError):  # held, removed meanwhile, or not ours to remove
            lock = Lock.acquire(folder / LOCK)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                lock.release()


def folders_with_prefix(parent: Path, prefix: str) -> list[Path]:
    """Return this user's folders whose names begin with a prefix; none if they can't be listed."""
    folders = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    # In a shared temporary folder, other users have folders of this name, too.
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        folders.append(Path(entry.path))
    return folders
