"""Compare noisy records with true ones, and estimates from them with the true values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.documents.rehearsal_errors import ColumnErrors
from dprelease.documents.truth_columns import TruthColumns, truth_columns
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats, Integers
from dprelease.planning.local_plan import LocalColumn
from dprelease.query.local_records import RecordColumn, Records
from dprelease.rehearsal.error_summary import class_errors, figures_of
from dprelease.tables.record_figures import Estimate, estimates
from dprelease.tables.record_table import public_values, records_to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

CONFIDENCE = 0.95
ESTIMATES = "estimates"
"""The folder of estimates among the truth files; names of tables contain no slash."""

CHANGED, PARTS = "records changed", "parts of all records"
"""The units of errors of response columns: whether one record's value was changed, and the share of
all records with a value."""


def names_of(part: Records) -> TruthColumns:
    """Return the names of the columns with true values in tables of records."""
    return truth_columns((), (column.name for column in part.columns))


def estimates_of(part: Records) -> str:
    """Return the name of the table of estimates from some records."""
    return f"{ESTIMATES}/{part.name}"


def compare_records(part: Records, noised: pa.Table, true: Mapping[str, Integers]) -> pa.Table:
    """Return noisy records with the true ones in further columns of the same types."""
    names = names_of(part).true
    exact = records_to_arrow(true, part.columns)
    for column in part.columns:
        noised = noised.append_column(names[column.name], exact.column(column.name))
    return noised


def estimates_with_truth(
    part: Records, columns: Sequence[LocalColumn], truth: pa.Table
) -> pa.Table:
    """Return every estimate from the noisy records of a truth table, with its true value.

    The result has one row for the mean of each numeric column. For each value of other columns, it
    has one row for the share of that value, with the number of records that have the value.
    """
    import pyarrow as pa

    names, rows = names_of(part).true, len(truth)
    records: list[dict[str, Any]] = []
    for planned in columns if rows else ():
        column, mechanism = planned.column, planned.mechanism
        if not isinstance(mechanism, Mechanism):
            raise TypeError("records are answered by mechanisms alone")
        found = estimates(truth.column(column.name), column, mechanism, CONFIDENCE)
        values = truth.column(names[column.name])
        counts = _counts(values, column) if column.is_response else np.array([rows])
        true = counts / rows if column.is_response else [_mean(values)]
        records += [
            _row(column, one, float(right), int(count))
            for one, right, count in zip(found, true, counts.tolist(), strict=True)
        ]
    kinds = [("column", pa.string()), ("value", pa.string()), ("estimate", pa.float64())]
    kinds += [("margin", pa.float64()), ("true", pa.float64()), ("records", pa.int64())]
    return pa.Table.from_pylist(records, pa.schema(kinds))


def _row(column: RecordColumn, one: Estimate, true: float, count: int) -> dict[str, Any]:
    return {
        "column": column.name,
        "value": None if one.value is None else str(one.value),
        "estimate": one.estimate,
        "margin": one.margin,
        "true": true,
        "records": count,
    }


def _counts(values: pa.ChunkedArray, column: RecordColumn) -> Integers:
    """Return the number of records that have each public value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = public_values(column)
    if known.type == pa.bool_():  # Arrow can't look up booleans
        known, values = known.cast(pa.int8()), values.cast(pa.int8())
    places = pc.index_in(values, value_set=known).to_numpy(zero_copy_only=False)
    counts: Integers = np.bincount(places.astype(np.int64), minlength=len(known))
    return counts


def _mean(values: pa.ChunkedArray) -> float:
    numbers = _floats(values)
    return float(numbers.sum() / len(numbers))


def errors_of_records(
    part: Records, columns: Sequence[LocalColumn], truth: pa.Table, estimates: pa.Table
) -> list[ColumnErrors]:
    """Return the errors of single records, and of the estimates from all of them, by column.

    For response columns, the error of one record is 1 if its value was changed. Estimates are
    classified by number of records: all records of the table, or all records with the value.
    """
    names = names_of(part).true
    records = [_single(part, planned, truth, names[planned.column.name]) for planned in columns]
    of_column = np.array(estimates.column("column").to_pylist(), dtype=object)
    for planned in columns:
        column, inside = planned.column, of_column == planned.column.name
        values = {name: _floats(estimates.column(name))[inside] for name in NUMBERS}
        errors = values["estimate"] - values["true"]
        records.append(
            ColumnErrors(
                table=estimates_of(part),
                column=column.name,
                unit=PARTS if column.is_response else planned.measurement.unit,
                confidence=CONFIDENCE,
                expected=None,
                classes=class_errors(errors, values["records"], values["margin"]),
                **dict(figures_of(errors, values["margin"])),
            )
        )
    return records


NUMBERS = ("estimate", "true", "records", "margin")


def _single(part: Records, planned: LocalColumn, truth: pa.Table, true: str) -> ColumnErrors:
    """Return the errors of single records in one column."""
    column, noised = planned.column, truth.column(planned.column.name)
    margins: Floats | None = None
    if column.is_response:
        errors = _change_flags(noised, truth.column(true))
        expected: float | None = 1.0 - float(getattr(planned.mechanism, "keep", 1.0))
    else:
        errors = _floats(noised) - _floats(truth.column(true))
        margins = np.full(len(errors), float(planned.margin()))
        error = planned.mean_absolute_error
        expected = None if np.isinf(error) else error
    return ColumnErrors(
        table=part.name,
        column=column.name,
        unit=CHANGED if column.is_response else planned.measurement.unit,
        confidence=None if margins is None else CONFIDENCE,
        expected=expected,
        classes=[],
        **dict(figures_of(errors, margins)),
    )


def _change_flags(noised: pa.ChunkedArray, true: pa.ChunkedArray) -> Floats:
    import pyarrow as pa
    import pyarrow.compute as pc

    return _floats(pc.not_equal(noised, true).cast(pa.int8()))


def _floats(values: pa.ChunkedArray) -> Floats:
    import pyarrow as pa

    floats: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats
