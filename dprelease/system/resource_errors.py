"""Error numbers of exhausted resources, which are not the fault of any input."""

from __future__ import annotations

import errno
import os

EXHAUSTED_ERRNOS = frozenset(
    {
        errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOLCK,
    }
)  # fmt: skip
"""The error numbers for exhausted memory, files, processes, locks or disk space."""

EXHAUSTED_ERRNO = {
    "SQLITE_FULL": errno.ENOSPC,
    "SQLITE_IOERR": errno.EIO,
    "SQLITE_NOMEM": errno.ENOMEM,
}
"""The error numbers of the operating system for SQLite's errors about exhausted resources."""


def system_error(problem: Exception) -> OSError | None:
    """Return the system's error for an exhausted resource that DuckDB or SQLite reports.

    SQLite has error names for it; DuckDB repeats the text of the system.
    """
    if isinstance(problem, OSError):
        return problem
    name = getattr(problem, "sqlite_errorname", "")
    found = [number for start, number in EXHAUSTED_ERRNO.items() if name.startswith(start)]
    found += [number for number in EXHAUSTED_ERRNOS if os.strerror(number) in str(problem)]
    return OSError(found[0], os.strerror(found[0])) if found else None


def is_exhausted(problem: object) -> bool:
    """Return whether an error means that a resource is exhausted."""
    if isinstance(problem, OSError):
        return problem.errno in EXHAUSTED_ERRNOS
    return isinstance(problem, MemoryError)
