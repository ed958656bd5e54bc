"""Read files that anybody may have named: only regular files, and only up to a limit.

Opening a pipe waits for its other end, a device may never end, and a file may be larger than any
memory. A name given by mistake, or with bad intent, must not block a command.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags with which opening never waits, even if a regular file has just become a pipe."""

PIECE = 1 << 20

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


class NoFile(OSError):
    """The path names something that is not a regular file."""


class TooLarge(OSError):
    """The file has more bytes than the limit."""


def read_file(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes.

    Raises
    ------
    NoFile, TooLarge
        If it is a folder, a pipe, a socket or a device, none of which is opened; or is too large.
    OSError
        If it does not exist, can't be read, or has an impossible name.
    """
    try:
        refuse_others(path.stat())
        handle = os.open(path, OPEN)
    except ValueError:  # NUL, or half of a surrogate pair
        raise OSError(errno.EINVAL, "no file has such a name") from None
    with open(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        refuse_others(status)
        if status.st_size > most:
            raise _too_large_error(most)
        pieces, size = [], 0
        while piece := file.read(PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > most:  # it is growing, or its file system does not know sizes
                raise _too_large_error(most)
        if piece is None:  # it looks like a file, but reading it would wait
            raise BlockingIOError(errno.EAGAIN, "it has no end yet")
    return b"".join(pieces)


def refuse_others(status: os.stat_result) -> None:
    """Raise NoFile unless the status is that of a regular file."""
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "no file")
        raise NoFile(errno.EINVAL, f"it is {kind}")


def refuse_side_files(file: Path, endings: Iterable[str]) -> None:
    """Raise OSError for invalid side files of a database, such as journals.

    Each side file must be absent, or a regular file that can be read: an engine would wait for a
    pipe, and would create a file at the target of a dangling link. Engines look for side files next
    to the path that they get, or next to the file to which links lead.
    """
    for path in dict.fromkeys((os.path.abspath(file), os.path.realpath(file))):
        for ending in endings:
            try:
                refuse_others(os.lstat(path + ending))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as problem:
                reason = problem.strerror or "it can't be found"
                raise _side_file_error(path + ending, reason) from None
            if _is_unreadable(path + ending):
                raise _side_file_error(path + ending, "you have no right to read it")


def _is_unreadable(path: str) -> bool:
    """Return whether a file exists that can't be read.

    The file is not opened, because closing it would drop SQLite's locks on it. Other processes
    create and remove journals all the time, so a missing file does not count as unreadable.
    """
    return all(not os.access(path, os.R_OK) and os.path.lexists(path) for _ in range(TRIES))


TRIES = 5
"""Checks before a file counts as unreadable."""


def _side_file_error(path: str, words: str) -> NoFile:
    return NoFile(errno.EINVAL, words, os.path.basename(path))


def _too_large_error(most: int) -> TooLarge:
    return TooLarge(errno.EFBIG, f"it is larger than {exact_size(most)}")


def exact_size(size: int) -> str:
    """Return a text of a number of bytes, in the largest unit in which the number is whole."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size and size % 1024 == 0 and len(units) > 1:
        size, units = size // 1024, units[1:]
    return f"{size:,} {units[0] if size != 1 or units[0] != 'bytes' else 'byte'}"


def reason_of(problem: OSError, otherwise: str = "the system refused") -> str:
    """Return the system's error message, its first letter in lower case, for use in a sentence."""
    words = problem.strerror or otherwise
    return words[:1].lower() + words[1:]
