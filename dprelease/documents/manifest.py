"""The manifest of tables: what was published, under which guarantee, and how to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from dprelease.documents.file_records import (
    FamilyRecord,
    FileDigest,
    LedgerRecord,
    TableRecord,
    family_records,
    table_records,
)
from dprelease.documents.limit_records import COMPOSITION, LimitsRecord, limits_record
from dprelease.documents.metadata import Metadata
from dprelease.documents.rehearsal_manifest import FORMAT as REHEARSAL
from dprelease.documents.rehearsal_manifest import RehearsalRecord
from dprelease.documents.release_manifest import (
    GuaranteedManifest,
    GuaranteeRecord,
    NoiseRecord,
    ReadingRecord,
    UnitRecord,
    Variant,
    composition_text,
    first_keys,
    unit_record,
)
from dprelease.numerics.rounding import finite, plain_text
from dprelease.planning.bounded_words import measured_value_text
from dprelease.planning.guarantees import interpretation_of
from dprelease.planning.invariant_plans import invariant_name
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.planning.treatments import (
    DifferentlyBoundedRecord,
    bounding_records,
    treatment_record,
)
from dprelease.postprocess.families import Family
from dprelease.privacy.guarantee import Guarantee
from dprelease.schema.document_part import Part
from dprelease.schema.load import Declaration

FORMAT = "dprelease-manifest/1"

UNPROTECTED = [
    "How long the run took, how much memory it used, and whether it ran out of resources.",
    "Effects of a wrong declaration: keys, bounds or public tables taken from the data, ids that "
    "do not identify the privacy unit.",
    "Other releases about the same privacy units: their guarantees add to this one.",
    "CSV sources with quotes that are never closed, with texts that contain line breaks outside "
    "quotes, or with records above 64 MB: these hide or add rows of other privacy units.",
    "Failures of the engine on sources that violate their format, such as text that is not UTF-8 "
    "in a Parquet file.",
    "Facts about a privacy unit that can be inferred from others, for example by a statistical "
    "model.",
]
POST_PROCESSING = [
    "Noise and noised values are limited to 2^62 steps, for any data.",
    "The mean of asymmetric noise, rounded to the nearest step, is subtracted; `bias` is the rest.",
    "Published values are exact multiples of the declared step.",
]


class MeasurementRecord(NoiseRecord):
    """One noisy vector: its event, its sensitivity and its errors."""

    sensitivity_derivation: str
    aggregate: str
    cells: int | None
    error_unit: str
    weight: str
    bias: float
    expected_absolute_error: float | None
    standard_deviation: float | None
    margin_95: str


class ExactRecord(Part):
    """One vector without noise, outside the guarantee: an invariant, or a sum of invariants."""

    query: str
    column: str
    exact: Literal["declared", "implied"]
    name: str
    cells: int
    step: str


class CentralManifest(GuaranteedManifest):
    """The manifest of tables, of a release or of a rehearsal."""

    dp_variant: Variant
    privacy_unit: list[UnitRecord]
    differently_bounded: list[DifferentlyBoundedRecord] = Field(default_factory=list)
    measurements: list[MeasurementRecord]
    invariants: list[ExactRecord] = Field(default_factory=list)
    families: list[FamilyRecord] = Field(default_factory=list)
    files: list[TableRecord]
    limits: LimitsRecord | None = None

    @property
    def noise_of_all(self) -> Sequence[NoiseRecord]:
        """Return the noise of all vectors, with that of the limits that were chosen before them."""
        chosen = [] if self.limits is None else [one.noise for one in self.limits.chosen]
        return [*chosen, *self.measurements]


class Manifest(CentralManifest):
    """The manifest of a release."""

    format: Literal["dprelease-manifest/1"]


class RehearsalManifest(CentralManifest):
    """The manifest of a rehearsal of tables, which is not a release."""

    format: Literal["dprelease-rehearsal/1"]
    rehearsal: RehearsalRecord

    @classmethod
    def of(cls, release: Manifest, rehearsal: RehearsalRecord) -> RehearsalManifest:
        """Return the manifest of a rehearsal, from the manifest of the rehearsed release."""
        return release.as_form(cls, format=REHEARSAL, rehearsal=rehearsal)

    @property
    def release(self) -> Manifest:
        """Return the manifest of the release that was rehearsed."""
        return self.as_form(Manifest, format=FORMAT)


def build(
    declaration: Declaration,
    plan: Plan,
    metadata: Metadata,
    written: Mapping[str, FileDigest],
    ledger: LedgerRecord | None = None,
) -> Manifest:
    """Return the sealed manifest of a release whose files are written.

    `written`: the digests of the files by the name of each table. `ledger`: the reference to the
    ledger entry that paid for the release.
    """
    guarantee = GuaranteeRecord.of(plan.guarantee)
    limits = limits_record(declaration, plan.tables_guarantee)
    fields = {
        **first_keys(FORMAT, declaration, metadata),
        "privacy_parameters": guarantee.parameters,
        "guarantee": guarantee,
        "ledger": ledger,
        "composition": composition_text(plan.guarantee) + ("" if limits is None else COMPOSITION),
        "reading": ReadingRecord.model_validate(interpretation_of(plan.guarantee)),
        "privacy_unit": [unit_record(query) for query in plan.queries],
        "differently_bounded": bounding_records(plan.queries),
        "measurements": [measurement_record(column) for column in plan.noisy_columns],
        "invariants": [
            _invariant_record(column) for column in plan.columns if column.measurement.exact
        ],
        "treatments": [treatment_record(query) for query in plan.queries],
        "families": family_records(plan.families),
        "files": list(table_records(plan.families, written, metadata)),
        "post_processing": POST_PROCESSING,
        "limits": limits,
        "unprotected_quantities": [*_invariant_sentences(plan.guarantee), *UNPROTECTED],
    }
    return Manifest.model_validate(fields).sealed()


def fill_draft(
    draft: Manifest,
    families: Sequence[Family],
    metadata: Metadata,
    written: Mapping[str, FileDigest],
    ledger: LedgerRecord | None,
) -> Manifest:
    """Return the manifest that `build` returns, from its draft for blank files."""
    files = list(table_records(families, written, metadata))
    return draft.changed(ledger=ledger, files=files)


def _invariant_record(column: PlannedColumn) -> ExactRecord:
    """Return the record of a vector without noise."""
    return ExactRecord.model_validate(
        {
            "query": column.query.name,
            "column": column.measurement.name,
            "exact": column.measurement.exact,
            "name": invariant_name(column.query, column.measurement),
            "cells": column.query.cells,
            "step": plain_text(column.measurement.step),
        }
    )


def _invariant_sentences(guarantee: Guarantee) -> list[str]:
    """Return sentences on what invariants leave unprotected."""
    return [
        f"Published exactly, outside the guarantee, as the declaration acknowledges: {name}. "
        "Someone who knows all privacy units but one learns from it where that one counts."
        for name in guarantee.invariants
    ]


def measurement_record(column: PlannedColumn) -> MeasurementRecord:
    """Return the record of one noisy vector."""
    measurement = column.measurement
    return MeasurementRecord(
        **column.event.to_json(),
        aggregate=measured_value_text(column.query, measurement),
        sensitivity_derivation=_derivation_text(column),
        cells=column.query.cells,
        step=plain_text(measurement.step),
        unit=measurement.unit,
        error_unit=measurement.error_unit,
        weight=plain_text(measurement.weight),
        chosen_by=column.chosen_by,
        bias=column.bias,
        expected_absolute_error=finite(column.mean_absolute_error),
        standard_deviation=finite(column.standard_deviation),
        margin_95=plain_text(column.margin()),
    )


def _derivation_text(column: PlannedColumn) -> str:
    """Return a sentence on how the sensitivity follows from the contribution limits."""
    sensitivity = column.measurement.sensitivity
    unit = column.query.unit
    each = column.measurement.aggregate.contribution_text(unit.most_rows_per_group)
    moves = " or ".join(
        f"{move.cells} cell{'s' * (move.cells > 1)} by {move.shift} steps"
        for move in sensitivity.moves
    )
    how = f"by {column.query.neighbours.value}."
    if sensitivity.of_all_rows:
        return (
            f"{unit.row_limits_text}, so all changes add up to at most {sensitivity.l1:,} steps; "
            f"the worst of them are {sensitivity.slots} parts at most: in each, {moves}, {how}"
        )
    finest = column.query.finest
    if finest is None:
        return f"{sensitivity.slots} groups at most, each with {each}: in each, {moves}, {how}"
    several = min(unit.most_groups, finest.size)
    met = f"; up to {sensitivity.meeting} of these may add up in one cell"
    return (
        f"{several} finest cells of the family at most, each with {each}, so {sensitivity.slots} "
        f"parts at most: in each, {moves}, {how[:-1]}{met if sensitivity.meeting > 1 else ''}."
    )
