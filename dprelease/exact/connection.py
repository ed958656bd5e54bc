"""Open private connections to DuckDB, and lock them, so that they can read only declared files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from dprelease.errors import DataError
from dprelease.exact.reading.sources import escape_pattern
from dprelease.exact.settings import Settings
from dprelease.query import quoting
from dprelease.system.deferred_signals import defer_signals, reraise_handler_errors
from dprelease.system.forks import Maker, parent_only

Config = dict[str, str | bool | int | float | list[str]]

CONNECTION_OPTIONS: Config = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": True,
}
"""Options of every connection: no extension is loaded, no variable of a caller is read, and rows
come in the order of their source, so that replayed bits give the same records again."""

# The time zone of the machine must not decide on which day a row counts.
READING_SETTINGS = {"TimeZone": "UTC", "parquet_metadata_cache": "true"}
"""Settings for reading. With the cache, the metadata of a Parquet file is read only once, and not
again for its names, its types and every statement."""

WITHOUT_METADATA_CACHE = "SET parquet_metadata_cache = false"
"""A statement for sources with many files, whose cached metadata would take too much memory."""

MOST_CACHED_FILES = 256
"""Maximum number of files whose metadata is cached: columns by row groups, a few kB each."""


@contextmanager
def open_connection(scratch: Path, settings: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a new connection to a database in memory, which spills into a private folder.

    Raises DataError: DP-ENGINE-004 if the engine does not accept the settings.
    """
    maker = Maker()
    link: duckdb.DuckDBPyConnection | None = None
    with parent_only() as held:
        try:
            with defer_signals():  # a signal must not lose a connection that nothing closes yet
                link = _connect(
                    # By default the engine spills rows into the current folder, where a killed
                    # process leaves them.
                    {**CONNECTION_OPTIONS, **settings.config, "temp_directory": str(scratch)}
                )
                held.append(link)
            _apply_settings(link)
            yield link
        finally:
            if link is not None and maker.is_here:  # a forked child must not close it
                with defer_signals():
                    link.close()


def _connect(config: Config) -> duckdb.DuckDBPyConnection:
    """Return a new connection to DuckDB, or raise DP-ENGINE-004."""
    with suppress(duckdb.Error):
        return duckdb.connect(config=config)
    # Raised outside of the block: the engine's own exception, whose text may name paths, would
    # otherwise stay reachable as the context of this one.
    raise DataError("DP-ENGINE-004")


def _apply_settings(link: duckdb.DuckDBPyConnection) -> None:
    """Apply the settings for reading to a connection, and disable its progress bar."""
    with suppress(duckdb.Error):
        with reraise_handler_errors():
            for name, value in READING_SETTINGS.items():
                link.execute(f"SET {name} = {quoting.text(value)}")
        disable_progress_bar(link)
        return
    raise DataError("DP-ENGINE-004")


def disable_progress_bar(link: duckdb.DuckDBPyConnection) -> None:
    """Turn off the progress bar of a connection, so that the engine prints nothing.

    In a notebook without the widgets that a progress bar needs, DuckDB draws none, and refuses all
    settings of progress bars.
    """
    try:
        with reraise_handler_errors():
            link.execute("SET enable_progress_bar = false")
    except duckdb.Error:
        (is_enabled,) = link.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0]
        if is_enabled:
            raise


def lock_statements(files: Sequence[Path]) -> tuple[str, ...]:
    """Return SQL statements that lock a connection.

    Afterwards the connection can read only these files, and its settings can't be changed.
    """
    # A file whose name looks like a pattern is opened by its escaped name.
    names = {name for file in files for name in (str(file), escape_pattern(file))}
    allowed = ", ".join(quoting.text(name) for name in sorted(names))
    # This order is necessary: the engine refuses a change of `allowed_paths` once external access
    # is disabled, and every change once the configuration is locked.
    return (
        f"SET allowed_paths = [{allowed}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    )


OUT_OF_MEMORY_ERRORS = (MemoryError, duckdb.OutOfMemoryException)
"""Exceptions for exhausted memory, which are not errors of a source."""

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def memory_limit(link: duckdb.DuckDBPyConnection) -> int | None:
    """Return the engine's memory limit in bytes, rounded by the engine; None if it has no limit."""
    (limit,) = link.sql("SELECT current_setting('memory_limit')").fetchall()[0]
    parts = re.fullmatch(r"([0-9.]+) (bytes|[KMGTP]iB)", limit)
    return None if parts is None else int(float(parts[1]) * 1024 ** UNITS.index(parts[2]))


def thread_count(link: duckdb.DuckDBPyConnection) -> int:
    """Return the engine's number of threads."""
    (threads,) = link.sql("SELECT current_setting('threads')").fetchall()[0]
    return int(threads)
