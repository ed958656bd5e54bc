"""Stored numbers that the counting code, instead of the engine, converts to candidates.

Clamping a number takes the engine as long as everything else that it does with its row, and
rounding takes as long again. The descriptions here give the same integers as `lattice_steps`, to
the bit; columns that would need more than these descriptions are left to the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.schema.columns import Column, IntegerColumn, NumberColumn
from dprelease.schema.number_bounds import Lattice
from dprelease.statements.layers import typed_column
from dprelease.statements.values.lattice_steps import (
    EXACT,
    float_ends,
    is_whole,
    stay_inside,
    whole_ends,
)
from dprelease.statements.values.physical import SMALL_INTEGERS, base_type

WIDEST = 2**62
"""Sums and differences of two smaller numbers fit 64 bits."""


@dataclass(frozen=True, slots=True)
class ClampedIntegers:
    """Integers of at most 64 bits, `sql`, that are steps once they are clamped to two ends.

    `first`: the step of the first candidate. All are below 2^62 in size.
    """

    sql: str
    least: int
    most: int
    first: int


@dataclass(frozen=True, slots=True)
class RoundedFloats:
    """Floats, `sql`, that are steps once they are clamped, scaled and rounded half away from zero.

    Clamped floats are multiplied by `times`, or divided by `over`. `first`: the step of the first
    candidate. Steps are at most 2^53 in size. NULL may appear as any float, also NaN.
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
    """Return values to be converted to candidates when they are counted; None for others."""
    name, lattice = aggregate.column or "", aggregate.lattice
    column = columns[name]
    if lattice is None or not isinstance(column, IntegerColumn | NumberColumn):
        return None
    # candidates are not consecutive steps
    if aggregate.candidates != lattice.upper - lattice.lower + 1:
        return None
    return as_stored(typed_column(name), lattice, column, physical[name])


def as_stored(
    value: str, lattice: Lattice, column: IntegerColumn | NumberColumn, physical: str
) -> ClampedIntegers | RoundedFloats | None:
    """Return a typed value to be converted to steps when it is counted; None for the engine's."""
    if column.null_value is not None:
        return None
    if is_whole(column, lattice.step, physical):
        return _clamped_candidate(value, lattice, column, base_type(physical))
    return _rounded_candidate(value, lattice, column) if isinstance(column, NumberColumn) else None


def _clamped_candidate(
    value: str, lattice: Lattice, column: IntegerColumn | NumberColumn, kind: str
) -> ClampedIntegers | None:
    is_float = isinstance(column, NumberColumn) and kind == "BIGINT"  # once it is typed
    if kind not in SMALL_INTEGERS or is_float or lattice.step != 1:
        return None
    least, most = whole_ends(column, lattice.lower, lattice.upper, 1)
    if max(map(abs, (least, most, lattice.lower))) >= WIDEST:
        return None
    wide = "BIGINT" if kind in {"BIGINT", "UINTEGER"} else "INTEGER"
    return ClampedIntegers(f"CAST({value} AS {wide})", least, most, lattice.lower)


def _rounded_candidate(value: str, lattice: Lattice, column: NumberColumn) -> RoundedFloats | None:
    low, high, step = lattice.lower, lattice.upper, lattice.step
    ends = float_ends(column)
    if max(abs(low), abs(high)) > EXACT or not stay_inside(ends, low, high, step):
        return None
    sql = f"CAST({value} AS DOUBLE)"
    if step.numerator == 1:
        return RoundedFloats(sql, *ends, low, times=float(step.denominator))
    return RoundedFloats(sql, *ends, low, over=float(step))
