"""Files that anybody may have named: regular ones alone are read, and no more than a limit.

To open a pipe waits for somebody else, a device may never end, and a file may be larger than any
memory: what a person names by mistake, or another person by intent, must not hold up a command.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""What was a file a moment ago may be a pipe by now: nothing here waits for one."""

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
    """Something has the name that is no regular file."""


class TooLarge(OSError):
    """A file has more bytes than are read of it."""


def read_file(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file, of which there may be `most`.

    Raises
    ------
    NoFile, TooLarge
        If it is a folder, a pipe, a socket or a device, which is not opened; or has more bytes.
    OSError
        If it is not there, can't be read, or has a name that no file can have.
    """
    try:
        refuse_others(path.stat())
        handle = os.open(path, OPEN)
    except ValueError:  # NUL, or half a surrogate
        raise OSError(errno.EINVAL, "no file has such a name") from None
    with open(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        refuse_others(status)
        if status.st_size > most:
            raise _too_large(most)
        pieces, size = [], 0
        while piece := file.read(PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > most:  # it grows, or its system does not know sizes
                raise _too_large(most)
        if piece is None:  # what looks like a file, and waits for somebody
            raise BlockingIOError(errno.EAGAIN, "it has no end yet")
    return b"".join(pieces)


def refuse_others(status: os.stat_result) -> None:
    """Raise NoFile for what is no regular file."""
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "no file")
        raise NoFile(errno.EINVAL, f"it is {kind}")


def refuse_side_files(file: Path, endings: Iterable[str]) -> None:
    """Raise OSError for what stands where an engine looks for files next to a database.

    Each has to be a regular file that can be read, or absent: an engine would wait for a pipe, and
    make a file where a link leads to none. Engines look next to the name that they are given, or
    next to what links lead to.
    """
    for path in dict.fromkeys((os.path.abspath(file), os.path.realpath(file))):
        for ending in endings:
            try:
                refuse_others(os.lstat(path + ending))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as problem:
                raise _side_file(path + ending, problem.strerror or "it can't be found") from None
            if not os.access(path + ending, os.R_OK):  # opened and closed, it would lose its locks
                raise _side_file(path + ending, "you have no right to read it")


def _side_file(path: str, words: str) -> NoFile:
    return NoFile(errno.EINVAL, words, os.path.basename(path))


def _too_large(most: int) -> TooLarge:
    return TooLarge(errno.EFBIG, f"it is larger than {exact_size(most)}")


def exact_size(size: int) -> str:
    """Return a number of bytes in words, in the largest unit of which it is a whole number."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size and size % 1024 == 0 and len(units) > 1:
        size, units = size // 1024, units[1:]
    return f"{size:,} {units[0] if size != 1 or units[0] != 'bytes' else 'byte'}"


def reason_of(problem: OSError, otherwise: str = "the system refused") -> str:
    """Return what the system said, within a sentence: only its first letter becomes small."""
    words = problem.strerror or otherwise
    return words[:1].lower() + words[1:]
