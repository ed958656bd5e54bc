"""The DuckDB connection of one task: private, locked, and silent about what it reads."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from dprelease.exact.scratch import private_folder
from dprelease.query import quoting

SCRATCH = "dprelease-task-"
MEMORY = "2GB"
"""What a task's connection holds before it spills into its private folder."""


@contextmanager
def private_link() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """Yield a connection that sees one private folder and nothing else, and that folder."""
    with private_folder(Path(tempfile.gettempdir()), SCRATCH) as folder:
        link = duckdb.connect(
            config={
                "temp_directory": str(folder / "spill"),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
                "memory_limit": MEMORY,
                "threads": 1,  # the other cores have tasks of their own
            }
        )
        try:
            for setting in (
                "SET TimeZone = 'UTC'",
                "SET preserve_insertion_order = true",
                "SET enable_progress_bar = false",
                f"SET allowed_directories = [{quoting.text(str(folder))}]",
                "SET enable_external_access = false",
                "SET lock_configuration = true",
            ):
                link.execute(setting)
            yield link, folder
        finally:
            link.close()
