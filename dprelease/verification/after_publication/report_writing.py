"""Writes the report on a release, which is verified first: what does not hold is not told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dprelease.documents import manifest
from dprelease.documents.described import metadata_of
from dprelease.documents.metadata import Metadata
from dprelease.documents.rehearsal_manifest import FORMAT as REHEARSAL
from dprelease.errors import OutputError, raise_all
from dprelease.exports.export import PublishedRelease
from dprelease.report.accuracy.truth_files import TruthFiles
from dprelease.report.facts import Facts
from dprelease.report.source import Checks
from dprelease.verification.after_publication.written_beside import beside, write_whole
from dprelease.verification.named_audits import named_audit
from dprelease.verification.sealed import read_sealed
from dprelease.verification.verify import verify

PACKAGES = ("jinja2", "matplotlib")
ENDING = "_report.html"


def write_report(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    language: str | None = None,
    overwrite: bool = False,
    ledger: str | Path | None = None,
    signers: str | Path | None = None,
) -> Path:
    """Write the report on a release as one HTML file, and return its path.

    Parameters
    ----------
    folder
        Of the release. A rehearsal's report compares published values with true ones.
    output
        The file; beside the folder by default.
    language
        That of labels; by default the first one of the release.
    overwrite
        Whether a file that is there is replaced.
    ledger, signers
        As for `verify`, which checks the release first.

    Raises
    ------
    OutputError
        DP-OUTPUT-011 if there is no such folder, DP-OUTPUT-014 if the file is there, DP-OUTPUT-002
        if it can't be written; DP-REPORT-001 without Jinja2 and Matplotlib, 002 for releases
        without tables, 003 for a language that the release does not have, 004 for a file inside of
        the release.
    VerificationError, Findings
        What is wrong with the release; as `verify` with a ledger or signers.
    """
    place = Path(folder)
    target = _target(place, output)
    if target.exists() and not overwrite:
        raise OutputError("DP-OUTPUT-014", name=target.name)
    page = page_of_folder(place, language=language, ledger=ledger, signers=signers)
    try:
        write_whole(target, page, replace=overwrite)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError("DP-OUTPUT-002", name=target.name, reason=reason) from None
    return target


def _target(folder: Path, output: str | Path | None) -> Path:
    """Return where the report goes, which is not into the release."""
    if not folder.is_dir():
        raise OutputError("DP-OUTPUT-011", path=folder)
    if any(find_spec(package) is None for package in PACKAGES):
        raise OutputError("DP-REPORT-001", packages="Jinja2 and Matplotlib")
    whole = folder.resolve()
    target = beside(folder, ENDING) if output is None else Path(output)
    if target.resolve().is_relative_to(whole):
        raise OutputError("DP-REPORT-004", name=target.name)
    return target


def page_of_folder(
    folder: Path,
    *,
    language: str | None = None,
    ledger: str | Path | None = None,
    signers: str | Path | None = None,
) -> bytes:
    """Return the report on a release; parameters and errors as those of `write_report`."""
    from dprelease.report.page import page_of

    record = read_sealed(folder)
    rehearsed = record["format"] == REHEARSAL
    checked = verify(folder, ledger=ledger, signers=signers, rehearsal=rehearsed)
    raise_all(checked.findings)
    if not rehearsed and record["format"] != manifest.FORMAT:
        raise OutputError("DP-REPORT-002", name=folder.name, what="records or messages")
    release = PublishedRelease(folder, record, _metadata(record))
    known = release.metadata.languages
    if language is not None and language not in known:
        listed = ", ".join(known)
        raise OutputError("DP-REPORT-003", language=language, known=listed)
    return page_of(
        release,
        language=language,
        checks=Checks(tuple(checked.checked), tuple(checked.notes), named_audit(record, folder)),
        truth=TruthFiles(folder) if rehearsed else None,
    )


def _metadata(record: Mapping[str, Any]) -> Metadata:
    """Return what is said of a verified release's tables, with their numbers of rows."""
    facts = Facts(record)
    said = metadata_of(facts.declaration, tuple(facts.queries.values()), facts.families)
    rows = {file["name"]: file["rows"] for file in record["files"]}
    tables = [replace(table, rows=rows.get(table.file, table.rows)) for table in said.tables]
    return replace(said, tables=tuple(tables))
