"""A private connection to DuckDB, and the statements that lock everything else out."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from dprelease.errors import DataError
from dprelease.exact.reading.sources import pattern
from dprelease.exact.settings import Settings
from dprelease.query import quoting
from dprelease.system.answered import answered
from dprelease.system.forks import Maker, hold_for_ever
from dprelease.system.undisturbed import undisturbed
from dprelease.system.unforked import unforked

Config = dict[str, str | bool | int | float | list[str]]

PRIVATE: Config = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "async_threads": 0,
}
"""What every connection is opened with: nothing is loaded, no variable of a caller is read, and no
thread waits for files, which costs milliseconds, and more to hand it what the system has."""

KEEPING = {"preserve_insertion_order": "true"}
"""Rows come in the order of their source, so that replayed bits give the same records again."""

READING = {"TimeZone": "UTC", "parquet_metadata_cache": "true"}
"""What is set once extensions are there. What a Parquet file says of itself is read once, and not
for the names, the types and every statement anew."""

FORGETTING = "SET parquet_metadata_cache = false"
"""For many files: what they say would take room."""

AWAITING = "RESET async_threads"
"""For files that are on a disk alone: what comes next of them is read while others compute."""

FEW_FILES = 256
"""Files of which what each says of itself is held: columns by groups of rows, a few kB each."""


@contextmanager
def connection(scratch: Path, settings: Settings) -> Iterator[Closing]:
    """Yield a connection and its end, which comes with the block at the latest.

    Whatever signals come meanwhile: a connection that nobody knows of keeps threads and memory.

    Raises
    ------
    DataError
        As `connected`.
    """
    closing: Closing | None = None
    try:
        with undisturbed():
            closing = Closing(connected(scratch, settings))
        yield closing
    finally:
        if closing is not None:
            closing.end()


def connected(scratch: Path, settings: Settings) -> duckdb.DuckDBPyConnection:
    """Return a connection of its own, in memory, that spills into a private folder.

    Raises
    ------
    DataError
        DP-ENGINE-004 if the engine does not take the settings.
    """
    link: duckdb.DuckDBPyConnection | None = None
    try:
        asked: Config = {**settings.config, **KEEPING, "temp_directory": str(scratch)}
        link, left = _opened_ahead(), {**asked, **READING}
        if link is None:
            link, left = _opened(PRIVATE | asked), {**READING}
        _OPEN[id(link)] = link
        sets = (f"SET {name} = {quoting.text(str(value))}" for name, value in left.items())
        with answered():
            link.execute("; ".join(sets))
        without_progress(link)
    except BaseException as problem:
        if link is not None:
            closed(link)
        if not isinstance(problem, duckdb.Error):
            raise
        link = None
    if link is None:
        raise DataError("DP-ENGINE-004")
    return link


def _opened(config: Config) -> duckdb.DuckDBPyConnection:
    """Return a new connection; no fork meanwhile, whose child would wait for the engine's locks."""
    with unforked(cuts=False):
        return duckdb.connect(config=config)


@contextmanager
def opening_ahead() -> Iterator[None]:
    """Let a thread open the first connection of the block, while it is made ready for.

    Nothing is left of it behind the block. One that is coming already is enough.
    """
    if _AHEAD:
        yield
        return
    coming: _Coming | None = None
    try:
        with undisturbed():
            coming = _Coming()
            _AHEAD.append(coming)
        yield
    finally:
        with undisturbed():
            if coming is not None:
                with contextlib.suppress(ValueError):  # it was asked for
                    _AHEAD.remove(coming)
                link = coming.get()  # none where it was had
                if link is not None:
                    link.close()


class _Coming:
    """A connection that a thread opens, unless it can't: then whoever needs one finds out why."""

    def __init__(self) -> None:
        self._links: list[duckdb.DuckDBPyConnection] = []
        self._maker, self._over = Maker(), threading.Event()
        self._thread = threading.Thread(target=self._open, name="dprelease-connect")
        with contextlib.suppress(RuntimeError):  # no more threads are to be had
            self._thread.start()
            time.sleep(HANDED_OVER)

    def _open(self) -> None:
        try:
            with contextlib.suppress(duckdb.Error, OSError, MemoryError):
                self._links.append(_opened(PRIVATE))
        finally:
            self._over.set()

    def get(self) -> duckdb.DuckDBPyConnection | None:
        """Return the connection once it is open, one time; None where there is none."""
        if not self._maker.is_here:
            return None
        if self._thread.ident is not None:
            self._over.wait()  # to join a thread once more that was interrupted waits for nothing
            self._thread.join()
        try:
            return self._links.pop()
        except IndexError:  # it could not be opened, or another thread has it
            return None

    def leave(self) -> None:
        """Let it never end in this process, which is a child of the one that opened it."""
        for link in self._links:
            hold_for_ever(link)


HANDED_OVER = 1e-4
"""Seconds in which a thread that was started gets the interpreter's lock, for which it would wait
as long as a connection takes; the engine needs none."""

_AHEAD: list[_Coming] = []
"""Connections that nobody has asked for yet."""


def _opened_ahead() -> duckdb.DuckDBPyConnection | None:
    try:
        coming = _AHEAD.pop()
    except IndexError:  # to ask first whether there is one would let another thread take it
        return None
    return coming.get()


def without_progress(link: duckdb.DuckDBPyConnection) -> None:
    """Let a connection draw no progress: that is done where answers are printed, if at all.

    In a notebook without the widgets for it DuckDB draws none, and refuses whatever is set of it.
    """
    try:
        with answered():
            link.execute("SET enable_progress_bar = false")
    except duckdb.Error:
        (drawn,) = link.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0]
        if drawn:
            raise


def closed(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection; in a child that was forked after it was made it is nobody's to close."""
    if id(connection) in _OPEN:
        try:
            connection.close()
        finally:  # not before: a child that is forked meanwhile has to hold it
            _OPEN.pop(id(connection), None)


class Closing:
    """The end of a connection: in a thread, once it is asked no more, or when its user ends."""

    def __init__(self, link: duckdb.DuckDBPyConnection) -> None:
        self.link = link
        self._thread: threading.Thread | None = None

    @property
    def has_begun(self) -> bool:
        """Return whether nothing can be asked any more."""
        return self._thread is not None

    def begin(self) -> None:
        """Close the connection in a thread: it takes milliseconds. Later, if none is to be had."""
        thread = threading.Thread(target=closed, args=(self.link,), name="dprelease-close")
        with contextlib.suppress(RuntimeError), undisturbed():
            thread.start()
            self._thread = thread
        time.sleep(HANDED_OVER)

    def end(self) -> None:
        """Return once it is closed, whatever signals come: what it holds is removed next."""
        with undisturbed():
            if self._thread is not None:
                self._thread.join()
            closed(self.link)


_OPEN: dict[int, duckdb.DuckDBPyConnection] = {}
"""Connections of this process."""


def _leave_to_parent() -> None:
    """Let no connection end in a child: it would wait for threads that the child doesn't have."""
    for connection in _OPEN.values():
        hold_for_ever(connection)
    for coming in _AHEAD:
        coming.leave()
    _OPEN.clear()
    _AHEAD.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def locking(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the statements after which only these files can be read, and nothing be changed."""
    # A file whose name looks like a pattern is asked for by an escaped name.
    spelled = {name for file in files for name in (str(file), pattern(file))}
    allowed = ", ".join(quoting.text(name) for name in sorted(spelled))
    return (
        f"SET allowed_paths = [{allowed}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    )
