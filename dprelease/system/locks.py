"""File locks that the kernel releases when their holder ends, for whatever reason.

An flock(2) belongs to an open file: the kernel releases the lock when the last process that has the
file open ends, whatever the number and namespace of this process. All processes of one kernel that
can open the file can test the lock, including those in other containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

OPEN_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
"""Flags for taking a lock; network file systems lock only files that are open for writing."""

TEST_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
"""Flags that suffice for testing a lock, and on local file systems also for taking a lock."""

_HELD_LOCKS: set[Lock] = set()


class Lock:
    """A locked file, whose lock is held until `release` is called or this process ends."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle: int | None = handle
        _HELD_LOCKS.add(self)

    @classmethod
    def acquire(cls, path: Path) -> Lock | None:
        """Return the lock of a file, which is created if missing; None if the lock is held.

        Raises OSError if the file can't be created, or if its file system has no locks.
        """
        while True:
            handle = _open_or_create(path)
            try:
                # Not `fcntl.lockf`: such locks belong to the process, and closing any other handle
                # of the file releases them.
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_current = _is_same_file(path, handle)
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            if is_current:
                return cls(path, handle)
            # The last holder has removed the file, so that this handle belongs to a deleted file.
            os.close(handle)

    def release(self) -> None:
        """Remove the file and release the lock.

        This method raises no error, and may be called twice.
        """
        handle, self._handle = self._handle, None
        _HELD_LOCKS.discard(self)
        if handle is None:
            return
        with contextlib.suppress(OSError):  # if the file remains, it is not locked any more
            # Another process may have removed the file and locked a new one at this path.
            if _is_same_file(self.path, handle):
                # Before the lock is released: afterwards another holder might already have the
                # file.
                self.path.unlink()
        with contextlib.suppress(OSError):
            os.close(handle)

    def forget(self) -> None:
        """Close the copy of the open file in a forked child, because the parent holds the lock."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)


def _open_or_create(path: Path) -> int:
    """Open a file, which is created if missing; files of other users may be opened for reading."""
    try:
        return os.open(path, OPEN_FLAGS | os.O_CREAT, 0o666)
    except PermissionError:
        with contextlib.suppress(OSError):
            return os.open(path, TEST_FLAGS)
        raise


def is_held(path: Path) -> bool:
    """Return whether the lock of a file is held; True also if this can't be determined."""
    try:
        handle = os.open(path, TEST_FLAGS)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Two processes that test the lock don't block each other, because they use shared locks.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _is_same_file(path: Path, handle: int) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(handle))


def _forget_all() -> None:
    """Close the parent's locks in a child, which could hold them longer than the parent."""
    for lock in tuple(_HELD_LOCKS):
        lock.forget()
    _HELD_LOCKS.clear()


os.register_at_fork(after_in_child=_forget_all)
