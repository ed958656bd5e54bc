"""No image of the memory on a disk: what crashes while it holds rows would leave them there."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress

SET_DUMPABLE = 4
"""An option of prctl(2)."""


def leave_no_core() -> None:
    """Let neither this process nor what it starts leave a core file, however it ends; never raises.

    The limit holds for children, too, and can't be raised again. A kernel that hands cores to a
    program (see core(5)) does not ask for it; it asks whether the process may be dumped, and then
    no other process of the same user can look into its memory, either.
    """
    with suppress(OSError, ValueError):  # to lower one's own is allowed but in odd sandboxes
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(AttributeError, OSError):  # another kernel than Linux
        ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)
