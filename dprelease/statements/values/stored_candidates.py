"""Describe stored numbers that the counting code, instead of the engine, converts to candidates.

The engine needs as much time to clamp a number as for all other work on the row, and as much again
to round it. The descriptions of this module give exactly the same integers as `lattice_steps`. The
engine converts the columns that these descriptions do not cover.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.schema.columns import Column, IntegerColumn, NumberColumn
from dprelease.schema.number_bounds import Lattice
from dprelease.statements.layers import typed_column_sql
from dprelease.statements.values.lattice_steps import (
    EXACT,
    clamp_floats,
    clamp_integers,
    is_whole,
    stays_within,
)
from dprelease.statements.values.physical import SMALL_INTEGERS, base_type

WIDEST = 2**62
"""The number below which sums and differences of two numbers fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class ClampedIntegers:
    """Integers of at most 64 bits that become steps when they are clamped to two ends.

    `sql` selects the integers, which are clamped to `least` and `most`. `first` is the step of the
    first candidate. All of these numbers have absolute values below 2^62.
    """

    sql: str
    least: int
    most: int
    first: int


@dataclass(frozen=True, slots=True)
class RoundedFloats:
    """Floats that become steps when they are clamped, scaled and rounded half away from zero.

    `sql` selects the floats. Floats clamped to `least` and `most` are multiplied by `times`, or
    divided by `over`. `first` is the step of the first candidate. The absolute values of steps are
    at most 2^53. A NULL may appear as any float, including NaN.
    """

    sql: str
    least: float
    most: float
    first: int
    times: float = 1.0
    over: float = 1.0


def stored_candidates(
    aggregate: Aggregate, columns: Mapping[str, Column], physical: Mapping[str, str]
) -> ClampedIntegers | RoundedFloats | None:
    """Return the stored values that the counting code converts to an aggregate's candidates.

    Returns None if the engine must convert the values.
    """
    name, lattice = aggregate.column or "", aggregate.lattice
    column = columns[name]
    if lattice is None or not isinstance(column, IntegerColumn | NumberColumn):
        return None
    # candidates are not consecutive steps
    if aggregate.candidates != lattice.upper - lattice.lower + 1:
        return None
    return as_stored(typed_column_sql(name), lattice, column, physical[name])


def as_stored(
    value: str, lattice: Lattice, column: IntegerColumn | NumberColumn, physical: str
) -> ClampedIntegers | RoundedFloats | None:
    """Return the description of a typed value that the counting code converts to steps.

    Returns None if the engine must convert the value.
    """
    if column.fill_value is not None:
        return None
    if is_whole(column, lattice.step, physical):
        return _clamped_candidate(value, lattice, column, base_type(physical))
    return _rounded_candidate(value, lattice, column) if isinstance(column, NumberColumn) else None


def _clamped_candidate(
    value: str, lattice: Lattice, column: IntegerColumn | NumberColumn, kind: str
) -> ClampedIntegers | None:
    """Return the SQL and bounds of candidates that are clamped integers; None if it can't be."""
    # a BIGINT becomes a DOUBLE when a number column is typed
    is_float = isinstance(column, NumberColumn) and kind == "BIGINT"
    if kind not in SMALL_INTEGERS or is_float or lattice.step != 1:
        return None
    least, most = clamp_integers(column, lattice.lower, lattice.upper, 1)
    if max(map(abs, (least, most, lattice.lower))) >= WIDEST:
        return None
    wide = "BIGINT" if kind in {"BIGINT", "UINTEGER"} else "INTEGER"
    # As wide as the stored type needs, because the caller subtracts without a check for overflow.
    return ClampedIntegers(f"CAST({value} AS {wide})", least, most, lattice.lower)


def _rounded_candidate(value: str, lattice: Lattice, column: NumberColumn) -> RoundedFloats | None:
    """Return the SQL and bounds of candidates that are rounded floats; None if it can't be."""
    low, high, step = lattice.lower, lattice.upper, lattice.step
    ends = clamp_floats(column)
    if max(abs(low), abs(high)) > EXACT or not stays_within(ends, low, high, step):
        return None
    sql = f"CAST({value} AS DOUBLE)"
    if step.numerator == 1:
        return RoundedFloats(sql, *ends, low, times=float(step.denominator))
    return RoundedFloats(sql, *ends, low, over=float(step))
