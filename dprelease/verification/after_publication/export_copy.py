"""Export a published release to other formats, in a new folder; its own folder stays unchanged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from dprelease.documents.encoding import NAME
from dprelease.documents.local_manifest import LocalManifest
from dprelease.documents.manifest import Manifest
from dprelease.documents.metadata import Metadata
from dprelease.documents.release_metadata import metadata_of
from dprelease.errors import (
    DeclarationError,
    Findings,
    OutputError,
    Place,
    RunState,
    State,
    VerificationError,
    raise_all,
)
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.exports.export import PublishedRelease
from dprelease.exports.writer import aggregate_metadata, findings, record_metadata, write_formats
from dprelease.planning.kinds import CENTRAL, LOCAL
from dprelease.release.folder import claim_target
from dprelease.schema.release_parts.extension_names import (
    FORMATS,
    OF_RECORDS,
    format_name,
    in_order,
    suggest_format,
)
from dprelease.system.renaming import rename_new
from dprelease.verification.central import recorded_columns, recorded_families
from dprelease.verification.manifest_comparison import (
    Rehearsal,
    read_any_manifest,
    read_manifest_as,
)
from dprelease.verification.report import Report, resolve_declaration
from dprelease.verification.verify import check_files


def sidecar_path(folder: Path, ending: str) -> Path:
    """Return a path next to a folder: the name of the folder with an ending.

    The path is relative if `folder` is relative, except for "." and "..", which have no name: for
    them the path is absolute.
    """
    whole = folder.resolve()
    parent = whole.parent if folder.name in ("", "..") else folder.parent
    return parent / f"{whole.name}{ending}"


def write_file_atomically(path: Path, data: bytes, *, replace: bool) -> None:
    """Write a file by a rename, so that an interruption never leaves a partial file.

    Raises FileExistsError if the path exists and `replace` is false. Raises OSError if writing
    fails.
    """
    name = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        with name.open("xb") as file:
            file.write(data)
            file.flush()
            # Otherwise, after a crash of the system, the new name may be that of an empty file.
            os.fsync(file.fileno())
        if replace:
            os.replace(name, path)
        else:
            rename_new(name, path)
    except BaseException:
        with suppress(OSError):
            name.unlink()
        raise


ENDING = "-exports"


class ExportResult(NamedTuple):
    """The result of an export: the new folder, and the names of its files."""

    folder: Path
    files: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {"output": str(self.folder), "files": self.files}


@checked_arguments
def export(
    folder: str | Path,
    formats: str | Sequence[str],
    *,
    wide: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    output: str | Path | None = None,
    state: RunState | None = None,
) -> ExportResult:
    """Write a release in some formats; return the new folder and the names of its files.

    `formats`: one name or several, such as "csv" and "excel". `wide` names the keys whose values
    become columns; by default the keys that the release declares as `wide`. `languages`: the
    languages of texts, the first of which is that of formats with one language; by default all
    languages of the release. `output` is a new folder; by default a folder next to the release. The
    digests of all files are compared with the manifest before anything is written.

    Raises
    ------
    VerificationError, Findings
        If the folder does not match its manifest; DP-EXPORT-010 if it is a rehearsal, DP-VERIFY-025
        if its manifest is not that of a release of tables or records.
    DeclarationError, Findings
        DP-EXPORT-001 for an unknown format; 002, 003 or 005 if a format is not available for the
        release.
    OutputError
        DP-OUTPUT-011 if there is no such folder; DP-EXPORT-006 or 007 if the new folder exists, or
        lies inside the release; DP-REPORT-003 if the release has no texts in a language; other
        errors as in `claim_target`.
    """
    check_paths(folder, output)
    folder = Path(folder)
    if not folder.is_dir():
        raise OutputError("DP-OUTPUT-011", path=folder)
    given = [formats] if isinstance(formats, str) else list(formats)
    names = [str(format_name(name)) for name in given]
    _refuse_unknown_formats(names)
    state = RunState() if state is None else state
    target = sidecar_path(folder, ENDING) if output is None else Path(output)
    _refuse_target(folder, target)
    record, metadata = checked_release(folder)
    if wide is not None:
        metadata = replace(metadata, wide=tuple(wide))
    if languages is not None:
        metadata = _in_languages(metadata, tuple(dict.fromkeys(languages)))
    ordered = in_order(names)
    if isinstance(record, LocalManifest):
        _refuse_formats(ordered, metadata)
    raise_all(findings(ordered, metadata, Place(), Place()))
    with claim_target(target, False, state) as claim:
        release = PublishedRelease(folder, record.without_exports(), metadata)
        written = write_formats(ordered, release, claim.folder)
        refuse_changed_files(folder, record)
        claim.sync_files()
        claim.publish(state)
    return ExportResult(target, [file.name for part in written for file in part.files])


def _refuse_unknown_formats(names: Sequence[str]) -> None:
    """Raise DP-EXPORT-001 for an unknown format."""
    for name in names:
        if name not in FORMATS:
            close, known = suggest_format(name), ", ".join(FORMATS)
            raise DeclarationError("DP-EXPORT-001", name=name, nearest=close, known=known)


def _in_languages(metadata: Metadata, languages: tuple[str, ...]) -> Metadata:
    """Return metadata with fewer languages; raise DP-REPORT-003 for one that it does not have."""
    for language in languages:
        if language not in metadata.languages:
            known = ", ".join(metadata.languages)
            raise OutputError("DP-REPORT-003", language=language, known=known)
    return replace(metadata, languages=languages)


def _refuse_formats(names: Sequence[str], metadata: Metadata) -> None:
    """Raise DP-EXPORT-004 for a format, or a wide layout, that single records can't have."""
    others = [name for name in names if name not in OF_RECORDS]
    if others or metadata.wide:
        format_ = f"the format {others[0]}" if others else "a wide layout"
        known, what = ", ".join(OF_RECORDS), "The records of single units"
        raise DeclarationError("DP-EXPORT-004", what=what, format=format_, known=known)


