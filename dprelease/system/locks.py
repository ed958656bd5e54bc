"""File locks that end with their holder, however it ends.

An flock(2) belongs to an open file: the kernel releases it when the last process that has the file
open ends, whatever the number and namespace of that process. All processes of one kernel that see
the same file see the lock, including those in other containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
"""Network file systems grant write locks only on files that are open for writing."""

LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
"""Flags that suffice to test a lock, and on local file systems also to take one."""

_TAKEN: set[Lock] = set()


class Lock:
    """A locked file; the lock is held until `let_go`, or until this process ends."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle: int | None = handle
        _TAKEN.add(self)

    @classmethod
    def take(cls, path: Path) -> Lock | None:
        """Create the file if missing and return its lock; None if it is held already.

        Raises
        ------
        OSError
            If the file can't be created, or its file system has no locks.
        """
        while True:
            handle = _open_or_create(path)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                still = _is_same_file(path, handle)
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            if still:
                return cls(path, handle)
            # The last holder removed the file meanwhile, so this handle belongs to a deleted file.
            os.close(handle)

    def let_go(self) -> None:
        """Remove the file and release the lock; never raises, and may be called twice."""
        handle, self._handle = self._handle, None
        _TAKEN.discard(self)
        if handle is None:
            return
        with contextlib.suppress(OSError):  # if the file remains, it is not locked any more
            if _is_same_file(self.path, handle):
                self.path.unlink()
        with contextlib.suppress(OSError):
            os.close(handle)

    def forget(self) -> None:
        """Close the copy of the file that a fork made: the lock belongs to the parent."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)


def _open_or_create(path: Path) -> int:
    """Open the file, created if missing; files of other users are opened at least for reading."""
    try:
        return os.open(path, OPEN | os.O_CREAT, 0o666)
    except PermissionError:
        with contextlib.suppress(OSError):
            return os.open(path, LOOK)
        raise


def is_held(path: Path) -> bool:
    """Return whether the lock of a file is held, or may be held."""
    try:
        handle = os.open(path, LOOK)  # other processes may open it too
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Shared locks of two testers do not block each other.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _is_same_file(path: Path, handle: int) -> bool:
    """Return whether a path still names the open file."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(handle))


def _forget_all() -> None:
    """Close the parent's locks in a child, which would hold them after the parent's end."""
    for lock in tuple(_TAKEN):
        lock.forget()
    _TAKEN.clear()


os.register_at_fork(after_in_child=_forget_all)
