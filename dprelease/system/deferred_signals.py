"""Defer signals during steps that must not be interrupted, such as making or removing a folder.

A signal raises KeyboardInterrupt wherever the program is, even during the cleanup after an earlier
signal, or at exit. Then a part of a folder could be left behind unnoticed.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from dprelease.system.forks import Maker

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process: from the keyboard, from a service manager, from a closed terminal."""

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals until the `with` block ends, and then handle the first of them.

    Only signals with Python handlers are deferred: ignored signals stay ignored, and signals whose
    default action ends the process still do so. In another thread than the main thread this
    function has no effect, because Python runs handlers only in the main thread.
    """
    arrived: list[int] = []
    handlers: dict[int, Handler] = {}
    is_over = False

    def defer(number: int, frame: FrameType | None) -> None:
        """Keep a signal for the end of the block."""
        if is_over:  # the signal came while the handlers were being restored
            handlers[number](number, frame)
        else:
            arrived.append(number)

    try:
        # `signal.signal` raises ValueError in any other thread.
        if threading.current_thread() is threading.main_thread():
            for number_to_defer in ENDING_SIGNALS:
                handler = signal.getsignal(number_to_defer)
                if callable(handler):
                    handlers[number_to_defer] = handler
                    signal.signal(number_to_defer, defer)
        yield
    finally:
        is_over = True
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if arrived:
            handlers[arrived[0]](arrived[0], None)


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder with the mode 0700, and remove the folder afterwards.

    Signals do not interrupt the creation or the removal. A child process that is forked in the
    meantime does not remove the folder, which belongs to the parent.

    Raises OSError if the folder can't be created.
    """
    folder: Path | None = None
    maker = Maker()
    try:
        with defer_signals():
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        yield folder
    finally:
        # The folder is missing if the very creation was interrupted.
        if folder is not None and maker.is_here:
            with defer_signals():
                shutil.rmtree(folder, ignore_errors=True)


# Re-raise exceptions of signal handlers that libraries have swallowed.
#
# Python runs signal handlers while a library executes a long statement, or when it calls Python.
# Some libraries turn an exception of a handler into their own error, which does not mention the
# signal.

HANDLED_SIGNALS = (
    *ENDING_SIGNALS, signal.SIGQUIT, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
    signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
"""Signals that people, service managers and time limits send."""


_RECORDED: list[list[BaseException]] = []
"""The list of exceptions of handlers, in the `with` block that records them; empty elsewhere."""


@contextmanager
def reraise_handler_errors() -> Iterator[None]:
    """Re-raise the exception of a signal handler after a `with` block.

    The exception replaces the block's own error, and is re-raised even if the block ended normally.
    In another thread than the main
    thread this function has no effect, because Python runs handlers only in the main thread. A
    nested block does not install handlers again, because this takes as long as many statements.
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
    handlers: dict[int, Handler] = {}
    raised: list[BaseException] = []
    late_signals: list[int] = []
    is_over = False

    def record_error(number: int, frame: FrameType | None) -> None:
        """Call the handler of a signal, and record the exception that it raises."""
        if is_over:  # the signal came while the handlers were being restored
            late_signals.append(number)
            return
        try:
            handlers[number](number, frame)
        except BaseException as problem:
            raised.append(problem)
            raise

    try:
        _RECORDED.append(raised)
        for handled in HANDLED_SIGNALS:
            handler = signal.getsignal(handled)
            if callable(handler):
                handlers[handled] = handler
                signal.signal(handled, record_error)
        yield raised
    finally:
        is_over = True
        _RECORDED.clear()
        for number, handler in handlers.items():
            if (
                signal.getsignal(number) is record_error
            ):  # the block has not installed another handler
                signal.signal(number, handler)
        raised.clear()  # the exceptions keep the frames alive that they passed through
        for number in late_signals:
            handlers[number](number, None)


def _raise_without_context(problem: BaseException) -> NoReturn:
    """Raise the handler's exception without the library's error, whose text may quote a value."""
    try:
        raise problem
    except BaseException:
        problem.__context__ = None
        raise


# The recording block may belong to a thread of the parent, which a child does not have.
os.register_at_fork(after_in_child=_RECORDED.clear)
