"""Rename folders without replacing anything, exchange two folders, and detect mount points."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

# Detect mount points, which can't be renamed or replaced.

MOUNTS = Path("/proc/self/mountinfo")
"""The file with the mounts of this process; a line's fifth field is the mount point (proc(5))."""


def is_mounted(path: Path) -> bool:
    """Return whether a file system, or a single file or folder, is mounted at exactly this path.

    This can't be determined by stat(2) alone, which does not show bind mounts of the same file
    system.
    """
    # Compared as bytes, because mount points need not be valid UTF-8.
    real = os.fsencode(os.path.realpath(path))
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return os.path.ismount(real)
    return any(_mount_point(line) == real for line in lines)


def _mount_point(line: bytes) -> bytes:
    """Return the path at which a line of the list of mounts says that something is mounted."""
    fields = line.split(b" ", 5)
    mount_point = fields[4] if fields[4:] else b""
    if b"\\" not in mount_point:
        return mount_point
    # The kernel writes blanks, tabs, line ends and backslashes of paths as octal numbers.
    return re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), mount_point)


NO_REPLACE, EXCHANGE = 1, 2
"""Flags of renameat2(2)."""

WORKING_DIRECTORY = -100
"""The value with which renameat2(2) interprets paths relative to the working directory."""

UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})
"""Error numbers that mean that a kernel, a file system or a sandbox does not support the flags."""


def rename_new(folder: Path, target: Path) -> None:
    """Rename a non-empty folder to a name that does not exist.

    Raises OSError: EEXIST, ENOTEMPTY or ENOTDIR if the name exists; other errors if the system
    refuses.
    """
    if not _rename_with_flags(folder, target, NO_REPLACE):
        # rename(2) replaces nothing but an empty folder.
        # Another program may create the name between this check and the renaming. Then only an
        # empty folder is lost.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        folder.rename(target)


def exchange(folder: Path, target: Path, aside: Path) -> Path:
    """Exchange two folders, and return the path at which the second folder is afterwards.

    If the system can't exchange the folders in one step, the second folder is moved to `aside`, and
    then the first folder gets its name. If the second step fails, the second folder gets its name
    back.

    Raises OSError if the system refuses to rename a folder.
    """
    if _rename_with_flags(folder, target, EXCHANGE):
        return folder
    target.rename(aside)
    try:
        rename_new(folder, target)
    except BaseException:  # even after an interrupt, the name must have a folder
        if not os.path.lexists(target):
            rename_new(aside, target)
        raise
    return aside


def _rename_with_flags(old: Path, new: Path, flags: int) -> bool:
    """Rename with flags; return False, without any change, if the flags are not supported."""
    import ctypes  # this import is slow, and only runs need it

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here = WORKING_DIRECTORY
    if call(here, os.fsencode(old), here, os.fsencode(new), ctypes.c_uint(flags)) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in UNKNOWN:
        return False
    raise OSError(problem, os.strerror(problem))
