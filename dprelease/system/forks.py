"""Remember which process made an object, because a forked child process has a copy of the object.

Process numbers do not suffice. The first process of every container has number 1, even if the first
process of another container forked it, and numbers are reused when processes end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class _Process:
    """One process, from its start or from the fork that created it."""


_CURRENT_PROCESS = [_Process()]
"""The current process."""


class Maker:
    """Remembers the process in which it was made; see `is_here`."""

    def __init__(self) -> None:
        self._process, self._number = _CURRENT_PROCESS[0], os.getpid()

    @property
    def is_here(self) -> bool:
        """Return whether the current process made this object.

        The process number detects children that were forked without the interpreter's knowledge.
        """
        return self._process is _CURRENT_PROCESS[0] and self._number == os.getpid()


@contextmanager
def parent_only(*, breaks_ledgers: bool = False) -> Iterator[list[object]]:
    """Yield a list of objects that a child forked during the block must not finalize.

    `breaks_ledgers`: whether such a child can't use ledgers any more. SQLite keeps a table of its
    locks in each process, so a child would believe that it holds the locks of its parent. Whether a
    child is forked at such a moment depends on the caller's threads; see `can_use_ledgers`.
    """
    held: list[object] = []
    _HELD[id(held)] = held, breaks_ledgers
    try:
        yield held
    finally:
        _HELD.pop(id(held), None)


_HELD: dict[int, tuple[list[object], bool]] = {}
_BROKEN: list[bool] = []
"""Not empty in a process that descends from a fork during which a ledger was open."""


def can_use_ledgers() -> bool:
    """Return whether no ledger was open at any fork from which this process descends."""
    return not _BROKEN


def _after_fork_in_child() -> None:
    """Note that this is a new process, and finalize none of the objects of `parent_only`."""
    _CURRENT_PROCESS[0] = _Process()
    for held, breaks_ledgers in _HELD.values():
        if breaks_ledgers:
            _BROKEN.append(True)
        for thing in held:
            _keep_alive(thing)
    _HELD.clear()


def _keep_alive(thing: object) -> None:
    """Never finalize an object in this process: a child would wait for threads that it lacks.

    Only the parent may roll back, or close a connection.
    """
    import ctypes  # slow to import

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


os.register_at_fork(after_in_child=_after_fork_in_child)
