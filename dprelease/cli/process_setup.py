"""How the process of the command line is set up, and how it ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable

from dprelease.system.cores import leave_no_core

WATCHERS = frozenset({"pyspark", "cProfile", "profile", "pdb"})
"""Modules that need the interpreter's own ending: a gateway to stop, or a report to give."""


def whole_process(command: Callable[[], None]) -> None:
    """Run a command that is all that this process does, and end the process.

    The ending is what `multiprocessing` does for its children: threads are joined, functions
    registered with `atexit` are called, what was printed is flushed. Only taking the modules apart
    object by object is left out, which takes longer than many a command. It is left to the
    interpreter after anything but a `SystemExit`, and where something else watches the process.

    Raises
    ------
    SystemExit, BaseException
        What the command raises, where the interpreter is to end the process.
    """
    _open_standard_streams()
    leave_no_core()
    # Loading NumPy starts a thread a core, and our products of small matrices need none of them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Looking for plugins of pydantic's reads what every installed package says of itself, and one
    # that is found would be shown all that is validated.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        command()
    except SystemExit as ending:
        code = 0 if ending.code is None else ending.code
        if not isinstance(code, int) or _is_watched() or not _finished():
            raise
        os._exit(code & 0xFF)


def _open_standard_streams() -> None:
    """Open nothing at all in place of standard streams that are closed.

    Else the next file that is opened gets the number of one, and all that libraries print.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free


def _is_watched() -> bool:
    traced = sys.gettrace() is not None or sys.getprofile() is not None
    return traced or bool(sys.flags.inspect) or not WATCHERS.isdisjoint(sys.modules)


def _finished() -> bool:
    """Do what has to be done before an end; return whether all that was printed has arrived."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return False  # the interpreter tries again, and says what went wrong
    return True
