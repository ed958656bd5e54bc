"""Read files with untrusted names: only regular files, and only up to a size limit.

Opening a pipe blocks until its other end is opened, a device may have no end, and a file may be
larger than the memory. A path that names such a file, by mistake or with bad intent, must not block
a command.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags with which opening a file never blocks, even if it has just been replaced by a pipe."""

PIECE_BYTES = 1 << 20

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


class NotRegularFile(OSError):
    """Raised for a path of something that is not a regular file."""


class TooLarge(OSError):
    """Raised for a file with more bytes than the limit."""


def read_file(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes.

    Raises NotRegularFile for a folder, a pipe, a socket or a device, which is not opened. Raises
    TooLarge for a file with more than `most` bytes. Raises OSError if the file does not exist or
    can't be read, or if no file can have its name.
    """
    try:
        # Before opening, because even opening a device may have effects; and again after it,
        # because the path may have changed.
        require_regular_file(path.stat())
        handle = os.open(path, OPEN_FLAGS)
    except ValueError:  # NUL, or half of a surrogate pair
        raise OSError(errno.EINVAL, "no file has such a name") from None
    # Without a buffer, `read` returns None if reading would block.
    with open(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        require_regular_file(status)
        if status.st_size > most:
            raise _too_large_error(most)
        pieces, size = [], 0
        while piece := file.read(PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > most:  # the file is growing, or its file system reports no sizes
                raise _too_large_error(most)
        if piece is None:  # the system reports a regular file, but reading it would block
            raise BlockingIOError(errno.EAGAIN, "it has no end yet")
    return b"".join(pieces)


def require_regular_file(status: os.stat_result) -> None:
    """Raise NotRegularFile unless the status belongs to a regular file."""
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "no file")
        raise NotRegularFile(errno.EINVAL, f"it is {kind}")


def refuse_side_files(file: Path, endings: Iterable[str]) -> None:
    """Raise OSError for invalid side files of a database, such as journals.

    `endings` are the suffixes of side files, after the name of the database file. Each side file
    must be missing, or it must be a regular file that can be read: a pipe would block an engine,
    and for a dangling link the engine would create the link's target. Engines look for side files
    next to the path that they get, or next to the file to which links lead.
    """
    for path in dict.fromkeys((os.path.abspath(file), os.path.realpath(file))):
        for ending in endings:
            try:
                # Not `stat`: a dangling link would count as missing.
                require_regular_file(os.lstat(path + ending))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as problem:
                reason = problem.strerror or "it can't be found"
                raise _side_file_error(path + ending, reason) from None
            if _is_unreadable(path + ending):
                raise _side_file_error(path + ending, "you have no right to read it")


def _is_unreadable(path: str) -> bool:
    """Return whether a file exists that can't be read.

    The file is not opened, because closing it would release SQLite's locks on it. A missing file
    does not count as unreadable, because other processes create and remove journals all the time.
    """
    # Several times, because a journal may come or go between the two calls.
    return all(not os.access(path, os.R_OK) and os.path.lexists(path) for _ in range(ACCESS_CHECKS))


ACCESS_CHECKS = 5
"""The number of failed checks after which a file counts as unreadable."""


def _side_file_error(path: str, words: str) -> NotRegularFile:
    """Return the error for a file next to a database that is no regular file."""
    return NotRegularFile(errno.EINVAL, words, os.path.basename(path))


def _too_large_error(most: int) -> TooLarge:
    """Return the error for a file with more than `most` bytes."""
    return TooLarge(errno.EFBIG, f"it is larger than {size_text(most)}")


def size_text(size: int) -> str:
    """Return a number of bytes as text, in the largest unit in which it is an integer."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size and size % 1024 == 0 and len(units) > 1:
        size, units = size // 1024, units[1:]
    return f"{size:,} {units[0] if size != 1 or units[0] != 'bytes' else 'byte'}"


def reason_of(problem: OSError, otherwise: str = "the system refused") -> str:
    """Return the system's error message for use in a sentence, with a small first letter."""
    words = problem.strerror or otherwise
    return words[:1].lower() + words[1:]


# List the entries of a folder of unknown content, and of its expected subfolders.


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
