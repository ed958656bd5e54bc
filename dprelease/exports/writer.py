"""Write all formats of a release, one after the other, and compute digests of their files."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dprelease.documents.encoding import sha256_of
from dprelease.documents.file_records import ExportedFile, ExportRecord
from dprelease.errors import DeclarationError, DpReleaseError, OutputError, Place
from dprelease.exports.export import PublishedRelease
from dprelease.exports.registry import export_format, versions_of

BLANK = "0" * 64
MOST_ADDED_CHARACTERS = 40
"""Maximum number of characters by which the name of an exported file exceeds its table's name."""

MOST_FILES = 3
"""Maximum number of files of a format per table, and in addition per language of the release."""

DISK_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}
)
"""System errors that no format causes, which are reported as for any other file."""


def write_formats(
    names: Iterable[str],
    release: PublishedRelease,
    folder: Path,
    progress: Callable[[str], None] = lambda _name: None,
    *,
    trial: Place | None = None,
) -> list[ExportRecord]:
    """Write a release in some formats into a folder; return their manifest entries.

    Each format can read the files of the formats before it. `trial`: the position of `formats` in
    the declaration, if this is only a trial.

    Raises DeclarationError: DP-EXPORT-008 if a format fails in a trial. Raises OutputError:
    DP-EXPORT-009 if a format fails for a release. Raises OSError if the folder can't be written.
    """
    records = []
    written = dict(release.written)
    for name in names:
        progress(name)
        record = _write_format(name, replace(release, written=written), folder, trial)
        written[name] = [file.name for file in record.files]
        records.append(record)
    return records


def _write_format(
    name: str, release: PublishedRelease, folder: Path, trial: Place | None
) -> ExportRecord:
    """Write one format, and return its manifest entry; raises the errors of `write_formats`.

    If a format fails for a release, neither the message nor the cause of the exception is shown,
    because they may quote values.
    """
    cause: Exception | None = None
    try:
        export = export_format(name)
        written = export.write(release, folder)
        files = [ExportedFile(name=file, sha256=sha256_of(folder / file)) for file in written]
        return ExportRecord(format=name, files=files, packages=versions_of(export))
    except Exception as problem:
        # A full disk is no fault of the format, and its own error says what to do.
        if isinstance(problem, OSError) and problem.errno in DISK_ERRORS:
            raise
        failure: DpReleaseError
        spot = _error_position(problem)
        if trial is None:
            failure = OutputError("DP-EXPORT-009", format=name, problem=spot)
        else:
            # In a trial, all values are blank, so the message may be shown.
            cause, text = problem, str(problem).replace(f"{folder}/", "").rstrip(".")
            reason = f"{spot}: {text}" if text else spot
            failure = DeclarationError("DP-EXPORT-008", place=trial, format=name, problem=reason)
    raise failure from cause


def _error_position(problem: Exception) -> str:
    """Return the type of an exception, and the line of the module that raised it."""
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def blank_records(
    names: Iterable[str], tables: Sequence[str], languages: int
) -> list[ExportRecord]:
    """Return the largest possible manifest entries of formats that are not written yet.

    `tables`: the names of the published tables; `languages`: the number of the release's languages.
    """
    return [
        ExportRecord(
            format=name,
            files=[
                ExportedFile(name=f"{name}/{table}{i:0>{MOST_ADDED_CHARACTERS}}", sha256=BLANK)
                for table in (*[""] * languages, *tables)
                for i in range(MOST_FILES)
            ],
            packages={},
        )
        for name in names
    ]
