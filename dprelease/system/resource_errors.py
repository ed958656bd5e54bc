"""Error numbers of exhausted resources, which are not the fault of any input."""

from __future__ import annotations

import errno

GIVES_NO_MORE = frozenset(
    {
        errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOLCK,
    }
)  # fmt: skip
"""Memory, files, processes or disk space."""


def gives_no_more(problem: object) -> bool:
    """Return whether an error means that a resource is exhausted."""
    if isinstance(problem, OSError):
        return problem.errno in GIVES_NO_MORE
    return isinstance(problem, MemoryError)
