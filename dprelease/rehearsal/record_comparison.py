"""Compare noisy records with true records, and estimates from noisy records with true values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.documents import local_manifest as manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.metadata import field_notes
from dprelease.documents.rehearsal_manifest import (
    ERRORS,
    ColumnErrors,
    TruthColumns,
    rehearsal_record,
    truth_columns,
)
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.noise.noised_vectors import perturb_records
from dprelease.numerics.lattice import Floats, Integers
from dprelease.planning.local_plan import LocalColumn, LocalPlan, prepare_local
from dprelease.query.local_records import RecordColumn, Records
from dprelease.rehearsal.error_summary import class_errors, error_figures, within_margins
from dprelease.rehearsal.rehearsal_folder import (
    RehearsalRequest,
    rehearsal_publication,
    synthetic_rows_file,
    truth_file,
    write_errors,
    write_marked_table,
    write_synthetic_rows,
)
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.rehearsal.truth import true_records
from dprelease.schema.load import Declaration
from dprelease.tables.field_notes import with_field_notes
from dprelease.tables.record_table import (
    Estimate,
    public_values,
    record_estimates,
    records_to_arrow,
)

if TYPE_CHECKING:
    import pyarrow as pa

CONFIDENCE = 0.95
ESTIMATES = "estimates"
"""The folder of the tables of estimates, next to truth tables, whose names contain no slash."""

CHANGED_UNIT, SHARE_UNIT = "records changed", "parts of all records"
"""The units of errors of columns with randomized response.

The first is the unit for single records, whose values are changed or not. The second is the unit
for estimates, which are shares of all records.
"""


def truth_column_names(part: Records) -> TruthColumns:
    """Return the names of the columns with true values in the truth table of some records."""
    return truth_columns((), (column.name for column in part.columns))


def estimates_table(part: Records) -> str:
    """Return the name of the table with the estimates from some records."""
    return f"{ESTIMATES}/{part.name}"


def compare_records(part: Records, noised: pa.Table, true: Mapping[str, Integers]) -> pa.Table:
    """Return noisy records with the true records in additional columns of the same types."""
    names = truth_column_names(part).true
    exact = records_to_arrow(true, part.columns)
    for column in part.columns:
        noised = noised.append_column(names[column.name], exact.column(column.name))
    return noised


def estimates_with_truth(
    part: Records, columns: Sequence[LocalColumn], truth: pa.Table
) -> pa.Table:
    """Return the estimates from the noisy records of a truth table, with their true values.

    The result has one row with the mean of each numeric column. For every other column, it has one
    row for each value, with the share and the number of the records that have the value.
    """
    import pyarrow as pa

    names, rows = truth_column_names(part).true, len(truth)
    records: list[dict[str, Any]] = []
    for planned in columns if rows else ():
        column, mechanism = planned.column, planned.mechanism
        if not isinstance(mechanism, Mechanism):
            raise TypeError("records are answered by mechanisms alone")
        found = record_estimates(truth.column(column.name), column, mechanism, CONFIDENCE)
        values = truth.column(names[column.name])
        counts = _counts(values, column) if column.is_response else np.array([rows])
        true = counts / rows if column.is_response else [_mean(values)]
        records += [
            _estimate_row(column, one, float(right), int(count))
            for one, right, count in zip(found, true, counts.tolist(), strict=True)
        ]
    kinds = [("column", pa.string()), ("value", pa.string()), ("estimate", pa.float64())]
    kinds += [("margin", pa.float64()), ("true", pa.float64()), ("records", pa.int64())]
    return pa.Table.from_pylist(records, pa.schema(kinds))


def _estimate_row(column: RecordColumn, one: Estimate, true: float, count: int) -> dict[str, Any]:
    """Return a row of the table of estimates: an estimate next to the true value."""
    return {
        "column": column.name,
        "value": None if one.value is None else str(one.value),
        "estimate": one.estimate,
        "margin": one.margin,
        "true": true,
        "records": count,
    }


def _counts(values: pa.ChunkedArray, column: RecordColumn) -> Integers:
    """Return the numbers of records that have each public value of a column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    declared = public_values(column)
    if declared.type == pa.bool_():  # Arrow can't look up booleans
        declared, values = declared.cast(pa.int8()), values.cast(pa.int8())
    positions = pc.index_in(values, value_set=declared).to_numpy(zero_copy_only=False)
    counts: Integers = np.bincount(positions.astype(np.int64), minlength=len(declared))
    return counts


def _mean(values: pa.ChunkedArray) -> float:
    numbers = _to_floats(values)
    return float(numbers.sum() / len(numbers))


def record_errors(
    part: Records, columns: Sequence[LocalColumn], truth: pa.Table, estimates: pa.Table
) -> list[ColumnErrors]:
    """Return the errors of single records and of the estimates from all records, by column.

    In a column with randomized response, the error of a record is 1 if its value was changed, and 0
    otherwise. The size class of an estimate follows from its number of records: for a mean all
    records of the table, and for a share the records that have the value.
    """
    names = truth_column_names(part).true
    records = [
        _single_record_errors(part, planned, truth, names[planned.column.name])
        for planned in columns
    ]
    of_column = np.array(estimates.column("column").to_pylist(), dtype=object)
    for planned in columns:
        column, is_of_column = planned.column, of_column == planned.column.name
        values = {
            name: _to_floats(estimates.column(name))[is_of_column] for name in ESTIMATE_NUMBERS
        }
        errors = values["estimate"] - values["true"]
        covered = within_margins(errors, values["margin"])
        records.append(
            ColumnErrors(
                table=estimates_table(part),
                column=column.name,
                unit=SHARE_UNIT if column.is_response else planned.measurement.unit,
                confidence=CONFIDENCE,
                expected=None,
                classes=class_errors(errors, values["records"], covered),
                **dict(error_figures(errors, covered)),
            )
        )
    return records


