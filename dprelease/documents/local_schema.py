"""The form of the manifest of a local release."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from dprelease.documents.json_schemas import (
    AboutRecord,
    DeclarationRecord,
    ExportRecord,
    FileRecord,
    GuaranteeRecord,
    LedgerRecord,
    PrivacyParameters,
    RehearsalRecord,
    SensitivityRecord,
    Tool,
    TreatmentRecord,
)
from dprelease.documents.schema_part import Part


class NumberRecord(Part):
    """What the noise does to one number, in the column's unit."""

    lower: str
    upper: str
    bias: float
    expected_absolute_error: float | None
    standard_deviation: float | None
    margin_95: str


class ResponseRecord(Part):
    """The chances that a value is kept, and that it becomes a certain other one."""

    values: int
    keep: float
    other: float


class MeanRecord(Part):
    """The noise in mean and sum of all records; scales are those of stable noise."""

    mean_standard_deviation: float | None
    mean_scale: float | None
    mean_margin_95: float
    sum_standard_deviation: float | None
    sum_scale: float | None
    sum_margin_95: float
    words: str


class FrequencyRecord(Part):
    """The noise in an estimated frequency."""

    standard_error_at_most: float
    words: str


class LocalMeasurementRecord(Part):
    """One noised column: its event, one record's noise, and the law of estimates."""

    query: str
    column: str
    mechanism: str
    parameters: dict[str, str]
    sensitivity: SensitivityRecord
    step: str
    unit: str
    weight: str
    chosen_by: str
    one_record: NumberRecord | ResponseRecord
    all_records: MeanRecord | FrequencyRecord | None


class LocalManifest(Part):
    """The manifest of a local release."""

    format: Literal["dprelease-local-manifest/1"]
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
    model: dict[str, str]
    measurements: list[LocalMeasurementRecord]
    treatments: list[TreatmentRecord]
    files: list[FileRecord]
    exports: list[ExportRecord] = Field(default_factory=list)
    post_processing: list[str]
    unprotected_quantities: list[str]
    digest: str


class LocalRehearsalManifest(LocalManifest):
    """The manifest of a rehearsal of single records, not a release."""

    format: Literal["dprelease-local-rehearsal/1"]  # type: ignore[assignment]
    rehearsal: RehearsalRecord
