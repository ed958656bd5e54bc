"""Signals that come while a library is at work: what their handlers raise is what is raised.

Libraries let handlers run while a statement takes long, or while they call Python, and turn what
these raise into an error of their own, which says nothing of a signal.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from dprelease.system.deferred_signals import ENDING, Handler

ANSWERED = (
    *ENDING, signal.SIGQUIT, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
    signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
"""What people, services and limits of time send."""


_NOTED: list[list[BaseException]] = []
"""What handlers have raised in the block that notes it; nothing where there is none."""


@contextmanager
def reraise_handler_errors() -> Iterator[None]:
    """Raise what a signal's handler raised in a block, whatever the block makes of it.

    Also where it came to its end all the same. Handlers run in the main thread alone, so a block in
    another is left be. One within another notes nothing of its own, for to set handlers takes as
    long as many a statement.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _noting() as raised:
        known = len(raised)
        try:
            yield
        except Exception:
            if len(raised) == known:
                raise
        if len(raised) > known:
            _raise(raised[known])


@contextmanager
def _noting() -> Iterator[list[BaseException]]:
    """Yield the list of what handlers raise from now on."""
    if _NOTED:
        yield _NOTED[-1]
        return
    before: dict[int, Handler] = {}
    raised: list[BaseException] = []
    late: list[int] = []
    is_over = False

    def answer(number: int, frame: FrameType | None) -> None:
        if is_over:  # it came while handlers are given back
            late.append(number)
            return
        try:
            before[number](number, frame)
        except BaseException as problem:
            raised.append(problem)
            raise

    try:
        _NOTED.append(raised)
        for ending in ANSWERED:
            handler = signal.getsignal(ending)
            if callable(handler):
                before[ending] = handler
                signal.signal(ending, answer)
        yield raised
    finally:
        is_over = True
        _NOTED.clear()
        for number, handler in before.items():
            if signal.getsignal(number) is answer:  # no handler of the block put another there
                signal.signal(number, handler)
        raised.clear()  # they hold the frames that they came through
        for number in late:
            before[number](number, None)


def _raise(problem: BaseException) -> NoReturn:
    """Raise it without the library's error, whose words may quote a value."""
    try:
        raise problem
    except BaseException:
        problem.__context__ = None
        raise


os.register_at_fork(after_in_child=_NOTED.clear)  # the block that notes may be another thread's
