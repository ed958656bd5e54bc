"""Files that a declaration names and that are too large to be texts in a manifest.

Each is read once and as a whole, so that the digest is that of the bytes that were used. A release
has a copy of each in its folder, named by the digest, so a verifier needs nothing else.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dprelease.system.files import NoFile, read_file
from dprelease.system.lake_tables import lake_problem

LARGEST_TEXT = 16 << 20
"""Maximum bytes of any file whose text is in the manifest."""

MOST_LISTED = 4 << 20
"""Maximum bytes of a values file in the manifest, which has to hold several of them."""

LARGEST = 1 << 30
"""Maximum bytes of any file that a declaration names."""

FOLDER = "declaration"
"""The folder of the copies, inside that of a release."""

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file as recorded in a manifest: the SHA-256 of its bytes, their number, and its form."""

    sha256: str
    size: int
    form: str

    @property
    def copy(self) -> str:
        """Return the name of its copy, relative to the release's folder."""
        return f"{FOLDER}/{self.sha256}.{self.form}"


@dataclass(frozen=True)
class LargeFile:
    """A file to read; its record is added to `known`, by its declared name, once it is read."""

    name: str
    path: Path
    is_parquet: bool
    known: dict[str, tuple[KeptFile, Path]] = field(repr=False)

    def content(self) -> bytes:
        """Return its bytes; raises as `read_file`."""
        content = read_file(self.path, LARGEST)
        digest = hashlib.sha256(content).hexdigest()
        form = "parquet" if self.is_parquet else "csv"
        file = KeptFile(digest, len(content), form)
        if self.known.setdefault(self.name, (file, self.path))[0] != file:  # two columns name it
            raise OSError(errno.EAGAIN, "it changed while it was read")
        return content


Find = Callable[[str], tuple[Path, bool] | None]
"""Returns where a named file is, and whether it is Parquet; None if it is a text.

Raises NoFile for a file that may hold stale rows."""


def relative_finder(folder: Path) -> Find:
    """Return a function that finds a folder's files: Parquet, and those too large to be texts."""

    def find(name: str) -> tuple[Path, bool] | None:
        path = folder / name
        if PurePosixPath(name).suffix.lower() in PARQUET:
            problem = lake_problem([path])
            if problem is not None:
                raise NoFile(errno.EINVAL, f"{problem[0]}; {problem[1]}")
            return path, True
        try:
            return (path, False) if path.stat().st_size > MOST_LISTED else None
        except (OSError, ValueError):
            return None  # reading it as a text reports why

    return find


def find_copies(folder: Path, copies: Mapping[str, KeptFile]) -> Find:
    """Return a function that finds the copies in a release's folder."""

    def find(name: str) -> tuple[Path, bool] | None:
        file = copies.get(name)
        return None if file is None else (folder / file.copy, file.form == "parquet")

    return find


def none_found(_name: str) -> None:
    """Find nothing: every file is a text."""
