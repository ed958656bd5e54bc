"""Write the report on a release after verification; an invalid release gets no report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from dprelease.documents.local_manifest import RecordsManifest
from dprelease.documents.manifest import CentralManifest
from dprelease.documents.metadata import Metadata
from dprelease.documents.party_manifest import FederatedManifest
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.documents.release_metadata import (
    metadata_of,
    metadata_of_messages,
    metadata_of_records,
    metadata_of_sums,
)
from dprelease.errors import OutputError, raise_all
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.exports.export import PublishedRelease
from dprelease.planning.federated_plan import resolve_federated
from dprelease.query.local_records import resolve_records
from dprelease.report.accuracy.rehearsal_errors import TruthFiles
from dprelease.report.facts import Checks, Facts
from dprelease.verification.after_publication.export_copy import (
    sidecar_path,
    write_file_atomically,
)
from dprelease.verification.manifest_comparison import Rehearsal, read_any_manifest
from dprelease.verification.report import rebuild_declaration, referenced_audit
from dprelease.verification.verify import verify

PACKAGES = ("jinja2",)
ENDING = "_report.html"


@checked_arguments
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
        The folder of the release. The report on a rehearsal compares published and true values.
    output
        The path of the HTML file; by default next to the folder.
    language
        The language of labels; by default the first language of the release.
    overwrite
        Whether to replace an existing file.
    ledger, signers
        The ledger and the list of signers for `verify`, which checks the release first.

    Raises
    ------
    OutputError
        DP-OUTPUT-011 if the folder does not exist, DP-OUTPUT-014 if the file exists, DP-OUTPUT-002
        if the file can't be written; DP-REPORT-001 without Jinja2 and Matplotlib, 003 for a
        language that the release does not have, 004 for a file inside the release.
    VerificationError, Findings
        The findings of `verify` on the release, its ledger and its signature.
    """
    check_paths(folder, output, ledger, signers)
    place = Path(folder)
    target = _report_path(place, output)
    if target.exists() and not overwrite:
        raise OutputError("DP-OUTPUT-014", name=target.name, remedy="use --overwrite")
    page = page_of_folder(place, language=language, ledger=ledger, signers=signers)
    try:
        write_file_atomically(target, page, replace=overwrite)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError(
            "DP-OUTPUT-002", name=target.name, reason=reason, refused_by=problem
        ) from None
    return target


def _report_path(folder: Path, output: str | Path | None) -> Path:
    """Return the path of the report; raise DP-REPORT-004 if it lies inside the release."""
    if not folder.is_dir():
        raise OutputError("DP-OUTPUT-011", path=folder)
    if any(find_spec(package) is None for package in PACKAGES):
        raise OutputError("DP-REPORT-001", packages="Jinja2 and Matplotlib")
    whole = folder.resolve()
    target = sidecar_path(folder, ENDING) if output is None else Path(output)
    if not target.name:
        raise OutputError("DP-OUTPUT-014", name=target, remedy="leave it out")
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
    """Return the HTML of the report on a release; parameters and errors as in `write_report`."""
    rehearsed = isinstance(read_any_manifest(folder), Rehearsal)
    checked = verify(folder, ledger=ledger, signers=signers, rehearsal=rehearsed)
    raise_all(checked.findings)
    checked_manifest = checked.sealed  # the file in the folder may have changed since
    assert checked_manifest is not None  # or it would not verify
    release = PublishedRelease(folder, checked_manifest, _table_metadata(checked_manifest, folder))
    known = release.metadata.languages
    if language is not None and language not in known:
        listed = ", ".join(known)
        raise OutputError("DP-REPORT-003", language=language, known=listed)
    checks = Checks(
        tuple(checked.checked), tuple(checked.notes), referenced_audit(checked_manifest, folder)
    )
    other = _page_writer(checked_manifest)
    if other is not None:
        from dprelease.documents.rehearsal_manifest import errors_in

        errors = errors_in(folder) if rehearsed else None
        return other(release, language=language, checks=checks, errors=errors)
    from dprelease.report.page import page_of

    truth = TruthFiles(folder) if rehearsed else None
    return page_of(release, language=language, checks=checks, truth=truth)


def _page_writer(record: ReleaseManifest) -> Callable[..., bytes] | None:
    """Return the function for a page about records or messages; None for a release of tables."""
    if isinstance(record, RecordsManifest):
        from dprelease.report.other_models.record_page import page_of_records

        return page_of_records
    if isinstance(record, CentralManifest):
        return None
    from dprelease.report.other_models.party_page import page_of_messages

    return page_of_messages


def _release_metadata(record: ReleaseManifest, folder: Path) -> Metadata:
    """Return the metadata of a verified release of any kind."""
    if isinstance(record, CentralManifest):
        facts = Facts(record)
        return metadata_of(facts.declaration, tuple(facts.queries.values()), facts.families)
    declaration = rebuild_declaration(record, folder)
    if isinstance(record, RecordsManifest):
        return metadata_of_records(declaration, resolve_records(declaration))
    if isinstance(record, FederatedManifest):
        return metadata_of_messages(declaration, resolve_federated(declaration))
    return metadata_of_sums(declaration, resolve_federated(declaration))


def _table_metadata(record: ReleaseManifest, folder: Path) -> Metadata:
    """Return the metadata of the tables of a verified release, with their numbers of rows."""
    said = _release_metadata(record, folder)
    rows = {file.name: file.rows for file in record.files}
    tables = [replace(table, rows=rows.get(table.file, table.rows)) for table in said.tables]
    return replace(said, tables=tuple(tables))
