"""Re-raise exceptions of signal handlers that libraries swallow.

Libraries run handlers during long statements, or when they call Python. They turn an exception of a
handler into their own error, which does not mention the signal.
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

HANDLED_SIGNALS = (
    *ENDING, signal.SIGQUIT, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
    signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
"""Signals sent by people, service managers and time limits."""


_RECORDED: list[list[BaseException]] = []
"""Exceptions that handlers raised, per block that records them; empty outside such blocks."""


@contextmanager
def reraise_handler_errors() -> Iterator[None]:
    """Re-raise the exception of a signal handler after a block, in place of the block's own error.

    The exception is re-raised even if the block ended normally. Handlers run only in the main
    thread, so nothing happens for a block in another thread. A nested block does not install
    handlers again, because installing them takes as long as many statements.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _record_handler_errors() as raised:
        known = len(raised)
        try:
            yield
        except Exception:
            if len(raised) == known:
                raise
        if len(raised) > known:
            _raise_without_context(raised[known])


@contextmanager
def _record_handler_errors() -> Iterator[list[BaseException]]:
    """Yield a list to which the exceptions of handlers are appended from now on."""
    if _RECORDED:
        yield _RECORDED[-1]
        return
    before: dict[int, Handler] = {}
    raised: list[BaseException] = []
    late: list[int] = []
    is_over = False

    def answer(number: int, frame: FrameType | None) -> None:
        if is_over:  # the signal came while the handlers were being restored
            late.append(number)
            return
        try:
            before[number](number, frame)
        except BaseException as problem:
            raised.append(problem)
            raise

    try:
        _RECORDED.append(raised)
        for ending in HANDLED_SIGNALS:
            handler = signal.getsignal(ending)
            if callable(handler):
                before[ending] = handler
                signal.signal(ending, answer)
        yield raised
    finally:
        is_over = True
        _RECORDED.clear()
        for number, handler in before.items():
            if signal.getsignal(number) is answer:  # the block has not installed another handler
                signal.signal(number, handler)
        raised.clear()  # the exceptions hold the frames that they passed through
        for number in late:
            before[number](number, None)


def _raise_without_context(problem: BaseException) -> NoReturn:
    """Raise the handler's exception without the library's error, whose text may quote a value."""
    try:
        raise problem
    except BaseException:
        problem.__context__ = None
        raise


# The recording block may belong to another thread, which a child does not have.
os.register_at_fork(after_in_child=_RECORDED.clear)
