"""JSON Schemas of all documents: `python -m dprelease.documents.json_schemas FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from dprelease.documents.audits.audit_record import Audit
from dprelease.documents.consistency_schema import ConsistencyRecord
from dprelease.documents.schema_part import Part
from dprelease.schema import json_schema

Texts = dict[str, str]
RoleName = Literal[
    "key", "value", "margin", "lower", "upper", "standard_error", "flag", "label", "measurement"
]


class Tool(Part):
    """The tool and what it ran on."""

    name: str
    version: str
    dependencies: dict[str, str]


class KeptRecord(Part):
    """A file that the release was declared with: its form, digest and number of bytes."""

    form: Literal["csv", "parquet"]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: int


class NamedAudit(Part):
    """The outcome of an audit of the declaration, which stands beside the manifest."""

    file: Literal["audit.json"]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class DeclarationRecord(Part):
    """Every text that the release was declared with, and its digest; the values of variables.

    `files`: those that are no texts; a copy of each is in the folder `declaration`. `audit`: one
    that the release names.
    """

    release: str
    texts: dict[str, str]
    sha256: dict[str, str]
    variables: dict[str, str] = Field(default_factory=dict)
    files: dict[str, KeptRecord] = Field(default_factory=dict)
    audit: NamedAudit | None = None


class AboutRecord(Part):
    """What readers are told of a release as a whole; texts are by language."""

    languages: list[str]
    titles: Texts = Field(default_factory=dict)
    description: Texts = Field(default_factory=dict)
    publisher: str | None = None
    contact: str | None = None
    licence: str | None = None
    period: str | None = None
    area: str | None = None
    version: str | None = None
    replaces: str | None = None
    methodology: str | None = None
    notes: list[Texts] = Field(default_factory=list)


class PrivacyParameters(Part):
    """Epsilon and delta as decimal texts."""

    epsilon: str
    delta: str


class GuaranteeRecord(PrivacyParameters):
    """The guarantee and how it was composed."""

    neighbours: Literal["add_remove", "replace"]
    accountant: Literal["pure", "pld", "zcdp"]
    pure_epsilon: str | None
    rho: str | None
    invariants: list[str] = Field(default_factory=list)
    holds: str | None = None


class MoveRecord(Part):
    """`cells` cells, each moved by at most `shift` steps."""

    shift: int
    cells: int | None


class SensitivityRecord(Part):
    """At most `slots` parts, each one of `moves`.

    `meeting`: in truth as many times fewer, of which up to `meeting` may touch the same cells; that
    costs no more.
    """

    slots: int
    moves: list[MoveRecord]
    meeting: int = 1


class MeasurementRecord(Part):
    """One noisy vector: its event, its sensitivity and its errors."""

    query: str
    column: str
    mechanism: str
    parameters: dict[str, str]
    sensitivity: SensitivityRecord
    sensitivity_derivation: str
    aggregate: str
    cells: int | None
    step: str
    unit: str
    error_unit: str
    weight: str
    chosen_by: str
    bias: float
    expected_absolute_error: float | None
    standard_deviation: float | None
    margin_95: str


class ExactRecord(Part):
    """One vector without noise, outside the guarantee: an invariant, or a sum of one."""

    query: str
    column: str
    exact: Literal["declared", "implied"]
    name: str
    cells: int
    step: str


class ColumnRecord(Part):
    """Name, Arrow type and role of a published column, and what readers are told of it.

    `of`: the column that it stands beside. Texts are by language.
    """

    name: str
    type: str
    role: RoleName
    of: str | None = None
    unit: str | None = None
    decimals: int | None = None
    label: Texts = Field(default_factory=dict)
    description: Texts = Field(default_factory=dict)
    footnotes: list[Texts] = Field(default_factory=list)


class PartRecord(Part):
    """One file of a table in parts, by its name in the table's folder."""

    name: str
    rows: int
    sha256: str


class FileRecord(Part):
    """One published table: a file, or a folder of `parts`.

    `sha256`: of the file's bytes; of parts that of their list, a line for each: its digest, two
    spaces and its name.
    """

    name: str
    query: str
    rows: int
    label: Texts = Field(default_factory=dict)
    description: Texts = Field(default_factory=dict)
    footnotes: list[Texts] = Field(default_factory=list)
    columns: list[ColumnRecord]
    computed: dict[str, str] = Field(default_factory=dict)
    post_processing: dict[str, list[str]] = Field(default_factory=dict)
    sha256: str
    parts: list[PartRecord] = Field(default_factory=list)


