"""What the process of the command line needs before a command begins."""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress

SET_DUMPABLE = 4
"""An option of prctl(2)."""


def prepare_process() -> None:
    """Open closed standard streams, forbid core files, and validate with nobody else's plugins."""
    _open_standard_streams()
    _forbid_core_files()
    # A plugin of pydantic that is installed would be shown all that is validated.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _open_standard_streams() -> None:
    """Open nothing at all in place of standard streams that are closed.

    Else the next file that is opened gets the number of one, and all that libraries print.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free


def _forbid_core_files() -> None:
    """Let neither this process nor what it starts leave a core file, which would hold rows.

    The limit holds for children, too, and can't be raised again. A kernel that hands cores to a
    program (see core(5)) does not ask for it; it asks whether the process may be dumped, and then
    no other process of the same user can look into its memory, either.
    """
    with suppress(OSError, ValueError):  # to lower one's own is allowed but in odd sandboxes
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(AttributeError, OSError):  # another kernel than Linux
        ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)
