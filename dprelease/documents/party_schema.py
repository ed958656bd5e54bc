"""The form of the manifest of one party's messages."""

from __future__ import annotations

from typing import Literal

from dprelease.documents.json_schemas import (
    AboutRecord,
    DeclarationRecord,
    FileRecord,
    GuaranteeRecord,
    RehearsalRecord,
    SensitivityRecord,
    Tool,
    TreatmentRecord,
    TruthRecord,
    UnitRecord,
)
from dprelease.documents.schema_part import Part


class TrustRecord(Part):
    """What holds for a number of honest parties."""

    honest: int
    guarantee: GuaranteeRecord
    rounding_epsilon: float


class ShareRecord(Part):
    """One column of messages: a share of the noise, and the noise of the sum."""

    query: str
    column: str
    mechanism: Literal["symmetric_alpha_stable"]
    parameters: dict[str, str]
    sensitivity: SensitivityRecord
    aggregate: str
    refined: int
    step: str
    unit: str
    chosen_by: str
    sum_scale: str
    sum_margin_95: str
    largest: str


class FederatedRelease(Part):
    """What the parties of a release have in common."""

    format: str
    title: str
    about: AboutRecord | None = None
    tool: Tool
    declaration: DeclarationRecord
    dp_variant: Literal["pure", "approximate"]
    parties: int
    honest: int
    trust: list[TrustRecord]
    trust_words: list[str]
    privacy_unit: list[UnitRecord]
    treatments: list[TreatmentRecord]
    measurements: list[ShareRecord]
    files: list[FileRecord]
    post_processing: list[str]
    unprotected_quantities: list[str]
    digest: str


class FederatedManifest(FederatedRelease):
    """The manifest of one party's messages."""

    format: Literal["dprelease-federated-manifest/1"]
    party: int


class PartiesRecord(RehearsalRecord):
    """What makes a rehearsal of all parties' releases, and what each of them sends."""

    messages: list[TruthRecord]


class FederatedRehearsalManifest(FederatedRelease):
    """The manifest of a rehearsal of all parties, whose files are the sums of their messages."""

    format: Literal["dprelease-federated-rehearsal/1"]
    rehearsal: PartiesRecord
