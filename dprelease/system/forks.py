"""Which process made what is held: a forked child is another one, and gets a copy of it.

A number does not tell them apart. The first process of every container is number 1, also where it
was forked by the first process of another, and a number is given anew once its process has ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class _Life:
    """One process, from its start or the fork that made it."""


_LIVES = [_Life()]
"""The process that this is."""


class Maker:
    """The process in which this was made."""

    def __init__(self) -> None:
        self._life, self._number = _LIVES[0], os.getpid()

    @property
    def is_here(self) -> bool:
        """Return whether it is the one that asks.

        Numbers tell of children that were made without the interpreter's knowledge.
        """
        return self._life is _LIVES[0] and self._number == os.getpid()


@contextmanager
def parent_only(*, breaks_ledgers: bool = False) -> Iterator[list[object]]:
    """Yield a list for objects that a child which is forked during the block must not finalize.

    `breaks_ledgers`: whether such a child can use no ledger. SQLite keeps a table of its locks for
    each process: a child would believe in those that its parent held. That a child is forked at
    such a moment is up to the caller's threads; see `can_use_ledgers`.
    """
    held: list[object] = []
    _HELD[id(held)] = held, breaks_ledgers
    try:
        yield held
    finally:
        _HELD.pop(id(held), None)


_HELD: dict[int, tuple[list[object], bool]] = {}
_BROKEN: list[bool] = []
"""Not empty in a process that comes from a fork during which a ledger was open."""


def can_use_ledgers() -> bool:
    """Return whether no ledger was open at a fork that this process comes from."""
    return not _BROKEN


def _born() -> None:
    _LIVES[0] = _Life()
    for held, breaks_ledgers in _HELD.values():
        if breaks_ledgers:
            _BROKEN.append(True)
        for thing in held:
            _keep_alive(thing)
    _HELD.clear()


def _keep_alive(thing: object) -> None:
    """Let an object never be finalized in this process: a child would wait for threads it lacks.

    A rollback or an end of a connection is its parent's alone.
    """
    import ctypes  # takes a while to load

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


os.register_at_fork(after_in_child=_born)
