"""Rename folders without replacing anything, and exchange two names in one step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

NO_REPLACE, EXCHANGE = 1, 2
"""Flags of renameat2(2)."""

WORKING_DIRECTORY = -100
"""The value for renameat2(2) by which paths are relative to the working directory."""

UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})
"""Error numbers of kernels, file systems and sandboxes that do not support these flags."""


def rename_new(folder: Path, target: Path) -> None:
    """Rename a non-empty folder to a name that nothing has.

    Raises
    ------
    OSError
        EEXIST, ENOTEMPTY or ENOTDIR if the name is taken; others if the system refuses.
    """
    if not _rename_with_flags(folder, target, NO_REPLACE):
        # rename(2) replaces nothing but an empty folder.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        folder.rename(target)


def exchange(folder: Path, target: Path, aside: Path) -> Path:
    """Exchange two folders, and return the path at which the second folder is afterwards.

    If the system can't exchange them in one step, the second folder is moved to `aside`, and the
    first folder gets its name. If that fails, the second folder gets its name back.

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
    except BaseException:  # an interrupt too must not leave the name without a folder
        if not os.path.lexists(target):
            rename_new(aside, target)
        raise
    return aside


def _rename_with_flags(old: Path, new: Path, flags: int) -> bool:
    """Rename with flags; return False if the flags are not supported and nothing was done."""
    import ctypes  # slow to import, and only runs need it

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
