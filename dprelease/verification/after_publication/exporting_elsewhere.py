"""Writes a published release in other formats, outside of its folder, which stays as it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dprelease.documents import manifest
from dprelease.documents.metadata import Metadata
from dprelease.errors import (
    Findings,
    OutputError,
    Place,
    RunState,
    raise_all,
)
from dprelease.exports.export import PublishedRelease
from dprelease.exports.known import findings
from dprelease.exports.told import told_metadata
from dprelease.exports.written import write_formats
from dprelease.query.resolve import resolve
from dprelease.release.folder import claimed
from dprelease.schema.release_parts.format_names import in_order
from dprelease.verification.after_publication.written_beside import beside
from dprelease.verification.central import recorded_columns, recorded_families
from dprelease.verification.exported import KEY
from dprelease.verification.report import Report, resolved_again
from dprelease.verification.sealed import read_sealed
from dprelease.verification.verify import check_files

ENDING = "-exports"


def export(
    folder: Path,
    names: Sequence[str],
    *,
    wide: Sequence[str] | None = None,
    output: Path | None = None,
    state: RunState | None = None,
) -> tuple[Path, list[str]]:
    """Write a release in some formats; return the new folder and the names of its files.

    `wide`: keys whose values become columns; those that the release declares by default. `output`:
    a folder that is not there yet; beside the release's by default. The manifest's digests of all
    files are compared first.

    Raises
    ------
    VerificationError, Findings
        If the folder is not what its manifest says; DP-VERIFY-025 if it is no release of tables.
    DeclarationError, Findings
        DP-EXPORT-002, 003 or 005 if a format can't be had of it.
    OutputError
        DP-EXPORT-006 or 007 if the folder is there, or lies inside of the release; as `claimed`.
    """
    state = RunState() if state is None else state
    target = beside(folder, ENDING) if output is None else output
    _refuse_target(folder, target)
    record, metadata = _told(folder)
    if wide is not None:
        metadata = replace(metadata, wide=tuple(wide))
    ordered = in_order(names)
    raise_all(findings(ordered, metadata, Place(), Place()))
    told = {name: part for name, part in record.items() if name not in (KEY, "digest")}
    with claimed(target, False, state) as claim:
        release = PublishedRelease(folder, told, metadata)
        written = write_formats(ordered, release, claim.folder)
        _refuse_change(folder, record)
        claim.store()
        claim.publish(state)
    return target, [file["name"] for part in written for file in part["files"]]


def _refuse_target(folder: Path, target: Path) -> None:
    """Raise DP-EXPORT-006 or 007 for a folder that can't be written."""
    if target.resolve().is_relative_to(folder.resolve()):
        raise OutputError("DP-EXPORT-007", name=target.name)
    if os.path.lexists(target):
        raise OutputError("DP-EXPORT-006", name=target.name or target)


def _told(folder: Path) -> tuple[dict[str, Any], Metadata]:
    """Return a release's manifest, whose digests hold, and what is said of its tables."""
    record = read_sealed(folder, manifest.FORMAT)
    report = Report(folder)
    check_files(report, record)
    _refuse(report)
    resolved = resolved_again(
        report,
        record,
        declares=lambda d: d.spec.mode == "central" and d.spec.federated is None,
        other="it declares another mode",
        resolve=resolve,
    )
    columns = None if resolved is None else recorded_columns(report, record, resolved[1])
    if resolved is not None and columns is not None:
        families = recorded_families(report, resolved[0], columns)
        if families is not None and report.ok:
            return record, _with_rows(told_metadata(*resolved, families), record)
    _refuse(report)
    raise AssertionError("what has no metadata has findings")


def _refuse_change(folder: Path, record: dict[str, Any]) -> None:
    """Raise what `check_files` finds by now: a run may have put another release in its place."""
    report = Report(folder)
    check_files(report, record)
    _refuse(report)


def _refuse(report: Report) -> None:
    if not report.ok:
        raise Findings(report.findings)


def _with_rows(metadata: Metadata, record: Mapping[str, Any]) -> Metadata:
    """Return metadata in which the numbers of rows are known that were noised."""
    rows = {file["name"]: file["rows"] for file in record["files"]}
    tables = [replace(table, rows=rows.get(table.file, table.rows)) for table in metadata.tables]
    return replace(metadata, tables=tuple(tables))
