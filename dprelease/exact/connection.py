"""A private connection to DuckDB, and the statements that lock everything else out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from dprelease.errors import DataError
from dprelease.exact.settings import Settings
from dprelease.exact.sources import pattern
from dprelease.query import quoting


def connected(scratch: Path, settings: Settings) -> duckdb.DuckDBPyConnection:
    """Return a connection of its own, in memory, that spills into a private folder.

    Raises
    ------
    DataError
        DP-ENGINE-004 if the engine does not take the settings.
    """
    found: duckdb.DuckDBPyConnection | None = None
    try:
        found = duckdb.connect(
            config={
                **settings.config,
                "temp_directory": str(scratch),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
            }
        )
    except duckdb.Error:
        found = None
    if found is None:
        raise DataError("DP-ENGINE-004")
    return found


def locking(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the statements after which only these files can be read, and nothing be changed."""
    # A file whose name looks like a pattern is asked for by an escaped name.
    spelled = {name for file in files for name in (str(file), pattern(file))}
    allowed = ", ".join(quoting.text(name) for name in sorted(spelled))
    return (
        "SET enable_progress_bar = false",  # it is drawn where answers are printed
        f"SET allowed_paths = [{allowed}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    )
