"""The manifest of a local release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.documents import manifest
from dprelease.documents.file_records import FileDigest, named_record
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.release_metadata import metadata_of_records
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.rounding import plain_text
from dprelease.planning.local_plan import LocalColumn, LocalPlan, local_reading, one_record
from dprelease.postprocess.record_estimates import estimates_json
from dprelease.query.local_records import Records
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


def build(
    declaration: Declaration,
    plan: LocalPlan,
    digests: Mapping[str, str],
    sizes: Mapping[str, int],
    ledger: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the sealed manifest; digests of files and numbers of records by name."""
    guarantee = plan.guarantee
    metadata = metadata_of_records(declaration, plan.records, sizes)
    record = {
        **manifest.opening(FORMAT, declaration, metadata),
        **manifest.guarantee_record(guarantee),
        "ledger": ledger,
        "composition": manifest.composition(guarantee),
        "reading": local_reading(guarantee),
        "model": MODEL,
        "measurements": [
            measurement(column, sizes[column.query.name]) for column in plan.local_columns
        ],
        "treatments": [treatment(part) for part in plan.records],
        "files": [file_record(table, digests[table.name]) for table in metadata.tables],
        "post_processing": POST_PROCESSING,
        "unprotected_quantities": UNPROTECTED,
    }
    return manifest.with_digest(record)


def measurement(planned: LocalColumn, records: int) -> dict[str, Any]:
    """Return the record of one column: its event, one record's noise, and the law of them all."""
    measurement, law = planned.measurement, planned.mechanism
    if not isinstance(law, Mechanism):
        raise TypeError("records are answered by mechanisms alone")
    return {
        **planned.event.to_json(),
        "step": plain_text(measurement.step),
        "unit": measurement.unit,
        "weight": plain_text(measurement.weight),
        "chosen_by": planned.chosen_by,
        "one_record": one_record(planned),
        "all_records": estimates_json(law, measurement.step, records),
    }


def file_record(told: TableMetadata, digest: str) -> dict[str, Any]:
    """Return the record of one published file; its number of rows is that of the source."""
    return named_record(told.query, told, FileDigest(digest, told.rows or 0))


def treatment(part: Records) -> dict[str, Any]:
    """Return what happens to missing and undeclared values."""
    columns = {}
    for column in part.columns:
        declared = part.declared.table.columns[column.name]
        nulls = getattr(declared, "nulls", DROP)
        if column.key is None:
            columns[column.name] = f"missing: {nulls}; outside the bounds: clamped"
        else:
            others = getattr(declared, "others", nulls)
            columns[column.name] = f"missing: {nulls}; not declared: {others}"
    return {"query": part.name, "rows": "Every record counts.", "columns": columns}
