"""Work during which no fork may be made: a child would inherit half of it.

Libraries that keep a table of their locks for each process, as SQLite does, believe in the child
what the parent had locked, and a mutex that a thread of the parent holds is never given back there.
So a fork waits for such work of other threads, and new work for the fork. Nothing here is locked:
a signal may come anywhere, and its handler may fork.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dprelease.system.forks import hold_for_ever

PATIENCE = 10.0
"""Seconds that a fork waits at most: many times what such work takes, unless it waits itself for
another process, which may stand still."""

PAUSE = 0.0005


class Work:
    """Work under way in a thread; `opened` is what no child may end.

    `cuts`: whether a child that is forked all the same, by this thread, believes in half of it.
    """

    def __init__(self, *, cuts: bool = True) -> None:
        self.thread, self.cuts = threading.get_ident(), cuts
        self.opened: object = None


_AT_WORK: dict[int, Work] = {}
_FORKING: set[int] = set()
"""The threads that are about to fork."""

_CUT: list[bool] = [False]
"""Whether this process, or one that it comes from, was forked while something was at work."""


def is_cut() -> bool:
    """Return whether work was under way at a fork that this process comes from.

    What libraries believe of their locks is wrong here then, until another program is started.
    """
    return _CUT[0]


@contextmanager
def unforked(*, cuts: bool = True) -> Iterator[Work]:
    """Let no other thread fork during a block, which may be within another one; see `Work`."""
    work = Work(cuts=cuts)
    try:
        _enter(work)
        yield work
    finally:
        _AT_WORK.pop(id(work), None)


def _enter(work: Work) -> None:
    inside = any(other.thread == work.thread for other in tuple(_AT_WORK.values()))
    while True:
        # Noted before it looks, as forks are: one of the two finds the other.
        _AT_WORK[id(work)] = work
        if inside or not _FORKING - {work.thread}:
            return
        del _AT_WORK[id(work)]
        time.sleep(PAUSE)


def _wait() -> None:
    """Wait until no other thread is at work; what this one does is known to whoever forks."""
    me = threading.get_ident()
    _FORKING.add(me)
    end = time.monotonic() + PATIENCE
    while any(work.thread != me for work in tuple(_AT_WORK.values())):
        if time.monotonic() > end:
            return
        time.sleep(PAUSE)


def _go_on() -> None:
    _FORKING.discard(threading.get_ident())


def _born() -> None:
    """Note in a child what it lacks: the end of the work that was under way."""
    for work in tuple(_AT_WORK.values()):
        _CUT[0] |= work.cuts
        hold_for_ever(work.opened)
    _AT_WORK.clear()
    _FORKING.clear()


os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_born)
