"""The manifest of a local release, which publishes single records, each with its own noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dprelease.documents.file_records import FileDigest, FileRecord, LedgerRecord, file_record
from dprelease.documents.rehearsal_manifest import OF_RECORDS, RehearsalRecord
from dprelease.documents.release_manifest import (
    GuaranteedManifest,
    GuaranteeRecord,
    NoiseRecord,
    ReadingRecord,
    Variant,
    composition_text,
    first_keys,
)
from dprelease.documents.release_metadata import metadata_of_records
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.rounding import plain_text
from dprelease.planning.local_plan import (
    LocalColumn,
    LocalPlan,
    local_interpretation_of,
    record_noise_json,
)
from dprelease.planning.treatments import (
    TreatmentRecord,
    missing_codes_text,
    replaced_codes_text,
)
from dprelease.postprocess.record_estimates import estimates_json
from dprelease.query.local_records import Records
from dprelease.schema.document_part import Part
from dprelease.schema.field_types import DROP
from dprelease.schema.load import Declaration

FORMAT = "dprelease-local-manifest/1"

MODEL = {
    "unit": (
        "The privacy unit is one record. Neighbouring tables differ in the values of one record, "
        "in any of its columns: a record may be replaced by any other."
    ),
    "noise": "Noise is added to every record before anything is counted or summed.",
    "number_of_records": "The exact number of records of the source is published.",
    "order": (
        "Records are published in a random order: every order is equally likely, whatever order "
        "the source has."
    ),
    "columns": "Columns that are not declared for publication are not read.",
}
POST_PROCESSING = [
    "Noise and noised numbers are limited to 2^62 steps, for any data.",
    "The mean of asymmetric noise, rounded to the nearest step, is subtracted; `bias` is the rest.",
    "Published numbers are exact multiples of the declared step.",
]
UNPROTECTED = [
    # Neighbouring tables have the same number of records, so that number has no noise.
    "That a record is in the data, and the number of records.",
    "Several records about the same person: their guarantees add up.",
    "How long the run took, how much memory it used, and whether it ran out of resources.",
    "Effects of a wrong declaration: values or bounds that were taken from the data.",
    "Other releases about the same records: their guarantees add to this one.",
    "CSV records that break their format, empty lines of CSV files, and rows of Excel sheets "
    "without any value: they are left out, so their number is revealed; a quote that is never "
    "closed hides other records.",
    "Facts about a record that can be inferred from others, for example by a statistical model.",
]


class NumberRecord(Part):
    """The effect of the noise on one number, in the column's unit."""

    lower: str
    upper: str
    bias: float
    expected_absolute_error: float | None
    standard_deviation: float | None
    margin_95: str


class ResponseRecord(Part):
    """The probability that a value is unchanged, and that it becomes a certain other value."""

    values: int
    keep: float
    other: float


class MeanRecord(Part):
    """The noise in mean and sum of all records; scales are those of stable distributions."""

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


class LocalMeasurementRecord(NoiseRecord):
    """One noised column: its event, the noise of one record, and the distribution of estimates."""

    weight: str
    one_record: NumberRecord | ResponseRecord
    all_records: MeanRecord | FrequencyRecord | None


class RecordsManifest(GuaranteedManifest):
    """The manifest of single records, of a release or of a rehearsal."""

    dp_variant: Variant
    model: dict[str, str]
    measurements: list[LocalMeasurementRecord]
    files: list[FileRecord]


class LocalManifest(RecordsManifest):
    """The manifest of a local release."""

    format: Literal["dprelease-local-manifest/1"]


class LocalRehearsalManifest(RecordsManifest):
    """The manifest of a rehearsal of single records, which is not a release."""

    format: Literal["dprelease-local-rehearsal/1"]
    rehearsal: RehearsalRecord

    @classmethod
    def of(cls, release: LocalManifest, rehearsal: RehearsalRecord) -> LocalRehearsalManifest:
        """Return the manifest of a rehearsal, from the manifest of the rehearsed release."""
        return release.as_form(cls, format=OF_RECORDS, rehearsal=rehearsal)

    @property
    def release(self) -> LocalManifest:
        """Return the manifest of the release that was rehearsed."""
        return self.as_form(LocalManifest, format=FORMAT)


def build(
    declaration: Declaration,
    plan: LocalPlan,
    written: Mapping[str, FileDigest],
    ledger: LedgerRecord | None = None,
) -> LocalManifest:
    """Return the sealed manifest; `written` has digests and numbers of records by name."""
    sizes = {name: file.rows for name, file in written.items()}
    metadata = metadata_of_records(declaration, plan.records, sizes)
    guarantee = GuaranteeRecord.of(plan.guarantee)
    fields = {
        **first_keys(FORMAT, declaration, metadata),
        "privacy_parameters": guarantee.parameters,
        "guarantee": guarantee,
        "ledger": ledger,
        "composition": composition_text(plan.guarantee),
        "reading": ReadingRecord.model_validate(local_interpretation_of(plan.guarantee)),
        "model": MODEL,
        "measurements": [
            measurement_record(column, sizes[column.query.name]) for column in plan.local_columns
        ],
        "treatments": [treatment_record(part) for part in plan.records],
        "files": [
            file_record(table.query, table, written[table.name]) for table in metadata.tables
        ],
        "post_processing": POST_PROCESSING,
        "unprotected_quantities": UNPROTECTED,
    }
    return LocalManifest.model_validate(fields).sealed()


def measurement_record(planned: LocalColumn, records: int) -> LocalMeasurementRecord:
    """Return the record of one column: its event, one record's noise, the noise of estimates."""
    measurement, mechanism = planned.measurement, planned.mechanism
    if not isinstance(mechanism, Mechanism):
        raise TypeError("records are answered by mechanisms alone")
    return LocalMeasurementRecord.model_validate(
        {
            **planned.event.to_json(),
            "step": plain_text(measurement.step),
            "unit": measurement.unit,
            "weight": plain_text(measurement.weight),
            "chosen_by": planned.chosen_by,
            "one_record": record_noise_json(planned),
            "all_records": estimates_json(mechanism, measurement.step, records),
        }
    )


def treatment_record(part: Records) -> TreatmentRecord:
    """Return the treatment of missing and undeclared values."""
    columns = {}
    for column in part.columns:
        declared = part.declared.table.columns[column.name]
        fill = getattr(declared, "fill", DROP)
        if column.key is None:
            columns[column.name] = f"missing: {fill}; outside the bounds: clamped"
        else:
            others = getattr(declared, "others", fill)
            columns[column.name] = f"missing: {fill}; not declared: {others}"
        name, table = getattr(declared, "cut", column.name), part.declared.table
        for text in (
            missing_codes_text(table.columns[name]),
            replaced_codes_text(table.source, name),
        ):
            columns[column.name] += f"; {text}" if text else ""
    return TreatmentRecord(query=part.name, rows="Every record counts.", columns=columns)
