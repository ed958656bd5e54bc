"""What the system answers where it is at its end, which no input is to blame for."""

from __future__ import annotations

import errno

GIVES_NO_MORE = frozenset(
    {
        errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOLCK,
    }
)  # fmt: skip
"""Of memory, files, processes or disks."""


def gives_no_more(problem: object) -> bool:
    """Return whether a problem is that there is no more of something."""
    if isinstance(problem, OSError):
        return problem.errno in GIVES_NO_MORE
    return isinstance(problem, MemoryError)
