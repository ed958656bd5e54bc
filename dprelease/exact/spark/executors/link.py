"""Open the DuckDB of a Python worker: private, locked, and silent about the data it reads.

All tasks of a worker use one DuckDB in turn, because opening and locking it takes longer than
counting a few thousand rows. Each task gets a separate connection, which sees no table of another
task, and a separate folder, which is empty at first and removed at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dprelease.exact.reading.sources import escape_pattern
from dprelease.exact.scratch import private_folder
from dprelease.query import quoting
from dprelease.system.forks import Maker

SCRATCH = "dprelease-task-"
SPILL_FOLDER = "spill"
MEMORY_LIMIT = "2GB"
"""Memory limit of a worker's DuckDB, which spills beyond it into the private folder of a task."""


@dataclass(frozen=True, slots=True)
class Access:
    """The files outside of its private folder that every task of a job may read.

    `floats`: whether one of the files has columns of floats, whose statistics ignore NaN.
    """

    files: tuple[str, ...] = ()
    floats: bool = False


class _WorkerDatabase:
    """A DuckDB of a worker, and the path of the folder into which it spills."""

    def __init__(self, access: Access, folder: Path) -> None:
        self.access, self.folder, self.maker = access, folder, Maker()
        self.root = duckdb.connect(
            config={
                "temp_directory": str(folder / SPILL_FOLDER),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
                "memory_limit": MEMORY_LIMIT,
                "threads": 1,  # other tasks use the other cores
            }
        )
        # A file whose name looks like a pattern is read by its escaped name.
        files = sorted(
            {name for file in access.files for name in (file, escape_pattern(Path(file)))}
        )
        allowed = ", ".join(map(quoting.text, files))
        for setting in (
            "SET GLOBAL TimeZone = 'UTC'",
            "SET GLOBAL preserve_insertion_order = true",
            # As in the engine of one machine: see `nan_safety`.
            "SET GLOBAL disabled_optimizers = 'statistics_propagation'" if access.floats else "",
            f"SET GLOBAL allowed_paths = [{allowed}]",
            f"SET GLOBAL allowed_directories = [{quoting.text(str(folder))}]",
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            self.root.execute(setting)

    def serves(self, access: Access) -> bool:
        """Return whether a task of this process with this access may use the DuckDB."""
        return self.maker.is_here and self.access == access


_IDLE_DATABASES: list[_WorkerDatabase] = []
"""The idle DuckDB of this process, if no task is using it."""


@contextmanager
def task_link(access: Access) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """Yield a connection that can read only a private folder and these files, and the folder."""
    database = _IDLE_DATABASES.pop() if _IDLE_DATABASES else None
    if database is not None and not database.serves(access):
        if database.maker.is_here:
            database.root.close()
        database = None
    parent = Path(tempfile.gettempdir())
    with private_folder(parent, SCRATCH, None if database is None else database.folder) as folder:
        if database is None or database.folder != folder:
            database = _WorkerDatabase(access, folder)
        link = database.root.cursor()
        try:
            yield link, folder
        finally:
            link.close()
            # A DuckDB that has spilled once needs its folder, which is removed.
            if (folder / SPILL_FOLDER).exists() or _IDLE_DATABASES:
                database.root.close()
            else:
                _IDLE_DATABASES.append(database)
