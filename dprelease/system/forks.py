"""Which process made what is held: a forked child is another one, and gets a copy of it.

A number does not tell them apart. The first process of every container is number 1, also where it
was forked by the first process of another, and a number is given anew once its process has ended.
"""

from __future__ import annotations

import os


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


def hold_for_ever(thing: object) -> None:
    """Let an object never end in this process: the end of its last name would end it, too.

    A child does so with what is its parent's to end.
    """
    import ctypes  # takes a while to load

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _born() -> None:
    _LIVES[0] = _Life()


os.register_at_fork(after_in_child=_born)