class UnitRecord(Part):
    """The privacy unit of one query."""

    query: str
    table: str
    id: str | None
    max_groups: int
    max_rows_per_group: int
    neighbours: Literal["add_remove", "replace"]
    words: str


class TreatmentRecord(Part):
    """Which rows of one query count, what becomes of values, and what is joined.

    Of a family whose tables agree the same rows count in every table, whatever keys it has.
    """

    query: str
    rows: str
    columns: dict[str, str]
    join: str | None = None


class FamilyRecord(Part):
    """Tables that are published together: their measurements, and what a step computed of them."""

    name: str
    step: str
    tables: list[str]
    measurements: list[str]
    published: list[str]
    record: ConsistencyRecord | dict[str, Any]


class BudgetRecord(Part):
    """A budget of a ledger: an epsilon, maybe at a delta, or a rho."""

    epsilon: str | None
    delta: str
    rho: str | None


class RenewalRecord(Part):
    """The period that a charge is in, of a budget that renews, and what that means for a person."""

    table: str
    budget: BudgetRecord
    every: Literal["month", "year"]
    begins: str
    periods: int | None
    period: int
    from_: str = Field(alias="from")
    until: str
    words: str


class LedgerRecord(Part):
    """The entry of the ledger that paid for the release."""

    file: str
    reservation: str
    entry: int
    digest: str
    renewals: list[RenewalRecord] = Field(default_factory=list)


class ExportedFile(Part):
    """One file of a format beside Parquet."""

    name: str
    sha256: str


class ExportRecord(Part):
    """A format that the tables were written in as well; versions of packages that shape it."""

    format: str
    files: list[ExportedFile]
    packages: dict[str, str]


class Manifest(Part):
    """The manifest of a release."""

    format: Literal["dprelease-manifest/1"]
    title: str
    about: AboutRecord | None = None
    tool: Tool
    declaration: DeclarationRecord
    dp_variant: Literal["pure", "approximate", "zero_concentrated"]
    privacy_parameters: PrivacyParameters
    guarantee: GuaranteeRecord
    ledger: LedgerRecord | None
    composition: str
    reading: dict[str, Any]
    privacy_unit: list[UnitRecord]
    measurements: list[MeasurementRecord]
    invariants: list[ExactRecord] = Field(default_factory=list)
    treatments: list[TreatmentRecord]
    families: list[FamilyRecord] = Field(default_factory=list)
    files: list[FileRecord]
    exports: list[ExportRecord] = Field(default_factory=list)
    post_processing: list[str]
    unprotected_quantities: list[str]
    digest: str


class StandInRecord(Part):
    """What stood in for the source of a table: invented rows, or a public file."""

    table: str
    by: Literal["invention", "public"]
    rows: int | None = None
    file: str | None = None
    sha256: str | None = None


class TruthRecord(Part):
    """One file of true answers, of their errors, or of invented rows."""

    name: str
    rows: int
    sha256: str


class RehearsalRecord(Part):
    """What makes a rehearsal of it: who stood in for the people, and what is true of them."""

    words: str
    stand_ins: list[StandInRecord]
    truth: list[TruthRecord]


class RehearsalManifest(Manifest):
    """The manifest of a rehearsal, not a release."""

    format: Literal["dprelease-rehearsal/1"]  # type: ignore[assignment]
    rehearsal: RehearsalRecord


def forms() -> dict[str, type[BaseModel]]:
    """Return the models of all documents, by name."""
    from dprelease.documents.local_schema import LocalManifest, LocalRehearsalManifest
    from dprelease.documents.outcomes.attack_outcome import AttackOutcome
    from dprelease.documents.party_schema import FederatedManifest, FederatedRehearsalManifest

    return {
        **json_schema.DOCUMENTS,
        "manifest": Manifest,
        "local_manifest": LocalManifest,
        "federated_manifest": FederatedManifest,
        "rehearsal_manifest": RehearsalManifest,
        "local_rehearsal_manifest": LocalRehearsalManifest,
        "federated_rehearsal_manifest": FederatedRehearsalManifest,
        "attack": AttackOutcome,
        "audit": Audit,
    }


def render_schema(name: str) -> str:
    """Return the JSON Schema of a document by its name, as text."""
    return json_schema.render(name, forms()[name])


def write(folder: Path) -> None:
    """Write the schemas of tables, releases and manifests."""
    for name in forms():
        (folder / f"{name}.schema.json").write_text(render_schema(name), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
