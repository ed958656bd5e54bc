"""SQL that converts typed numbers, times and booleans to integer numbers of steps.

The conversion replaces missing values first: NULL, NaN, unparsable texts and infinite dates became
NULL when the value was typed. Then it clamps the value to the bounds, rounds the number of steps to
an integer, and clamps the integer again. Every SQL expression of this module is total: no value of
any type can make it fail.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction

from dprelease.numerics.rounding import round_down, round_up
from dprelease.query import quoting
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    CutColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TextColumn,
    TimestampColumn,
)
from dprelease.schema.number_bounds import EPOCH, Lattice, number_of_day
from dprelease.statements.values.physical import INTEGERS, base_type

EPOCH_INSTANT = datetime(EPOCH.year, EPOCH.month, EPOCH.day)

EXACT = 2**53
"""The number up to which a 64-bit float holds every integer."""

WIDEST_EXACT = 2**125  # sums and differences of two such numbers are 128-bit integers


WITHOUT_STEPS = (CategoryColumn, CutColumn, TextColumn)
"""The columns whose values are never numbers of steps."""

WithSteps = BooleanColumn | DateColumn | IntegerColumn | NumberColumn | TimestampColumn


def steps(value: str, lattice: Lattice, column: WithSteps, physical: str) -> str:
    """Return SQL of a typed value as a BIGINT number of steps, which is NULL if it is dropped.

    Steps of dates are days and those of timestamps seconds since 1970-01-01, and those of booleans
    are 0 and 1.

    For numbers, the quotient of two doubles is rounded half away from zero. Integers are divided
    exactly, and rounded half up from the lower bound. The result is the same for every stored type.
    """
    if isinstance(column, DateColumn):
        return _day_sql(value, lattice, column)
    if isinstance(column, TimestampColumn):
        return _second_sql(value, lattice)
    if isinstance(column, BooleanColumn):
        return _flag_sql(value, column)
    low, high, step = lattice.lower, lattice.upper, lattice.step
    null = column.fill_value
    if is_whole(column, step, physical) and max(abs(low), abs(high)) * step < WIDEST_EXACT:
        sql = _whole_steps_sql(value, column, low, high, step.numerator)
        if null is None:
            return sql  # the whole expression is NULL for a missing value
    else:
        sql = _rounded_steps_sql(value, column, low, high, step)
    if null is None:
        return f"CASE WHEN {value} IS NOT NULL THEN {sql} END"
    # The substitute for missing values is clamped like any value, or a missing value would change a
    # sum by more than the sensitivity.
    inside = min(max(_nearest_integer(null / step), low), high)
    return f"CASE WHEN {value} IS NOT NULL THEN {sql} ELSE {inside} END"


def _day_sql(value: str, lattice: Lattice, column: DateColumn) -> str:
    """Return SQL of a date as a BIGINT number of days, which is NULL if it is dropped.

    A date outside the bounds is a missing value, whether it is stored or computed.
    """
    low, high = lattice.lower, lattice.upper
    ends = [quoting.day(EPOCH + timedelta(days=end)) for end in (low, high)]
    null = "NULL" if column.fill_day is None else quoting.integer(number_of_day(column.fill_day))
    number = f"CAST({value} - {ends[0]} AS BIGINT) + {quoting.integer(low)}"
    inside = f"{value} BETWEEN {ends[0]} AND {ends[1]}"
    return f"CASE WHEN {inside} THEN {number} ELSE {null} END"


def _second_sql(value: str, lattice: Lattice) -> str:
    """Return SQL of a timestamp as a BIGINT number of seconds, which is NULL if it is dropped.

    Fractions of a second are cut off. A timestamp outside the bounds is a missing value.
    """
    low, high = lattice.lower, lattice.upper
    ends = [quoting.instant(EPOCH_INSTANT + timedelta(seconds=end)) for end in (low, high)]
    # Counted from the lower bound, so that nothing is negative: the engine's integer division
    # rounds towards 0, which would round the fractions before 1970 up.
    after = f"(epoch_us({value}) - epoch_us({ends[0]})) // 1000000"
    inside = f"{value} >= {ends[0]} AND {value} < {ends[1]} + INTERVAL 1 SECOND"
    return f"CASE WHEN {inside} THEN CAST({after} AS BIGINT) + {quoting.integer(low)} END"


def _flag_sql(value: str, column: BooleanColumn) -> str:
    """Return SQL of a boolean as the BIGINT 0 or 1, which is NULL if it is dropped."""
    null = "NULL" if column.fill_value is None else f"{int(column.fill_value)}"
    missing = f"WHEN {value} IS NULL THEN {null}::BIGINT"
    return f"CASE {missing} WHEN {value} THEN 1::BIGINT ELSE 0::BIGINT END"


def is_whole(column: IntegerColumn | NumberColumn, step: Fraction, physical: str) -> bool:
    """Return whether steps can be computed with integers, faster than with doubles."""
    if isinstance(column, IntegerColumn):
        return step.denominator == 1
    ends = [Fraction(end) for end in (column.lower, column.upper) if end is not None]
    same = step == 1 and all(end.denominator == 1 and abs(end) <= EXACT for end in ends)
    return same and base_type(physical) in INTEGERS | {"BOOLEAN"}


def _whole_steps_sql(
    value: str, column: IntegerColumn | NumberColumn, low: int, high: int, step: int
) -> str:
    """Return the SQL of an integer in steps, clamped to the bounds and rounded."""
    # least(greatest(...)) would turn a missing value into a bound, and is slower.
    ends = [quoting.integer(end) for end in clamp_integers(column, low, high, step)]
    clamped = (
        f"CASE WHEN {value} < {ends[0]} THEN {ends[0]} WHEN {value} > {ends[1]} THEN {ends[1]} "
        f"ELSE {value} END"
    )
    if step == 1:
        return f"CAST({clamped} AS BIGINT)"
    # Raised above 0 before the division, which rounds towards 0; in 128 bits, because the raised
    # number may exceed 64.
    raised = f"(CAST({clamped} AS HUGEINT) - {quoting.integer(low * step)} + {step // 2})"
    return f"CAST({raised} // {step} + {quoting.integer(low)} AS BIGINT)"


def clamp_integers(
    column: IntegerColumn | NumberColumn, low: int, high: int, step: int
) -> tuple[int, int]:
    """Return the minimum and maximum integers to which a value is clamped."""
    least, most = low * step, high * step
    if column.lower is not None and column.upper is not None:
        least = max(least, -((-column.lower) // 1))
        most = min(most, column.upper // 1)
    return least, most


def _rounded_steps_sql(
    value: str, column: IntegerColumn | NumberColumn, low: int, high: int, step: Fraction
) -> str:
    """Return the SQL of a number in steps, clamped to the bounds and rounded."""
    ends = clamp_floats(column)
    least, most = map(quoting.double, ends)
    scaled = f"least(greatest(CAST({value} AS DOUBLE), {least}), {most})"
    # A step such as 1/100 is no float, but 100 is one: multiplying by it rounds once, dividing by
    # the float 0.01 rounds twice.
    if step.numerator == 1 and step.denominator > 1:
        scaled = f"{scaled} * {quoting.double(Fraction(step.denominator))}"
    elif step != 1:
        scaled = f"{scaled} / {quoting.double(step)}"
    if stays_within(ends, low, high, step):
        return f"CAST(round({scaled}) AS BIGINT)"
    # Clamped again in steps: the bounds as floats are rounded outwards, so their steps may be one
    # too far, by which a row would exceed the sensitivity.
    rounded = f"CAST(round({scaled}) AS HUGEINT)"
    inside = f"least(greatest({rounded}, {quoting.integer(low)}), {quoting.integer(high)})"
    return f"CAST({inside} AS BIGINT)"


def clamp_floats(column: IntegerColumn | NumberColumn) -> tuple[float, float]:
    """Return the minimum and maximum floats to which a value is clamped."""
    # Outwards, so that no value within the declared bounds is moved; see `stays_within`.
    return round_down(Fraction(column.lower or 0)), round_up(Fraction(column.upper or 0))


def stays_within(ends: tuple[float, float], low: int, high: int, step: Fraction) -> bool:
    """Return whether all floats between two ends round to steps from `low` to `high`.

    Multiplying or dividing floats by a positive float, rounded to the nearest float, is monotone,
    and so is rounding to integers. So the results for the two ends, which are computed here as in
    the engine, bound the results of all floats between the ends.
    """
    if step.numerator == 1:
        scaled = [end * float(step.denominator) for end in ends]
    else:
        scaled = [end / float(step) for end in ends]
    if not all(map(math.isfinite, scaled)):
        return False
    least, most = (_nearest_integer(Fraction(end)) for end in scaled)
    return low <= least and most <= high


def _nearest_integer(x: Fraction) -> int:
    """Return the integer nearest to `x`, halves away from zero."""
    sign = -1 if x < 0 else 1
    return sign * ((2 * abs(x) + 1) // 2)
