"""Files that a declaration names and that are too large to be texts in a manifest.

Each file is read once and as a whole, so that the digest belongs to the bytes that were used. A
release has a copy of each file in its folder, named by the digest, so that a verifier needs no
other files.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from dprelease.system.files import NotRegularFile, read_file
from dprelease.system.lake_tables import lake_problem

LARGEST_TEXT = 16 << 20
"""Maximum number of bytes of a file whose text is stored in the manifest."""

MOST_LISTED = 4 << 20
"""Maximum number of bytes of a file of values in the manifest, which may hold several."""

LARGEST = 1 << 30
"""Maximum number of bytes of any file that a declaration names."""

FOLDER = "declaration"
"""The folder of the copies, inside the folder of a release."""

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class FileCopy:
    """The record of a file in a manifest: SHA-256, number of bytes, and form of the file."""

    sha256: str
    size: int
    form: str

    @property
    def copy(self) -> str:
        """The name of the file's copy, relative to the release's folder."""
        return f"{FOLDER}/{self.sha256}.{self.form}"


@dataclass(frozen=True)
class LargeFile:
    """A file to read; reading it adds its record to `known`, by its declared name."""

    name: str
    path: Path
    is_parquet: bool
    known: dict[str, tuple[FileCopy, Path]] = field(repr=False)

    def content(self) -> bytes:
        """Return the bytes of the file, with the errors of `read_file`."""
        content = read_file(self.path, LARGEST)
        digest = hashlib.sha256(content).hexdigest()
        form = "parquet" if self.is_parquet else "csv"
        file = FileCopy(digest, len(content), form)
        if self.known.setdefault(self.name, (file, self.path))[0] != file:  # two columns use it
            raise OSError(errno.EAGAIN, "it changed while it was read")
        return content


DEFAULT_ENCODING = "utf-8-sig"
"""The default encoding of files that a declaration names; a byte order mark is no text."""


class ReadText(Protocol):
    """A function that returns the text of a named file."""

    def __call__(self, name: str, encoding: str = DEFAULT_ENCODING, /) -> str:
        """Return the text of the file."""
        ...


Find = Callable[[str], tuple[Path, bool] | None]
"""A function that returns a named file's path, and whether it is Parquet; None for a text.

It raises NotRegularFile for a file that may hold stale rows."""


def relative_finder(folder: Path) -> Find:
    """Return a function that finds a folder's Parquet files, and files too large to be texts."""

    def find(name: str) -> tuple[Path, bool] | None:
        """Return the path of a large file or of a Parquet file; None for a text."""
        path = folder / name
        if PurePosixPath(name).suffix.lower() in PARQUET:
            problem = lake_problem([path])
            if problem is not None:
                raise NotRegularFile(errno.EINVAL, f"{problem[0]}; {problem[1]}")
            return path, True
        try:
            return (path, False) if path.stat().st_size > MOST_LISTED else None
        except (OSError, ValueError):
            # A path that is no path at all, such as one with NUL, raises ValueError.
            return None  # reading the file as a text will report the error

    return find


def find_copies(folder: Path, copies: Mapping[str, FileCopy]) -> Find:
    """Return a function that finds the copies in a release's folder."""

    def find(name: str) -> tuple[Path, bool] | None:
        """Return the path of a file's copy; None for a text."""
        file = copies.get(name)
        return None if file is None else (folder / file.copy, file.form == "parquet")

    return find


def find_no_file(_name: str) -> None:
    """Return None for every file, so that all files are read as texts."""
