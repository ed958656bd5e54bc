"""Defer signals during steps that must not be interrupted, such as making or removing a folder.

A signal raises KeyboardInterrupt wherever the program is, even during the cleanup after an earlier
signal, or at exit. Then a part of a folder could be left behind unnoticed.
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
        if folder is not None and maker.is_here:
            with defer_signals():
                shutil.rmtree(folder, ignore_errors=True)
