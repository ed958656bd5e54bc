"""Signals that end a command: it cleans up, and says what it had done, as after a failure."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dprelease.system.undisturbed import ENDING

OURS = (signal.SIG_DFL, signal.default_int_handler)
"""What is replaced: who ignores a signal, or handles it, keeps to that."""


@contextmanager
def ending_signals() -> Iterator[list[int]]:
    """Turn signals into KeyboardInterrupt for a block, and yield the list of those that came.

    Libraries may turn the exception into one of their own: the list tells why it came. Only a main
    thread can have handlers.
    """
    came: list[int] = []
    before: dict[signal.Signals, object] = {}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) in OURS:
                before[number] = signal.signal(number, interrupt)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