ESTIMATE_NUMBERS = ("estimate", "true", "records", "margin")


def _single_record_errors(
    part: Records, planned: LocalColumn, truth: pa.Table, true: str
) -> ColumnErrors:
    """Return the errors of the single records in one column; `true` names the true values."""
    column, noised = planned.column, truth.column(planned.column.name)
    covered: Floats | None = None
    if column.is_response:
        errors = _change_flags(noised, truth.column(true))
        response = planned.mechanism
        expected: float | None = None
        if isinstance(response, RandomizedResponse):
            expected = 1.0 - response.true_value_probability
    else:
        errors = _to_floats(noised) - _to_floats(truth.column(true))
        covered = within_margins(errors, np.full(len(errors), float(planned.margin())))
        error = planned.mean_absolute_error
        expected = None if np.isinf(error) else error
    return ColumnErrors(
        table=part.name,
        column=column.name,
        unit=CHANGED_UNIT if column.is_response else planned.measurement.unit,
        confidence=None if covered is None else CONFIDENCE,
        expected=expected,
        classes=[],
        **dict(error_figures(errors, covered)),
    )


def _change_flags(noised: pa.ChunkedArray, true: pa.ChunkedArray) -> Floats:
    """Return 1 for each record whose value was changed, and 0 for the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return _to_floats(pc.not_equal(noised, true).cast(pa.int8()))


def _to_floats(values: pa.ChunkedArray) -> Floats:
    import pyarrow as pa

    floats: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


# Rehearse a release of single records, and compare noisy records with true records.


def rehearse_records(request: RehearsalRequest, stand_ins: StandIns) -> Path:
    """Add noise to the records of stand-ins, and return the folder of the rehearsal.

    The errors are those of `rehearse`.
    """
    plan = prepare_local(stand_ins.declaration)
    metadata = ReleaseMetadata(stand_ins.declaration.spec)
    blank_digests = {part.name: FileDigest("", 0) for part in plan.records}
    queries = [part.query for part in plan.records]
    draft = manifest.build(stand_ins.without_ledger, plan, blank_digests)
    with rehearsal_publication(
        request,
        stand_ins,
        plan,
        draft=draft,
        files=list(truth_files_of_records(plan, request.declaration)),
    ) as release:
        request.progress("people")
        stand_ins = stand_ins.invent(queries, request.bits)
        written: dict[str, FileDigest] = {}
        compared_records: dict[str, pa.Table] = {}
        with stand_ins.recorders(plan.records) as engines:
            for part in plan.records:
                request.progress(part.name)
                exact = engines[part.declared.table.name].records(part)
                vectors = perturb_records(exact, plan.of_records(part.name), request.bits)
                table = records_to_arrow(vectors, part.columns)
                description = metadata.records(part)
                # `perturb_records` has put the noisy and the exact records into one random order.
                compared_records[part.name] = compare_records(
                    part, table, true_records(part, exact)
                )
                file = with_field_notes(table, field_notes(description))
                written[part.name] = write_marked_table(release.folder, description.file, file)
        request.progress("truth")
        truth = _write_truth(release.folder, stand_ins, plan, compared_records)
        record = manifest.build(stand_ins.without_ledger, plan, written)
        rehearsal = rehearsal_record([*stand_ins.manifest_records()], truth)
        release.publish(manifest.LocalRehearsalManifest.of(record, rehearsal))
    return release.claim.target


def truth_files_of_records(plan: LocalPlan, declaration: Declaration) -> Iterator[str]:
    """Yield the names of all files that a rehearsal may contain in addition to noisy records."""
    for part in plan.records:
        yield truth_file(part.name)
        yield truth_file(estimates_table(part))
    yield from (synthetic_rows_file(name) for name in declaration.tables)
    yield ERRORS


def _write_truth(
    folder: Path, stand_ins: StandIns, plan: LocalPlan, compared_records: dict[str, pa.Table]
) -> dict[str, FileDigest]:
    """Write the truth files; return the digest and the number of rows of each, by file name.

    `compared_records` has the tables of noisy and true records, by the name of the records.
    """
    written = write_synthetic_rows(folder, stand_ins)
    errors: list[ColumnErrors] = []
    for part in plan.records:
        columns = plan.of_records(part.name)
        table = compared_records[part.name]
        estimates = estimates_with_truth(part, columns, table)
        errors += record_errors(part, columns, table, estimates)
        for name, table_to_write in ((part.name, table), (estimates_table(part), estimates)):
            written[truth_file(name)] = write_marked_table(folder, truth_file(name), table_to_write)
    return dict(sorted({**written, **write_errors(folder, errors)}.items()))
