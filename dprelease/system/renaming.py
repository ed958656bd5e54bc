"""Renames of folders that replace nothing, and exchanges of two names in one step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

NO_REPLACE, EXCHANGE = 1, 2
"""Flags of renameat2(2)."""

HERE = -100
"""Paths are relative to the working directory."""

UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})
"""What kernels, file systems and sandboxes answer that do not know these flags."""


def rename_new(folder: Path, target: Path) -> None:
    """Give a folder that is not empty a name that nothing has.

    Raises
    ------
    OSError
        EEXIST, ENOTEMPTY or ENOTDIR if something has that name; others if the system refuses.
    """
    if not _rename_with_flags(folder, target, NO_REPLACE):
        # rename(2) puts a folder in the place of nothing but an empty folder.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        folder.rename(target)


def exchange(folder: Path, target: Path, aside: Path) -> Path:
    """Let two folders change places, and return the name that the second one has then.

    Where the system can't do it in one step, the second one waits as `aside` meanwhile; it gets its
    name back if the first one can't take it.

    Raises
    ------
    OSError
        If the system refuses.
    """
    if _rename_with_flags(folder, target, EXCHANGE):
        return folder
    target.rename(aside)
    try:
        rename_new(folder, target)
    except BaseException:  # an interrupt is no reason to leave nobody in the place
        if not os.path.lexists(target):
            rename_new(aside, target)
        raise
    return aside


def _rename_with_flags(old: Path, new: Path, flags: int) -> bool:
    """Rename with flags; return False where they are not known, and nothing was done."""
    import ctypes  # takes a while to load, and only runs need it

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if call(HERE, os.fsencode(old), HERE, os.fsencode(new), ctypes.c_uint(flags)) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in UNKNOWN:
        return False
    raise OSError(problem, os.strerror(problem))
