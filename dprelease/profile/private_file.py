"""Write a file that only its owner can read, outside all folders that are published."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dprelease.errors import OutputError
from dprelease.schema.load import Declaration
from dprelease.system.files import reason_of

MANIFEST = "manifest.json"


@contextmanager
def private_file(path: Path, declaration: Declaration) -> Iterator[BinaryIO]:
    """Yield a new file with the permissions 0600, which is removed if the `with` block raises.

    Raises OutputError: DP-PROFILE-002 for a path in a release, or in the declared folder of this
    release; DP-OUTPUT-014 if the file exists, 002 if the operating system refuses to write it.
    """
    _refuse_published(path, declaration)
    refused: OutputError | None = None
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        refused = OutputError("DP-OUTPUT-014", name=path.name)
    except OSError as problem:
        reason = reason_of(problem)
        refused = OutputError("DP-OUTPUT-002", name=path.name, reason=reason, refused_by=problem)
    if refused is not None:
        raise refused
    done = False
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            yield file
            done = True
    finally:
        if not done:
            with suppress(OSError):
                path.unlink()


def _refuse_published(path: Path, declaration: Declaration) -> None:
    """Raise DP-PROFILE-002 for a path inside a published folder."""
    published = (declaration.folder / declaration.spec.output).resolve()
    for folder in path.absolute().parent.resolve().joinpath("x").parents:
        if folder == published or (folder / MANIFEST).exists():
            raise OutputError("DP-PROFILE-002", name=path.name, folder=folder.name)
