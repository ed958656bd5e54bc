"""Defer signals during steps that must not be interrupted, such as making or removing a folder.

A signal raises KeyboardInterrupt wherever the program is, also during the cleanup after an earlier
signal, or at exit. Half of a folder could then be left behind unnoticed.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from dprelease.system.forks import Maker

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals from the keyboard, from service or container managers, and from a closed terminal."""

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals until the block ends, then handle the first.

    Only signals with Python handlers are deferred: ignored signals stay ignored, and signals whose
    default action ends the process still do so. Handlers run only in the main thread, so nothing
    changes for a block in another thread.
    """
    came: list[int] = []
    before: dict[int, Handler] = {}
    is_over = False

    def wait(number: int, frame: FrameType | None) -> None:
        if is_over:  # the signal came while the handlers were being restored
            before[number](number, frame)
        else:
            came.append(number)

    try:
        if threading.current_thread() is threading.main_thread():
            for ending in ENDING:
                handler = signal.getsignal(ending)
                if callable(handler):
                    before[ending] = handler
                    signal.signal(ending, wait)
        yield
    finally:
        is_over = True
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            before[came[0]](came[0], None)


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder, mode 0700, and remove it afterwards, whatever signals arrive.

    A child that is forked meanwhile does not remove it: the folder belongs to the parent.

    Raises
    ------
    OSError
        If the folder can't be made.
    """
    folder: Path | None = None
    maker = Maker()
    try:
        with defer_signals():
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        yield folder
    finally:
        if folder is not None and maker.is_here:
            with defer_signals():
                shutil.rmtree(folder, ignore_errors=True)
