"""The report of a verification, and the checks that all kinds of releases have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.audit_record import (
    Audit,
    digest_of_recorded_declaration,
    parse_audit,
)
from dprelease.documents.chosen_limits import read_chosen_limits
from dprelease.documents.encoding import AUDIT, NAME, sha256
from dprelease.documents.limit_records import FOLDER as LIMITS
from dprelease.documents.local_manifest import LocalRehearsalManifest
from dprelease.documents.manifest import CentralManifest, RehearsalManifest
from dprelease.documents.metadata import TableMetadata, field_notes
from dprelease.documents.party_manifest import FederatedRehearsalManifest
from dprelease.documents.rehearsal_manifest import NOTE, NOTED
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import DpReleaseError, Findings, Place, State, VerificationError
from dprelease.errors.argument_types import checked_methods
from dprelease.errors.printable import count_text
from dprelease.planning.kinds import Part, ReleaseKind, kind_of
from dprelease.privacy.guarantee import Guarantee
from dprelease.query.limit_release import limit_release, with_chosen_limits
from dprelease.rehearsal.stand_ins import replace_sources
from dprelease.schema.load import Declaration, declaration_from_texts
from dprelease.schema.release_parts.limit_choice import ChosenLimits
from dprelease.system.files import read_file
from dprelease.system.json_text import MOST_BYTES
from dprelease.system.summaries import Summarized, Summary
from dprelease.tables import formats
from dprelease.tables.field_notes import has_exactly_notes

if TYPE_CHECKING:
    from dprelease.verification.certificate.verdicts import Certificate
    from dprelease.verification.manifest_comparison import AnyManifest
    from dprelease.verification.second_opinion import Opinion

REHEARSALS = (RehearsalManifest, FederatedRehearsalManifest, LocalRehearsalManifest)
"""The manifests of rehearsals."""

Rows = int | Mapping[str, int]
"""The number of rows of a table; for a partitioned table, the number of rows of each part by name,
in order."""


@dataclass(repr=False)
@checked_methods
class Report(Summarized):
    """The result of a verification: its checks, its findings, and the recomputed guarantee."""

    path: Path
    checked: list[str] = field(default_factory=list)
    findings: list[VerificationError] = field(default_factory=list)
    guarantee: Guarantee | None = None
    opinion: Opinion | None = None
    certify: bool = False
    """Whether a certificate is requested."""
    certificate: Certificate | None = None
    signature: dict[str, str] | None = None
    """The checked signature: its key and its principals."""
    notes: list[str] = field(default_factory=list)
    """Notes on items that were not checked."""
    rehearsal: bool = False
    """Whether the folder is a rehearsal, not a release."""
    sealed: AnyManifest | None = None
    """The checked manifest as read; None if it could not be read."""
    name: str = NAME
    """The file that findings refer to."""
    what: str = "release"
    state: State = State.RELEASED

    @property
    def ok(self) -> bool:
        """Return whether there are no findings."""
        return not self.findings

    def _summary(self) -> Summary:
        """Return the findings, or the checks if there are none."""
        rows = [(finding.code, str(finding.place)) for finding in self.findings]
        if self.ok:
            rows = [("checked", text) for text in self.checked]
        state = "ok" if self.ok else count_text(len(self.findings), "finding", "findings")
        return f"Report: {self.path.name}, {state}", ("", ""), rows

    @property
    def guarantee_status(self) -> str:
        """Return whether the guarantee is proved: without a certificate, it is only claimed."""
        if self.certificate is None:
            return "claimed"
        return self.certificate.status

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "ok": self.ok,
            "checked": self.checked,
            "findings": [finding.to_json() for finding in self.findings],
            "guarantee": None if self.guarantee is None else self.guarantee.to_json(),
            "guarantee_status": self.guarantee_status,
            "second_opinion": None if self.opinion is None else self.opinion.to_json(),
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "signature": self.signature,
            "notes": self.notes,
            "rehearsal": self.rehearsal,
        }

    def add_finding(self, code: str, key: str = "", **fields: object) -> None:
        """Add a finding about a key of the manifest."""
        place = Place(self.name, None, key)
        self.findings.append(VerificationError(code, place=place, state=self.state, **fields))


def resolve_declaration(
    report: Report,
    record: ReleaseManifest,
    kind: ReleaseKind[Part],
) -> tuple[Declaration, tuple[Part, ...]] | None:
    """Return the declaration of a manifest, and its queries or records.

    `kind` is the kind of release that has such a manifest. For an invalid declaration the function
    adds a finding and returns None.
    """
    held = record.declaration
    for name, text in held.texts.items():
        if held.sha256.get(name) != sha256(text.encode()):
            report.add_finding("DP-VERIFY-002", problem="a declared text has another digest")
            return None
    try:
        declaration = rebuild_declaration(record, report.path)
        if isinstance(report.sealed, REHEARSALS):  # its statements are about what it read
            stand_ins = report.sealed.rehearsal.stand_ins
            named = {one.table: one.file for one in stand_ins if one.file}
            files = {table: Path(file) for table, file in named.items()}
            declaration = replace_sources(declaration, files)
        # The names come from an untrusted manifest.
        if not set(held.replaced_sources) <= declaration.tables.keys():
            report.add_finding("DP-VERIFY-009", why="a replaced source is that of no table")
            return None
        if any(_is_wrong_version(declaration, *one) for one in declaration.table_versions.items()):
            report.add_finding("DP-VERIFY-009", why="a table has another version than declared")
            return None
        if kind_of(declaration.spec) is kind:
            return declaration, kind.resolve(declaration)
        report.add_finding("DP-VERIFY-009", why=kind.mode_problem)
    except DpReleaseError as error:
        # Only the code: the message could repeat texts of an untrusted declaration.
        code = error.errors[0].code if isinstance(error, Findings) else error.code
        report.add_finding("DP-VERIFY-009", why=code)
    except KeyError:
        report.add_finding("DP-VERIFY-009", why="a file is missing")
    return None


def _is_wrong_version(declaration: Declaration, name: str, version: int) -> bool:
    """Return whether the declaration has no such table, or declares another version of it."""
    declared = declaration.tables.get(name)
    source = None if declared is None else declared.table.source
    if source is None or source.type.version_key is None:
        return True
    return source.table_version not in (None, version)


def rebuild_declaration(record: ReleaseManifest, folder: Path) -> Declaration:
    """Return the declaration of a manifest, from its texts and the copied files in its folder.

    Raises KeyError if a text is missing. Raises DpReleaseError if the declaration is invalid.
    """
    held = record.declaration
    declared = declaration_from_texts(
        held.texts, held.release, held.variables, held.file_copies, folder
    )
    sources = tuple(held.replaced_sources)
    versions = {name: int(version) for name, version in held.table_versions.items()}
    declared = replace(
        declared,
        audit=audit_bytes(record, folder),
        replaced_sources=sources,
        table_versions=versions,
    )
    if declared.choices is None:
        return declared
    if held.chooses is not None:
        return limit_release(declared)
    chosen = _chosen_limits(declared, record, folder)
    return declared if chosen is None else with_chosen_limits(declared, chosen)


def declares_choices(record: ReleaseManifest, folder: Path) -> bool:
    """Return whether the declaration of a manifest chooses limits privately; False if invalid."""
    try:
        return rebuild_declaration(record, folder).choices is not None
    except (DpReleaseError, KeyError):
        return False


def _chosen_limits(
    declared: Declaration, record: ReleaseManifest, folder: Path
) -> ChosenLimits | None:
    """Return the limits in the folder of a release that records some; None if they can't be read.

    The manifest is then rebuilt without them, and differs.
    """
    if not isinstance(record, CentralManifest) or record.limits is None:
        return None
    try:
        return read_chosen_limits(declared, folder / LIMITS)
    except (OSError, ValueError):
        return None


def is_published_table(
    folder: Path,
    table_metadata: TableMetadata,
    rows: Rows,
    note: str = "",
    *,
    rehearsal: bool = False,
) -> bool:
    """Return whether the file of a table has its columns, their notes and this number of rows.

    `note` is the expected note in the metadata of the file; it may have no other metadata. Tables
    of a `rehearsal` must be marked as such.
    """
    path = folder / table_metadata.file
    if isinstance(rows, int):
        return _is_table_file(path, table_metadata, rows, note, rehearsal=rehearsal)
    try:
        there = [part.relative_to(path).as_posix() for part in formats.part_files(path)]
    except OSError:
        return False
    return there == list(rows) and all(
        _is_table_file(path / name, table_metadata, number, note, rehearsal=rehearsal)
        for name, number in rows.items()
    )


def _is_table_file(
    path: Path, table_metadata: TableMetadata, rows: int, note: str, *, rehearsal: bool
) -> bool:
    import pyarrow as pa

    try:
        if not path.is_file():
            return False
        schema, there = formats.PUBLISHED_FORMAT.shape(path)
        written = [(column.name, str(column.type)) for column in schema]
        notes = {b"dprelease": note.encode()} if note else {}
        notes |= {NOTED.encode(): NOTE.encode()} if rehearsal else {}
        return (
            written == [(column.name, column.kind) for column in table_metadata.columns]
            and there == rows
            and has_exactly_notes(schema, field_notes(table_metadata))
            and formats.PUBLISHED_FORMAT.notes(path) == notes
        )
    except (OSError, UnicodeDecodeError, pa.ArrowException):  # Arrow decodes names of columns
        return False


def audit_bytes(record: ReleaseManifest, folder: Path) -> bytes | None:
    """Return the bytes of the audit that a manifest names; None if there is no such file."""
    if record.declaration.audit is None:
        return None
    try:
        return read_file(folder / AUDIT, MOST_BYTES)
    except OSError:
        return None


def referenced_audit(record: ReleaseManifest, folder: Path) -> Audit | None:
    """Return the audit that a verified release names; None if it names no audit."""
    raw = audit_bytes(record, folder)
    return None if raw is None else parse_audit(raw)


def audit_problem(record: ReleaseManifest, folder: Path) -> str:
    """Return why the audit that a manifest names is not valid evidence; empty if it is.

    The digest of its file is checked together with the digests of all files.
    """
    raw = audit_bytes(record, folder)
    if raw is None:
        return ""  # the missing file is reported already
    try:
        audit = parse_audit(raw)
    except ValueError as problem:
        return str(problem)
    if audit.declaration != digest_of_recorded_declaration(record.declaration):
        return "it is about another declaration"
    if not (audit.holds and audit.whole and audit.complete):
        return "it was incomplete, or found a claim that does not hold"
    return ""


def audit_text(record: ReleaseManifest, folder: Path) -> str:
    """Return a text on the comparisons of the named audit."""
    audit = parse_audit(audit_bytes(record, folder) or b"")
    pairs = sum(one.pairs for one in audit.sensitivities)
    measured = count_text(len(audit.sensitivities), "measurement", "measurements")
    return (
        f"it names an audit of this declaration by dprelease {audit.version}, in which all held: "
        f"{measured} on {count_text(pairs, 'pair', 'pairs')} of neighbours"
    )
