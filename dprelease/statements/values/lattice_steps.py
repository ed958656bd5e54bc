"""Typed values as whole numbers of lattice steps, clamped.

Missing comes first (NULL, NaN, text that does not parse, infinite dates are NULL since a value was
typed), then the declared replacement, then the clamp, then the integer, clamped again. Every
expression here is total: no value, of any type, can make it fail.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.numerics.rounding import round_down, round_up
from dprelease.query import quoting
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.schema.number_bounds import Lattice
from dprelease.statements.values.physical import INTEGERS, base_type

EXACT = 2**53
"""Up to it a float holds every whole number."""

WIDEST_EXACT = 2**125  # sums and differences of two such numbers are 128-bit integers


def steps(value: str, lattice: Lattice, column: IntegerColumn | NumberColumn, physical: str) -> str:
    """Return a typed value as a BIGINT number of lattice steps; NULL if it is dropped.

    Values of a number are rounded half away from zero on the quotient of doubles; those of an
    integer are divided exactly, half up from the lower bound. What they are stored as says nothing.
    """
    low, high, step = lattice.lower, lattice.upper, lattice.step
    null = column.null_value
    if is_whole(column, step, physical) and max(abs(low), abs(high)) * step < WIDEST_EXACT:
        sql = _whole_steps(value, column, low, high, step.numerator)
        if null is None:
            return sql  # a missing value stays missing in all of it
    else:
        sql = _rounded_steps(value, column, low, high, step)
    if null is None:
        return f"CASE WHEN {value} IS NOT NULL THEN {sql} END"
    inside = min(max(_nearest(null / step), low), high)
    return f"CASE WHEN {value} IS NOT NULL THEN {sql} ELSE {inside} END"


def is_whole(column: IntegerColumn | NumberColumn, step: Fraction, physical: str) -> bool:
    """Return whether steps are found among whole numbers, faster than by doubles where both can."""
    if isinstance(column, IntegerColumn):
        return step.denominator == 1
    ends = [Fraction(end) for end in (column.lower, column.upper) if end is not None]
    same = step == 1 and all(end.denominator == 1 and abs(end) <= EXACT for end in ends)
    return same and base_type(physical) in INTEGERS | {"BOOLEAN"}


def _whole_steps(
    value: str, column: IntegerColumn | NumberColumn, low: int, high: int, step: int
) -> str:
    # Not least(greatest(...)), which takes a missing value for a bound, and is slower.
    ends = [quoting.integer(end) for end in whole_ends(column, low, high, step)]
    clamped = (
        f"CASE WHEN {value} < {ends[0]} THEN {ends[0]} WHEN {value} > {ends[1]} THEN {ends[1]} "
        f"ELSE {value} END"
    )
    if step == 1:
        return f"CAST({clamped} AS BIGINT)"
    raised = f"(CAST({clamped} AS HUGEINT) - {quoting.integer(low * step)} + {step // 2})"
    return f"CAST({raised} // {step} + {quoting.integer(low)} AS BIGINT)"


def whole_ends(
    column: IntegerColumn | NumberColumn, low: int, high: int, step: int
) -> tuple[int, int]:
    """Return the least and the greatest of the whole numbers that a value is clamped to."""
    least, most = low * step, high * step
    if column.lower is not None and column.upper is not None:
        least = max(least, -((-column.lower) // 1))
        most = min(most, column.upper // 1)
    return least, most


def _rounded_steps(
    value: str, column: IntegerColumn | NumberColumn, low: int, high: int, step: Fraction
) -> str:
    ends = float_ends(column)
    least, most = map(quoting.double, ends)
    scaled = f"least(greatest(CAST({value} AS DOUBLE), {least}), {most})"
    if step.numerator == 1 and step.denominator > 1:
        scaled = f"{scaled} * {quoting.double(Fraction(step.denominator))}"
    elif step != 1:
        scaled = f"{scaled} / {quoting.double(step)}"
    if stay_inside(ends, low, high, step):
        return f"CAST(round({scaled}) AS BIGINT)"
    rounded = f"CAST(round({scaled}) AS HUGEINT)"
    inside = f"least(greatest({rounded}, {quoting.integer(low)}), {quoting.integer(high)})"
    return f"CAST({inside} AS BIGINT)"


def float_ends(column: IntegerColumn | NumberColumn) -> tuple[float, float]:
    """Return the least and the greatest of the floats that a value is clamped to."""
    return round_down(Fraction(column.lower or 0)), round_up(Fraction(column.upper or 0))


def stay_inside(ends: tuple[float, float], low: int, high: int, step: Fraction) -> bool:
    """Return whether floats between two ends are never rounded to steps outside of `low` to `high`.

    To multiply or divide floats by a positive one, to the nearest float, is monotone, and so is
    rounding: what becomes of the ends, computed here as the engine computes it, bounds all others.
    """
    if step.numerator == 1:
        scaled = [end * float(step.denominator) for end in ends]
    else:
        scaled = [end / float(step) for end in ends]
    if not all(map(math.isfinite, scaled)):
        return False
    least, most = (_nearest(Fraction(end)) for end in scaled)
    return low <= least and most <= high


def _nearest(x: Fraction) -> int:
    """Return the whole number nearest to `x`, halves away from zero."""
    sign = -1 if x < 0 else 1
    return sign * ((2 * abs(x) + 1) // 2)
