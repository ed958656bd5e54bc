"""The manifest record of a family with consistent tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.standard_errors import standard_errors
from dprelease.numerics.lattice import Floats
from dprelease.numerics.rounding import finite, plain_text
from dprelease.postprocess.consistent.area_tables import group_errors
from dprelease.postprocess.consistent.consistency_record import (
    AttributeRecord,
    ComputedColumnRecord,
    ConsistencyRecord,
    ConsistentColumnRecord,
    ErrorsRecord,
    GroupingRecord,
    IntegerTableRecord,
    LevelRecord,
    MeasuredTableRecord,
    RefinementRecord,
    SyntheticPersonsRecord,
)
from dprelease.postprocess.consistent.derived import DerivedColumn, derived_columns
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.consistent.outputs import records_name, tables_with_estimates
from dprelease.postprocess.consistent.reading import FINEST
from dprelease.postprocess.consistent.values import MOST_RECORDS, is_dense, refinements_of
from dprelease.schema.release_parts.consistent import ConsistentSpec

_BATCH_SIZE = 1 << 18


def family_record(
    family: str, shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec
) -> ConsistencyRecord:
    """Return the record of a family, which follows from the declaration."""
    levels = zip(shape.levels, shape.tree.counts, strict=True)
    listed = [*shape.placed, *(table for tables in shape.grouped for table, _ in tables)]
    wholes = [_integer_table_record(one) for one in listed] if spec.non_negative else []
    records = SyntheticPersonsRecord(name=records_name(family), most=MOST_RECORDS)
    return ConsistencyRecord(
        algorithm="dprelease-consistency/2",
        words=_texts(family, columns, spec, limited=_has_limits(shape)),
        levels=[LevelRecord(name=name, areas=count) for name, count in levels],
        attributes=[AttributeRecord(name=k.column, values=k.size) for k in shape.attributes],
        columns=[_column_record(agreed, spec) for agreed in columns],
        estimates=[one.name for one in tables_with_estimates(shape, spec)],
        whole_tables=wholes,
        zeros=[{name: list(values) for name, values in entry.items()} for entry in spec.zeros],
        records=records if spec.publish.records else None,
        computed=[_computed_record(one) for one in derived_columns(shape)],
        groupings=[
            GroupingRecord(
                name=key.column, areas=key.size, tables=[table.name for table, _ in tables]
            )
            for key, tables in zip(shape.groupings, shape.grouped, strict=True)
        ],
    )


def _has_limits(shape: Shape) -> bool:
    """Return whether contribution limits may leave out rows of the family."""
    return shape.placed[0].table.query.unit.id is not None


def _texts(
    family: str, columns: Sequence[FamilyColumn], spec: ConsistentSpec, *, limited: bool
) -> list[str]:
    """Return texts on the properties of the published values."""
    what = " of the values after contribution limits" if limited else ""
    words = [
        f"Estimates{what} are unbiased: least squares of all measurements of the family. They add "
        "up over levels and tables exactly, as multiples of a power of 2 of their step.",
        f"That power is 2^-{FINEST}, or a coarser one where sums of measurements would not fit in "
        "64 bits. Measurements that fit none, sums above about 2^50 steps, are cut, and estimates "
        "then have no standard errors.",
    ]
    if spec.invariants:
        words.append(
            "Tables whose mechanism is 'invariant' are published exactly, outside the "
            "guarantee. They, and values that follow from them alone, have a standard error of 0."
        )
    if any(agreed.column.margin is None for agreed in columns) and spec.non_negative:
        words.append("Columns without a declared margin have intervals with a confidence of 0.95.")
    if spec.non_negative:
        words.append(
            "Integer tables add up and are at least 0; they are biased where the truth is near 0. "
            "Their intervals are those of the estimates, in whole numbers from 0 up, never just a "
            "margin around the integer; for an estimate below 0, from 0 to the margin. In a table "
            "that lists only cells that are not 0, all others are 0."
        )
    if any(not agreed.is_shown for agreed in columns):
        words.append(
            "Means, ratios and sums that are computed from others are functions of their "
            "estimates. A quotient is left out if the interval of its divisor contains 0; its "
            "standard error is of first order. Integer tables have none of them."
        )
    if spec.groupings:
        words.append(
            f"Tables by {', '.join(spec.groupings)} are sums of the tables of the last level. "
            "Their standard errors are exact, too. Where they are measured themselves, least "
            "squares includes these measurements."
        )
    if spec.composition is not None:
        words.append(
            "Totals of areas with large noise are computed from the composition of the area above, "
            "only in integer tables: more accurate on average, biased where an area differs."
        )
    if spec.publish.records:
        words.append(
            f"The rows of {records_name(family)} are invented: no row is a real person. Their "
            f"counts are those of all integer tables; above {MOST_RECORDS} rows none are written."
        )
    return words


def _integer_table_record(table: PlacedTable) -> IntegerTableRecord:
    return IntegerTableRecord(
        name=table.name, cells="all" if is_dense(table) else "those that are not 0"
    )


def _computed_record(derived: DerivedColumn) -> ComputedColumnRecord:
    column = derived.column
    return ComputedColumnRecord(
        name=derived.name, formula=column.formula, parts=list(column.part_names)
    )


def _column_record(agreed: FamilyColumn, spec: ConsistentSpec) -> ConsistentColumnRecord:
    shape = agreed.shape
    return ConsistentColumnRecord(
        name=agreed.name,
        step=plain_text(agreed.step),
        confidence=plain_text(agreed.confidence),
        standard_errors_in_a_margin=agreed.quantile,
        measured=[_measured_record(agreed, one) for one in (*shape.placed, *shape.grouping_tables)],
        standard_errors=[
            *(_errors_record(agreed, one) for one in tables_with_estimates(shape, spec)),
            *_errors_of_groupings(agreed),
        ],
        refinement=refinement_records(agreed, spec)
        if spec.non_negative and agreed.is_shown
        else [],
    )


def refinement_records(agreed: FamilyColumn, spec: ConsistentSpec) -> list[RefinementRecord]:
    """Return for each level and clique how the integer tables of a column are computed."""
    shape, tables = agreed.shape, refinements_of(agreed, spec)
    return [
        RefinementRecord(
            level=name,
            keys=_key_names(shape, how.finest),
            shared=None if how.separator is None else _key_names(shape, how.separator),
            method=how.methods[level],
            first=[_key_names(shape, table) for table in how.first[level]],
            steps=[_key_names(shape, table) for table in chain],
            composed=how.composed[level],
        )
        for level, name in enumerate(shape.levels)
        for how in tables
        for chain in [how.chains[level]]
    ]


def _key_names(shape: Shape, table: Table) -> list[str]:
    return [shape.attributes[i].column for i in table]


def _measured_record(agreed: FamilyColumn, placed: PlacedTable) -> MeasuredTableRecord:
    moments, shape = agreed.moments_of(placed), agreed.shape
    return MeasuredTableRecord(
        table=placed.name,
        level=[*shape.levels, *(key.column for key in shape.groupings)][placed.level],
        keys=_key_names(agreed.shape, placed.attributes),
        mechanism=agreed.mechanism_of(placed.table).name,
        variance=float(moments.variance),
        mean=float(moments.mean),
    )


def _errors_record(agreed: FamilyColumn, placed: PlacedTable) -> ErrorsRecord:
    """Return the least, the middle and the largest standard error of a table's areas."""
    return _range_of_errors(placed, _all_errors(agreed, placed))


def _errors_of_groupings(agreed: FamilyColumn) -> Iterator[ErrorsRecord]:
    """Yield the standard errors of the tables of groupings."""
    shape, known = agreed.shape, agreed.variances
    for number, tables in enumerate(shape.grouped):
        groups = group_errors(shape, number, known)
        for placed, _ in tables:
            errors = [one.standard_error(known, placed.attributes) for one in groups]
            yield _range_of_errors(placed, np.array(errors) * float(agreed.step))


def _range_of_errors(placed: PlacedTable, errors: Floats) -> ErrorsRecord:
    every = np.sort(errors)
    return ErrorsRecord(
        table=placed.name,
        least=finite(float(every[0])),
        median=finite(float(every[(len(every) - 1) // 2])),
        largest=finite(float(every[-1])),
    )


def _all_errors(agreed: FamilyColumn, placed: PlacedTable) -> Floats:
    errors = np.empty(agreed.shape.tree.counts[placed.level])
    for start in range(0, len(errors), _BATCH_SIZE):
        end = min(start + _BATCH_SIZE, len(errors))
        found = standard_errors(agreed.variances, placed.attributes, placed.level, start, end)
        errors[start:end] = found * float(agreed.step)
    return errors
