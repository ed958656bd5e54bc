"""Locks that end with their holder, however it ends.

An flock(2) belongs to an open file: the kernel gives it back when the last process that has the
file open is gone, whatever number that process had and in whatever namespace. It is seen by all
processes of a kernel that see the same file, so also by those of other containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
"""Network file systems lock for writing only what is open for writing."""

LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
"""Enough to ask who has a lock, and on a machine's own file systems to take one."""

_TAKEN: set[Lock] = set()


class Lock:
    """A locked file; kept until it is let go, or until this process ends."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle: int | None = handle
        _TAKEN.add(self)

    @classmethod
    def take(cls, path: Path) -> Lock | None:
        """Return the lock of a file that is made where it is not there; None if another has it.

        Raises
        ------
        OSError
            If the file can't be made, or its file system has no locks.
        """
        while True:
            handle = _open_or_create(path)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                still = _is(path, handle)
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            if still:
                return cls(path, handle)
            os.close(handle)  # its last holder removed it meanwhile: what we have is no name's

    def let_go(self) -> None:
        """Remove the file, and give the lock back; never raises, and does nothing twice."""
        handle, self._handle = self._handle, None
        _TAKEN.discard(self)
        if handle is None:
            return
        with contextlib.suppress(OSError):  # a file that stays is locked by nobody
            if _is(self.path, handle):
                self.path.unlink()
        with contextlib.suppress(OSError):
            os.close(handle)

    def forget(self) -> None:
        """Close a copy of the file that a fork made: the lock is the parent's."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)


def _open_or_create(path: Path) -> int:
    """Return a file that is made where it is not there; others' can be looked at at least."""
    try:
        return os.open(path, OPEN | os.O_CREAT, 0o666)
    except PermissionError:
        with contextlib.suppress(OSError):
            return os.open(path, LOOK)
        raise


def is_held(path: Path) -> bool:
    """Return whether somebody holds the lock of a file, or may do so."""
    try:
        handle = os.open(path, LOOK)  # which others may do as well
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Two who ask are not in each other's way.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _is(path: Path, handle: int) -> bool:
    """Return whether a path still names the file that is open."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(handle))


def _forget_all() -> None:
    """Close the locks of the parent in a child, which would keep them after the parent's end."""
    for lock in tuple(_TAKEN):
        lock.forget()
    _TAKEN.clear()


os.register_at_fork(after_in_child=_forget_all)
