"""All formats of a release, written one after the other and told by their digests."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dprelease.documents.manifest import sha256_of
from dprelease.errors import DeclarationError, DpReleaseError, OutputError, Place
from dprelease.exports.export import PublishedRelease
from dprelease.exports.registry import export_of, versions_of

BLANK = "0" * 64
LONGER = 40
"""Characters by which the name of an exported file is longer than that of its table, at most."""

FILES = 3
"""Files that a format writes for a table, at most, and for the whole release."""

OF_DISKS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}
)
"""What the system answers for reasons that no format has: told as for every other file."""


def write_formats(
    names: Iterable[str],
    release: PublishedRelease,
    folder: Path,
    progress: Callable[[str], None] = lambda _name: None,
    *,
    trial: Place | None = None,
) -> list[dict[str, Any]]:
    """Write a release in some formats into a folder; return what the manifest says of them.

    Each is told of the files of those before it. `trial`: where the formats are asked for, if it is
    no release and only they are tried.

    Raises
    ------
    DeclarationError
        DP-EXPORT-008 if one fails at a trial.
    OutputError
        DP-EXPORT-009 if one fails of a release.
    OSError
        If the folder does not take them.
    """
    records = []
    beside = dict(release.beside)
    for name in names:
        progress(name)
        files, record = _write_format(name, replace(release, beside=beside), folder, trial)
        beside[name] = files
        records.append({**record, "packages": versions_of(export_of(name))})
    return records


def _write_format(
    name: str, release: PublishedRelease, folder: Path, trial: Place | None
) -> tuple[list[str], dict[str, Any]]:
    """Write one format; return its files, and what the manifest says of them. Raises as above.

    What fails of a release shows neither the words of what was raised nor what these come from:
    they may quote values, and none of these is published.
    """
    cause: Exception | None = None
    try:
        files = export_of(name).write(release, folder)
        return files, _record(name, [(file, sha256_of(folder / file)) for file in files])
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno in OF_DISKS:
            raise
        failure: DpReleaseError
        spot = _spot(problem)
        if trial is None:
            failure = OutputError("DP-EXPORT-009", format=name, problem=spot)
        else:
            cause, said = problem, str(problem).replace(f"{folder}/", "").rstrip(".")
            told = f"{spot}: {said}" if said else spot
            failure = DeclarationError("DP-EXPORT-008", place=trial, format=name, problem=told)
    raise failure from cause


def _spot(problem: Exception) -> str:
    """Return what was raised, and the line of a module that raised it."""
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def blank_record(names: Iterable[str], tables: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the manifest may say at most of formats that are not written yet.

    `tables`: the names of the tables that are published.
    """
    return [
        _record(
            name,
            [
                (f"{name}/{table}{i:0>{LONGER}}", BLANK)
                for table in ("", *tables)
                for i in range(FILES)
            ],
        )
        for name in names
    ]


def _record(name: str, files: Iterable[tuple[str, str]]) -> dict[str, Any]:
    told = [{"name": file, "sha256": digest} for file, digest in files]
    return {"format": name, "files": told, "packages": {}}
