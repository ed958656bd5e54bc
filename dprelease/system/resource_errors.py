"""Error numbers of exhausted resources, which are not the fault of any input."""

from __future__ import annotations

import errno

EXHAUSTED_ERRNOS = frozenset(
    {
        errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOLCK,
    }
)  # fmt: skip
"""The error numbers for exhausted memory, files, processes, locks or disk space."""


def is_exhausted(problem: object) -> bool:
    """Return whether an error means that a resource is exhausted."""
    if isinstance(problem, OSError):
        return problem.errno in EXHAUSTED_ERRNOS
    return isinstance(problem, MemoryError)
