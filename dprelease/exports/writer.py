"""Load export formats by name, and write all formats of a release, with digests of their files."""

from __future__ import annotations

import errno
import importlib
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import metadata as installed
from pathlib import Path

from dprelease.documents.encoding import sha256_of
from dprelease.documents.file_records import ExportedFile, ExportRecord
from dprelease.documents.metadata import Metadata
from dprelease.documents.release_metadata import metadata_of_records
from dprelease.errors import DeclarationError, DpReleaseError, OutputError, Place
from dprelease.exports.export import Export, PublishedRelease
from dprelease.exports.layout import refused_wide_keys
from dprelease.postprocess.consistent.consistency_record import ConsistencyRecord
from dprelease.postprocess.families import Family
from dprelease.query.local_records import resolve_records
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.extension_names import FORMATS
from dprelease.tables import formats

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


def aggregate_metadata(
    metadata: Metadata, families: Sequence[Family], wide: tuple[str, ...]
) -> Metadata:
    """Return the metadata of a release of aggregates, with the declared numbers of rows.

    Other numbers of rows are left out, because the layout must be the same before the release is
    drawn, after it, and in `verify`.
    """
    rows = dict(_complete_outputs(families))
    tables = tuple(
        replace(table, rows=rows[table.name]) if table.name in rows else table
        for table in metadata.tables
    )
    return replace(metadata, tables=tables, wide=wide)


def record_metadata(declaration: Declaration) -> Metadata:
    """Return the metadata of a release of single records, whose number of rows is not declared."""
    return metadata_of_records(declaration, resolve_records(declaration))


def _complete_outputs(families: Sequence[Family]) -> Iterator[tuple[str, int]]:
    """Yield name and number of rows of step outputs that have a row for every cell."""
    for family in families:
        record = None if family.step is None else family.step.record(family.tables)
        wholes = record.whole_tables if isinstance(record, ConsistencyRecord) else []
        # Only some cells of these integer tables are published, so their number of rows is not
        # declared.
        few = {whole.name for whole in wholes if whole.cells != "all"}
        for output in family.outputs:
            named = {output.name, formats.table_file_name(output.name)}
            if output.columns and not named & few:
                yield output.name, output.keys.size


RUNTIME: dict[str, Callable[[], str]] = {"zlib": lambda: zlib.ZLIB_RUNTIME_VERSION}
"""Versions of Python's libraries that affect bytes: compressed files depend on zlib."""


def export_format(name: str) -> Export:
    """Return the format of a listed name."""
    # Only the formats that a release names are imported.
    export: Export = importlib.import_module(FORMATS[name]).EXPORT
    return export


def packages_of(export: Export) -> tuple[str, ...]:
    """Return the packages that determine the bytes of a format; most formats have none."""
    packages: tuple[str, ...] = getattr(export, "packages", ())
    return packages


def versions_of(export: Export) -> dict[str, str]:
    """Return the versions of the installed packages that determine the bytes of a format."""
    versions = {}
    for package in packages_of(export):
        try:
            versions[package] = (
                RUNTIME[package]() if package in RUNTIME else installed.version(package)
            )
        except installed.PackageNotFoundError:
            continue
    return versions


def missing_packages(export: Export) -> list[str]:
    """Return the packages that a format needs and that are not installed."""
    there = versions_of(export)
    return [package for package in packages_of(export) if package not in there]


def findings(
    names: Sequence[str], metadata: Metadata, place: Place, wide: Place
) -> Iterator[DeclarationError]:
    """Yield the reasons why formats can't be written for a release, from declarations alone.

    `place`: the position of `formats` in the declaration; `wide`: the position of the layout.
    """
    for key, problem in refused_wide_keys(metadata):
        yield DeclarationError("DP-EXPORT-005", place=wide, key=key, problem=problem)
    for name in names:
        export = export_format(name)
        absent = missing_packages(export)
        if absent:
            packages = ", ".join(absent)
            yield DeclarationError(
                "DP-EXPORT-003", place=place, format=name, packages=packages, extra=export.extra
            )
            continue
        for one in export.problems(metadata):
            yield DeclarationError(
                "DP-EXPORT-002", place=place, format=name, problem=one.message.rstrip(".")
            )
