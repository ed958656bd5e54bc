"""Steps that a signal must not cut in two: what is made is known, and what is removed is gone.

A signal raises KeyboardInterrupt wherever the program stands, also while it cleans up after the
one before, or at its own end: half a folder would be left, and nobody would tell.
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
"""From the keyboard; from whoever stops a service or a container; from a terminal that is gone."""

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def defer_signals() -> Iterator[None]:
    """Let a block come to its end whatever signals come; the first of them is answered behind it.

    Only signals that Python code answers: what is ignored stays so, and one that ends the process
    by default does that. Handlers run in the main thread alone, so a block in another is left be.
    """
    came: list[int] = []
    before: dict[int, Handler] = {}
    is_over = False

    def wait(number: int, frame: FrameType | None) -> None:
        if is_over:  # it came while handlers are given back
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
    """Yield a new folder, mode 0700, that is removed afterwards, whatever signals come.

    Not by a child that is forked meanwhile: it is its parent's.

    Raises
    ------
    OSError
        If it can't be made.
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