def _refuse_target(folder: Path, target: Path) -> None:
    """Raise DP-EXPORT-006 or 007 if the target exists, or lies inside the release."""
    if target.resolve().is_relative_to(folder.resolve()):
        raise OutputError("DP-EXPORT-007", name=target.name)
    if os.path.lexists(target):
        raise OutputError("DP-EXPORT-006", name=target.name or target)


def checked_release(folder: Path) -> tuple[Manifest | LocalManifest, Metadata]:
    """Return the manifest of a release with valid digests, and the metadata of its tables."""
    record = _exportable_manifest(folder)
    report = Report(folder)
    check_files(report, record)
    _raise_findings(report)
    if isinstance(record, LocalManifest):
        metadata = _metadata_of_records(report, record)
    else:
        metadata = _metadata_of_tables(report, record)
    _raise_findings(report)
    if metadata is None:
        raise AssertionError("what has no metadata has findings")
    return record, _with_recorded_rows(metadata, record)


def _metadata_of_records(report: Report, record: LocalManifest) -> Metadata | None:
    """Return the metadata of published records; None, and findings, if they can't be restored."""
    found = resolve_declaration(report, record, LOCAL)
    return None if found is None else record_metadata(found[0])


def _metadata_of_tables(report: Report, record: Manifest) -> Metadata | None:
    """Return the metadata of published tables; None, and findings, if they can't be restored."""
    resolved = resolve_declaration(report, record, CENTRAL)
    if resolved is None:
        return None
    columns = recorded_columns(report, record.measurements, resolved[1])
    families = None if columns is None else recorded_families(report, resolved[0], columns)
    if families is None:
        return None
    return aggregate_metadata(metadata_of(*resolved, families), families, resolved[0].spec.wide)


def _exportable_manifest(folder: Path) -> Manifest | LocalManifest:
    """Return the manifest of a release; raise DP-EXPORT-010 for a rehearsal."""
    try:
        found = read_manifest_as(folder, Manifest, LocalManifest)
        assert isinstance(found, Manifest | LocalManifest)
        return found
    except VerificationError as refused:
        if refused.code != "DP-VERIFY-025" or not isinstance(read_any_manifest(folder), Rehearsal):
            raise
    place = Place(NAME)
    raise VerificationError("DP-EXPORT-010", place=place, state=State.RELEASED)


def refuse_changed_files(folder: Path, record: Manifest | LocalManifest) -> None:
    """Check the files again, as a run may have replaced the release since; raise the findings."""
    report = Report(folder)
    check_files(report, record)
    _raise_findings(report)


def _raise_findings(report: Report) -> None:
    """Raise the findings of a report, if it has findings."""
    if not report.ok:
        raise Findings(report.findings)


def _with_recorded_rows(metadata: Metadata, record: Manifest | LocalManifest) -> Metadata:
    """Return metadata with the noisy numbers of rows that the manifest records."""
    rows = {file.name: file.rows for file in record.files}
    tables = [replace(table, rows=rows.get(table.file, table.rows)) for table in metadata.tables]
    return replace(metadata, tables=tuple(tables))
