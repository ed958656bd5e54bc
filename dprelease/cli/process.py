"""Prepare the process of the command line before a command begins."""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress

SET_DUMPABLE = 4
"""Number of the option PR_SET_DUMPABLE of prctl(2)."""


def prepare_process() -> None:
    """Open closed standard streams, forbid core files, and disable plugins of pydantic."""
    _open_standard_streams()
    _forbid_core_files()
    # An installed plugin of pydantic would receive all values that are validated.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _open_standard_streams() -> None:
    """Open the null device in place of every standard stream that is closed.

    Otherwise the next opened file would get the file number of a standard stream, and would receive
    everything that libraries print to it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the system takes the smallest free file number


def _forbid_core_files() -> None:
    """Prevent core files of this process and of its children, because they would contain rows.

    Children inherit the limit, and none can raise it again. A kernel that passes core files to a
    program (see core(5)) ignores this limit. It checks whether the process is dumpable; a process
    that is not dumpable is also protected from other processes of the same user that read its
    memory.
    """
    with suppress(OSError, ValueError):  # fails only in unusual sandboxes
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(AttributeError, OSError):  # only Linux has prctl
        ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)
