"""Check the exports of a release: write them again from its tables and compare the bytes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.encoding import sha256_of
from dprelease.documents.file_records import ExportRecord
from dprelease.documents.metadata import Metadata
from dprelease.documents.release_manifest import GuaranteedManifest
from dprelease.errors import OutputError
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.extension_names import PARQUET
from dprelease.system.deferred_signals import temporary_folder
from dprelease.system.files import reason_of
from dprelease.verification.report import Report

if TYPE_CHECKING:
    from dprelease.exports.export import Export, PublishedRelease

KEY = "exports"


def check_formats(
    report: Report, declaration: Declaration, exports: Sequence[ExportRecord]
) -> None:
    """Add a finding unless a manifest lists the declared formats, in the declared order.

    A rehearsal has no exports, because nothing in them would show that they are not about real
    people.
    """
    formats = [held.format for held in exports]
    wanted = [] if report.rehearsal else list(declaration.spec.extra_formats)
    if formats != wanted:
        report.add_finding("DP-VERIFY-022", KEY, problem="it does not list the declared formats")


def check_exports(report: Report, metadata: Metadata, record: GuaranteedManifest) -> None:
    """Add findings on the exports of a release, whose tables have been checked, to a report.

    Each export is written again from the tables and the manifest, in a temporary folder, and must
    have the same bytes. If it was published by another version of a package, it must have the same
    content for readers. If a required package is missing, the report gets a note, and only the
    digests of the export are checked.

    Raises OutputError: DP-OUTPUT-016 if the temporary folder can't be written, which says nothing
    about the release.
    """
    from dprelease.exports.export import PublishedRelease

    if not record.exports:
        return
    plain_manifest = record.without_exports()
    published_files: dict[str, Sequence[str]] = {PARQUET: record.table_files}
    try:
        # Never in the folder of the release, which is only read.
        with temporary_folder("dprelease-verify-") as folder:
            for i, held in enumerate(record.exports):
                release = PublishedRelease(
                    report.path, plain_manifest, metadata, dict(published_files)
                )
                published_files[held.format] = [file.name for file in held.files]
                _check_export(report, release, held, f"{KEY}[{i}]", folder)
                _copy_published_files(report.path, held, folder)
    except OSError as problem:
        reason = reason_of(problem)
        raise OutputError("DP-OUTPUT-016", reason=reason, refused_by=problem) from None


def _copy_published_files(release: Path, held: ExportRecord, folder: Path) -> None:
    """Copy the published files of an export, because later exports may list their digests."""
    for file in held.files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(release / file.name, path)


def _check_export(
    report: Report, release: PublishedRelease, held: ExportRecord, key: str, folder: Path
) -> None:
    """Write one export again, and compare it; add a note if that is not possible."""
    import pyarrow as pa

    from dprelease.exports.writer import export_format, missing_packages, versions_of

    export = export_format(held.format)
    absent = missing_packages(export)
    if absent:
        report.notes.append(
            f"the files of the format {export.name} were not made again: {', '.join(absent)} is "
            f"not installed (pip install 'dprelease[{export.extra}]')"
        )
        return
    here = versions_of(export)
    if here.keys() != held.packages.keys():
        problem = f"the format {export.name} is made by other packages"
        report.add_finding("DP-VERIFY-022", key, problem=problem)
        return
    try:
        # Each export sees only the formats before it, as in the run, because it may list their
        # files.
        files = export.write(release, folder)
        other = here != held.packages
        _compare_files(report, export, held, key, files, folder, other_versions=other)
    except (OSError, pa.ArrowException) as problem:
        if getattr(problem, "errno", None) is not None:  # a system error, not a broken table
            raise
        reason = type(problem).__name__
        report.add_finding("DP-VERIFY-022", key, problem=f"it can't be written again ({reason})")


def _compare_files(
    report: Report,
    export: Export,
    held: ExportRecord,
    key: str,
    files: Sequence[str],
    folder: Path,
    *,
    other_versions: bool,
) -> None:
    """Compare the published files of a format with the files that were written again.

    The digests of the published files have been compared with the manifest before.
    """
    from dprelease.exports.export import PackagedExport

    name = export.name
    if files != [file.name for file in held.files]:
        problem = f"the format {name} has other files"
        report.add_finding("DP-VERIFY-022", key, problem=problem)
        return
    differ = [file.name for file in held.files if sha256_of(folder / file.name) != file.sha256]
    # Other versions of a package may write other bytes for the same content.
    if differ and other_versions and not isinstance(export, PackagedExport):
        report.notes.append(
            f"the files of the format {name} were not compared: other versions of its packages "
            "made them than are here"
        )
        return
    if other_versions:
        differ = [
            file
            for file in differ
            if not _has_same_content(export, report.path / file, folder / file)
        ]
    for file in differ:
        report.add_finding("DP-VERIFY-023", key, name=file, format=name)
    how = ", read back, as its packages have other versions here" if other_versions else ""
    report.checked.append(f"the files of the format {name} follow from the tables{how}")


def _has_same_content(export: Export, one: Path, other: Path) -> bool:
    """Return whether readers get the same content from two files; False for unreadable files."""
    import pyarrow as pa

    from dprelease.exports.export import PackagedExport

    try:
        return isinstance(export, PackagedExport) and export.has_same_content(one, other)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return False
