"""The inputs of a report, and what it reads from a manifest: declarations and records by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from dprelease.documents.audit_record import Audit
from dprelease.documents.file_records import LedgerRecord
from dprelease.documents.limit_records import published_declaration
from dprelease.documents.manifest import CentralManifest, MeasurementRecord
from dprelease.documents.metadata import ColumnMetadata, Metadata, TableMetadata
from dprelease.documents.release_manifest import (
    GuaranteeRecord,
    NoiseRecord,
    ReadingRecord,
    ReleaseManifest,
)
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.rounding import exact
from dprelease.planning.bounded_words import cutting_limits
from dprelease.planning.invariant_plans import (
    INVARIANT_MECHANISM,
    INVARIANT_ORIGIN,
)
from dprelease.planning.plan import PlannedColumn
from dprelease.postprocess.consistent.consistency_record import (
    ConsistencyRecord,
    ConsistentColumnRecord,
    ErrorsRecord,
)
from dprelease.postprocess.consistent.outputs import TABLES
from dprelease.postprocess.derived_values import ends_of, is_computed, typical_margin
from dprelease.postprocess.families import Family, families_of
from dprelease.query.forms.centred_moments import STDDEV, VARIANCE
from dprelease.query.forms.single_part import READ_FROM_TREE
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import Declaration, declaration_from_texts

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ErrorBeforeRun:
    """The expected error of a column before any row is read.

    `margin`: the margin of error of a cell at `confidence`; for consistent tables the middle margin
    of all areas, which lies between `least` and `largest`. `error`: the mean absolute error, if it
    follows from the noise. `rows`: the number of rows per cell, equal in all cells, for which the
    margin was computed; None if it holds for every cell.
    """

    margin: float
    confidence: float
    least: float
    largest: float
    unit: str
    error: float | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class ProtectedUnit:
    """A privacy unit: its table, its id column if there is one, and its contribution limits."""

    table: str
    id: str | None
    words: str = ""


@dataclass(frozen=True, slots=True)
class LabelSource:
    """The facts for the label of a release of any kind."""

    units: Sequence[ProtectedUnit]
    guarantee: GuaranteeRecord
    reading: ReadingRecord
    ledger: LedgerRecord | None


@dataclass(frozen=True)
class Facts:
    """A verified manifest: its resolved declaration, and its noise by query and column."""

    record: ReleaseManifest

    @property
    def central(self) -> CentralManifest:
        """Return the manifest of a release of tables; pages on other kinds don't call this."""
        assert isinstance(self.record, CentralManifest)
        return self.record

    @property
    def label(self) -> LabelSource:
        """Return the facts for the label of the release."""
        central = self.central
        return LabelSource(
            [ProtectedUnit(unit.table, unit.id, unit.words) for unit in central.privacy_unit],
            central.guarantee,
            central.reading,
            central.ledger,
        )

    @cached_property
    def declaration(self) -> Declaration:
        """Return the declaration."""
        held, record = self.record.declaration, self.record
        declared = declaration_from_texts(held.texts, held.release, held.variables)
        limits = record.limits if isinstance(record, CentralManifest) else None
        return published_declaration(declared, held.chooses, limits)

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """Return the query of every table, by name."""
        return {query.name: query for query in resolve(self.declaration)}

    @cached_property
    def measurement_records(self) -> Mapping[tuple[str, str], NoiseRecord]:
        """Return the record of each noisy vector, by its table and its name."""
        return {(held.query, held.column): held for held in self.record.measurements}

    @cached_property
    def mechanisms(self) -> Mapping[tuple[str, str], Randomizer]:
        """Return the noise mechanism of each vector."""
        return {
            name: registry.mechanism_of_event(held.event)
            for name, held in self.measurement_records.items()
        }

    @cached_property
    def _standard_errors(
        self,
    ) -> Mapping[tuple[str, str], tuple[ConsistentColumnRecord, ErrorsRecord]]:
        return {
            (errors.table, column.name): (column, errors)
            for family in self.central.families
            if isinstance(family.record, ConsistencyRecord)
            for column in family.record.columns
            for errors in column.standard_errors
        }

    def query_of(self, table: TableMetadata) -> Query | None:
        """Return the query of a table; None for a table without cells."""
        return self.queries.get(_name_in_folder(table))

    def is_consistent(self, table: TableMetadata) -> bool:
        """Return whether a table combines several measurements into consistent values."""
        return "/" in table.name

    def is_integer_table(self, table: TableMetadata) -> bool:
        """Return whether a table has whole numbers from 0 up, changed after the noise to add up."""
        return table.name.startswith(f"{TABLES}/")

    def query_column(self, table: TableMetadata, column: ColumnMetadata) -> OutputColumn | None:
        """Return the declaration of a column; None if the query does not declare it."""
        query = self.query_of(table)
        columns = () if query is None else query.columns
        return next((one for one in columns if one.name == column.name), None)

    def expected_error_of(
        self, table: TableMetadata, column: ColumnMetadata
    ) -> ErrorBeforeRun | None:
        """Return the expected error of a column; None if the column is not a number."""
        output = self.query_column(table, column)
        if output is None:
            return None
        if self.is_consistent(table):
            return self._error_of_consistent_column(table, column, output)
        name = _name_in_folder(table)
        mechanisms = {part.name: self.mechanisms[name, part.name] for part in output.parts}
        if is_computed(output):
            margin = typical_margin(output, mechanisms, 0.95)
            # The error of a mean or quantile depends on the rows of its cell: 1000 as in plans.
            rows = None if output.form.on_lattice else 1000
            if margin is None:
                return None
            return ErrorBeforeRun(margin, 0.95, margin, margin, output.unit, rows=rows)
        held = self.measurement_records[name, output.parts[0].name]
        assert isinstance(held, MeasurementRecord)
        margin, error = float(fraction_of_text(held.margin_95)), held.expected_absolute_error
        return ErrorBeforeRun(margin, 0.95, margin, margin, held.error_unit, error)

    def _error_of_consistent_column(
        self, table: TableMetadata, column: ColumnMetadata, output: OutputColumn
    ) -> ErrorBeforeRun | None:
        """Return the expected error of a column of consistent tables; None if unknown."""
        found = self._standard_errors.get((_name_in_folder(table), column.name))
        if found is None:
            return None
        agreed, errors = found
        if errors.least is None or errors.median is None or errors.largest is None:
            return None
        width, confidence = agreed.standard_errors_in_a_margin, float(agreed.confidence)
        return ErrorBeforeRun(
            width * errors.median,
            confidence,
            width * errors.least,
            width * errors.largest,
            output.unit,
        )

    def bounds_of(self, table: TableMetadata, column: ColumnMetadata) -> tuple[float, float] | None:
        """Return the smallest and the largest value that bounds allow; None without such bounds."""
        output = self.query_column(table, column)
        if output is None:
            return None
        if is_computed(output) and not output.form.on_lattice:
            return ends_of(output)
        aggregate = output.parts[0].aggregate
        lattice = aggregate.lattice
        if lattice is None or not (aggregate.is_choice or output.form == READ_FROM_TREE):
            return None
        return float(lattice.lower * lattice.step), float(lattice.upper * lattice.step)

    def noise_of(self, table: TableMetadata, column: ColumnMetadata) -> Mechanism | None:
        """Return the noise of a column that is a single noisy number; None for other columns."""
        output = self.query_column(table, column)
        if output is None or self.is_consistent(table) or is_computed(output):
            return None
        mechanism = self.mechanisms[_name_in_folder(table), output.parts[0].name]
        return mechanism if isinstance(mechanism, Mechanism) and output.parts[0].is_vector else None

    def limits_before_noise(self, table: TableMetadata, column: ColumnMetadata) -> str:
        """Return which declared limits may cut what a column counts: none, limits, bounds, both."""
        query, output = self.query_of(table), self.query_column(table, column)
        if query is None or output is None:
            return "none"
        limited = cutting_limits(query, output.parts) is not None
        bounded = any(part.aggregate.lattice is not None for part in output.parts)
        return ("both" if bounded else "limits") if limited else "bounds" if bounded else "none"

    def differently_bounded_with(self, table: TableMetadata) -> list[str]:
        """Return the tables whose numbers need not add up with those of a table, by limits.

        Contribution limits apply to each of these tables separately. The result is empty if the
        table is not among them.
        """
        name = _name_in_folder(table)
        groups = [one.tables for one in self.central.differently_bounded if name in one.tables]
        return list(dict.fromkeys(other for group in groups for other in group if other != name))

    def adds_up(self, table: TableMetadata, column: ColumnMetadata) -> bool:
        """Return whether cells of a column may be added: counts of rows, and sums."""
        output = self.query_column(table, column)
        if output is None or not output.form.on_lattice:
            return False
        part = output.parts[0]
        return part.is_vector and part.aggregate.adds_up

    def is_never_negative(self, table: TableMetadata, column: ColumnMetadata) -> bool:
        """Return whether the true values of a column can't be negative, whatever the data."""
        output = self.query_column(table, column)
        if output is None or not output.parts[0].is_vector or output.form.is_signed:
            return False
        squares = output.form in (VARIANCE, STDDEV)
        return squares or all(part.aggregate.lowest >= 0 for part in output.parts)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """Return the families of tables, each with the step that publishes them."""
        return families_of(self.planned_columns())

    def planned_columns(self) -> Iterator[PlannedColumn]:
        """Yield every noisy vector with its query and its noise; invariants have no noise."""
        for query in self.queries.values():
            for measurement in query.measurements:
                if measurement.exact:
                    yield PlannedColumn(query, measurement, INVARIANT_MECHANISM, INVARIANT_ORIGIN)
                    continue
                name = (query.name, measurement.name)
                chosen = self.measurement_records[name].chosen_by
                yield PlannedColumn(query, measurement, self.mechanisms[name], chosen)


def _name_in_folder(table: TableMetadata) -> str:
    """Return the name of a table without the folder of a step's output."""
    return table.name.rpartition("/")[2]


def fraction_of_text(text: str) -> Fraction:
    """Return a number of a manifest, which is written as a decimal or as p/q, as a fraction."""
    over, _, under = text.partition("/")
    return exact(over) / exact(under) if under else exact(over)


class ReleaseFiles(Protocol):
    """The files of a published release, with its manifest and its metadata."""

    @property
    def record(self) -> ReleaseManifest:
        """Return the manifest of the release."""

    @property
    def metadata(self) -> Metadata:
        """Return the labels, roles and code lists of the release."""

    def batches(
        self, table: TableMetadata, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in order, for some columns or all."""


class Truth(Protocol):
    """The true values of a rehearsal, which are about invented people only."""

    def batches(
        self, table: TableMetadata, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """Yield true values in the order of the published rows; None if the rehearsal has none."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What a verification has checked, in sentences, and what it found but did not check.

    `audit`: the outcome of the audit that the release names, which was checked too.
    """

    checked: tuple[str, ...]
    notes: tuple[str, ...] = ()
    audit: Audit | None = None
