"""Remember which process created an object, because a forked child process has a copy of it.

Process numbers do not suffice to distinguish processes. The first process of every container has
the number 1, even if the first process of another container forked it, and numbers are reused after
processes end.
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
    """The process that created this object, which may be a parent of the current process."""

    def __init__(self) -> None:
        # The object tells apart processes of equal numbers, and the number those that were forked
        # by C code.
        self._process, self._number = _CURRENT_PROCESS[0], os.getpid()

    @property
    def is_here(self) -> bool:
        """Return whether the current process created this object.

        The process number detects children that were forked without the interpreter's knowledge.
        """
        return self._process is _CURRENT_PROCESS[0] and self._number == os.getpid()


@contextmanager
def parent_only(*, breaks_ledgers: bool = False) -> Iterator[list[object]]:
    """Yield a list for objects that a child, forked within the `with` block, must not finalize.

    `breaks_ledgers` says whether such a child can't use ledgers any more. SQLite keeps a table of
    its locks in each process, so that a child would use the locks of its parent as its own. Whether
    a child is forked within the block depends on the threads of the caller; see `can_use_ledgers`.
    """
    guarded: list[object] = []
    _GUARDED[id(guarded)] = guarded, breaks_ledgers
    try:
        yield guarded
    finally:
        _GUARDED.pop(id(guarded), None)


_GUARDED: dict[int, tuple[list[object], bool]] = {}
_FORKED_WITH_LEDGER: list[bool] = []
"""A list that is not empty in processes that descend from a fork while a ledger was open."""


def can_use_ledgers() -> bool:
    """Return whether no ledger was open at any fork from which this process descends."""
    return not _FORKED_WITH_LEDGER


def _after_fork_in_child() -> None:
    """Record that this is a new process, and keep the objects in `parent_only` alive."""
    _CURRENT_PROCESS[0] = _Process()
    for guarded, breaks_ledgers in _GUARDED.values():
        if breaks_ledgers:
            _FORKED_WITH_LEDGER.append(True)
        for guarded_object in guarded:
            _keep_alive(guarded_object)
    _GUARDED.clear()


def _keep_alive(guarded_object: object) -> None:
    """Prevent an object from being finalized in this process.

    Finalizing it in a child would wait for threads that only the parent has. Also, only the parent
    may roll back a transaction, or close a connection.
    """
    import ctypes  # slow to import

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(guarded_object))


os.register_at_fork(after_in_child=_after_fork_in_child)
