"""Settings of the engine for one run, and its private folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dprelease.errors import DataError, Place
from dprelease.exact.scratch import private_folder
from dprelease.schema.load import Declaration

SCRATCH = "dprelease-scratch-"


@dataclass(frozen=True, slots=True)
class Settings:
    """Resources of the engine.

    None stands for the engine's default, and for the system's temporary folder.
    """

    memory_limit: str | None = None
    threads: int | None = None
    temp_directory: Path | None = None
    place: Place | None = None
    """The place in the declaration that names the folder."""

    @classmethod
    def of(cls, declaration: Declaration) -> Settings:
        """Return the settings of a release; relative paths start at the folder of its file."""
        spec = declaration.spec.duckdb
        folder = spec.temp_directory and declaration.folder / spec.temp_directory
        place = declaration.place("duckdb", "temp_directory") if folder else None
        return cls(spec.memory_limit, spec.threads, folder or None, place)

    @property
    def config(self) -> dict[str, str | int]:
        """Return the memory limit and the threads by the engine's names, unless they are None."""
        wanted = {"memory_limit": self.memory_limit, "threads": self.threads}
        return {name: value for name, value in wanted.items() if value is not None}

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a private folder, mode 0700, and remove it afterwards.

        Folders that killed runs left behind are removed too.

        Raises DataError: DP-ENGINE-003 if the folder can't be created.
        """
        with ExitStack() as stack:
            parent, made = self.temp_directory, None
            try:
                parent = parent or Path(tempfile.gettempdir())
                made = stack.enter_context(private_folder(parent, SCRATCH))
            except OSError:
                made = None
            if made is None:
                name = "" if parent is None else parent.name
                raise DataError("DP-ENGINE-003", place=self.place, name=name)
            yield made


DEFAULT_SETTINGS = Settings()
