"""A private connection to DuckDB, and the statements that lock everything else out."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

import duckdb

from dprelease.errors import DataError
from dprelease.exact.reading.sources import pattern
from dprelease.exact.settings import Settings
from dprelease.query import quoting


def connected(scratch: Path, settings: Settings) -> duckdb.DuckDBPyConnection:
    """Return a connection of its own, in memory, that spills into a private folder.

    Raises
    ------
    DataError
        DP-ENGINE-004 if the engine does not take the settings.
    """
    link: duckdb.DuckDBPyConnection | None = None
    try:
        link = duckdb.connect(
            config={
                **settings.config,
                "temp_directory": str(scratch),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
            }
        )
    except duckdb.Error:
        link = None
    if link is None:
        raise DataError("DP-ENGINE-004")
    _OPEN[id(link)] = link
    without_progress(link)
    return link


def without_progress(link: duckdb.DuckDBPyConnection) -> None:
    """Let a connection draw no progress: that is done where answers are printed, if at all.

    In a notebook without the widgets for it DuckDB draws none, and refuses whatever is set of it.
    """
    try:
        link.execute("SET enable_progress_bar = false")
    except duckdb.Error:
        (drawn,) = link.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0]
        if drawn:
            raise


def closed(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection; in a child that was forked after it was made it is nobody's to close."""
    if _OPEN.pop(id(connection), None) is not None:
        connection.close()


_OPEN: dict[int, duckdb.DuckDBPyConnection] = {}
"""Connections of this process."""


def _leave_to_parent() -> None:
    """Let no connection end in a child: it would wait for threads that the child doesn't have.

    The end of a Python object that nobody holds ends the connection, too, so each is held for ever.
    """
    for connection in _OPEN.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _OPEN.clear()


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
