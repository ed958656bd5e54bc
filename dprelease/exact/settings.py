"""Settings of the engine for one run, and its private folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dprelease.errors import DataError, Place
from dprelease.exact.scratch import make_private, remove_stale
from dprelease.schema.load import Declaration

SCRATCH = "dprelease-scratch-"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the engine may use; None is its own default, or the system's temporary folder."""

    memory_limit: str | None = None
    threads: int | None = None
    temp_directory: Path | None = None
    place: Place | None = None
    """Where the folder was declared."""

    @classmethod
    def of(cls, declaration: Declaration) -> Settings:
        """Return the settings of a release; relative paths start at its file."""
        spec = declaration.spec.duckdb
        folder = spec.temp_directory and declaration.folder / spec.temp_directory
        place = declaration.place("duckdb", "temp_directory") if folder else None
        return cls(spec.memory_limit, spec.threads, folder or None, place)

    @property
    def config(self) -> dict[str, str | int]:
        """Return them as the engine names them."""
        wanted = {"memory_limit": self.memory_limit, "threads": self.threads}
        return {name: value for name, value in wanted.items() if value is not None}

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a private folder, mode 0700, that is removed; so are those that a kill left.

        Raises
        ------
        DataError
            DP-ENGINE-003 if it can't be made.
        """
        parent = self.temp_directory or Path(tempfile.gettempdir())
        made: Path | None = None
        try:
            remove_stale(parent, SCRATCH)
            made = make_private(parent, SCRATCH)
        except OSError:
            made = None
        if made is None:
            raise DataError("DP-ENGINE-003", place=self.place, name=parent.name)
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


DEFAULT = Settings()
