"""The form of the manifest of one party's messages."""

from __future__ import annotations

from typing import Literal

from dprelease.documents.json_schemas import (
    AboutRecord,
    DeclarationRecord,
    FileRecord,
    GuaranteeRecord,
    SensitivityRecord,
    Tool,
    TreatmentRecord,
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


class FederatedManifest(Part):
    """The manifest of one party's messages."""

    format: Literal["dprelease-federated-manifest/1"]
    title: str
    about: AboutRecord | None = None
    tool: Tool
    declaration: DeclarationRecord
    dp_variant: Literal["pure", "approximate"]
    party: int
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
