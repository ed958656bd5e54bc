"""How each declared column is read from whatever type the source stores it in.

Every expression here is total: no value, of any type, can make it fail. Missing comes first (NULL,
NaN, text that does not parse, infinite dates become NULL), then the declared replacement, then the
clamp, then the integer, clamped again.
"""

from __future__ import annotations

import re
from fractions import Fraction

from dprelease.errors import DataError
from dprelease.numerics.rounding import round_down, round_up
from dprelease.query import quoting
from dprelease.query.aggregate import Sum
from dprelease.schema.columns import (
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TimestampColumn,
)

SMALL_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
WIDE_INTEGERS = frozenset({"UBIGINT", "HUGEINT", "UHUGEINT"})
INTEGERS = SMALL_INTEGERS | WIDE_INTEGERS
FLOATS = frozenset({"FLOAT", "DOUBLE"})
TEXTS = frozenset({"VARCHAR", "ENUM"})
TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"})
ZONED = frozenset({"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "TIMESTAMP_NS WITH TIME ZONE"})
INSTANTS = (TIMES | ZONED) - {"TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP_NS WITH TIME ZONE"}
PLAIN = INTEGERS | FLOATS | TEXTS | TIMES | ZONED | {"BOOLEAN", "DATE", "DECIMAL", "UUID", "TIME"}

DECLARED_AS = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "category": "VARCHAR",
    "text": "VARCHAR",
}
"""The physical type that a plan assumes when the source is not there to be asked."""

WHOLE_TEXT = r"\s*[+-]?[0-9]{1,38}\s*"
NUMBER_TEXT = r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?\s*"
WIDEST_EXACT = 2**125  # sums and differences of two such numbers are 128-bit integers
HUGE = "170141183460469231731687303715884105727"


def base_type(physical: str) -> str:
    """Return a DuckDB type without its parameters; LIST for any array or list."""
    name = physical.upper().strip()
    if name.endswith("]"):
        return "LIST"
    return re.sub(r"\(.*\)", "", name).strip()


def typed(name: str, column: Column, physical: str) -> str:
    """Return the value of a column as its declared kind; NULL where it is missing.

    Raises
    ------
    DataError
        DP-DATA-004 if no value of the stored type could be read as declared.
    """
    source, stored = quoting.identifier(name), base_type(physical)
    if isinstance(column, CutColumn):
        raise TypeError("a cut has no stored column")
    match column.type:
        case "integer":
            found = _whole(source, stored)
        case "number":
            found = _number(source, stored)
        case "boolean":
            found = _boolean(source, stored)
        case "date":
            found = _date(source, stored, column)
        case "timestamp":
            found = _timestamp(source, stored, column)
        case _:
            found = _text(source, stored)
    if found is None:
        raise DataError("DP-DATA-004", column=name, physical=stored, declared=column.type)
    return found


def _text(source: str, stored: str) -> str | None:
    if stored == "VARCHAR":
        return source
    if stored in INSTANTS:
        return f"CAST({_instant(source, stored)} AS VARCHAR)"
    return f"CAST({source} AS VARCHAR)" if stored in PLAIN else None


def _whole(source: str, stored: str) -> str | None:
    if stored in SMALL_INTEGERS or stored == "HUGEINT":
        return source
    if stored == "UBIGINT":
        return f"CAST({source} AS HUGEINT)"
    if stored == "UHUGEINT":
        return f"CAST(least({source}, {HUGE}::UHUGEINT) AS HUGEINT)"
    if stored == "BOOLEAN":
        return f"CAST({source} AS INTEGER)"
    if stored in TEXTS:
        text = f"CAST({source} AS VARCHAR)"
        return (
            f"CASE WHEN regexp_full_match({text}, {quoting.text(WHOLE_TEXT)}) "
            f"THEN TRY_CAST(trim({text}) AS HUGEINT) END"
        )
    if stored in FLOATS or stored == "DECIMAL":
        value = f"CAST({source} AS DOUBLE)" if stored == "FLOAT" else source
        whole = f"{value} = trunc({value})"
        finite = f"isfinite({value}) AND " if stored in FLOATS else ""
        return f"CASE WHEN {finite}{whole} THEN TRY_CAST({value} AS HUGEINT) END"
    return None


def _number(source: str, stored: str) -> str | None:
    if stored in SMALL_INTEGERS:
        return source
    if stored in WIDE_INTEGERS:
        return _whole(source, stored)
    if stored == "BOOLEAN":
        return f"CAST({source} AS INTEGER)"
    if stored == "DECIMAL":
        return f"CAST({source} AS DOUBLE)"
    if stored in FLOATS:
        return f"CASE WHEN NOT isnan({source}) THEN CAST({source} AS DOUBLE) END"
    if stored in TEXTS:
        text = f"CAST({source} AS VARCHAR)"
        return (
            f"CASE WHEN regexp_full_match({text}, {quoting.text(NUMBER_TEXT)}) "
            f"THEN TRY_CAST(trim({text}) AS DOUBLE) END"
        )
    return None


def _boolean(source: str, stored: str) -> str | None:
    if stored == "BOOLEAN":
        return source
    if stored in INTEGERS | FLOATS | {"DECIMAL"}:
        source = f"CAST({source} AS DOUBLE)" if stored == "DECIMAL" else source  # 1 may not fit
        return f"CASE WHEN {source} = 1 THEN TRUE WHEN {source} = 0 THEN FALSE END"
    if stored in TEXTS:
        text = f"lower(trim(CAST({source} AS VARCHAR)))"
        return (
            f"CASE WHEN {text} IN ('true', 't', '1') THEN TRUE "
            f"WHEN {text} IN ('false', 'f', '0') THEN FALSE END"
        )
    return None


def _date(source: str, stored: str, column: DateColumn) -> str | None:
    if stored == "DATE":
        day = source
    elif stored in TIMES | ZONED:
        day = f"CAST({_instant(source, stored)} AS DATE)"
    elif stored in TEXTS:
        parsed = f"try_strptime(CAST({source} AS VARCHAR), {quoting.text(column.format)})"
        day = f"CAST({parsed} AS DATE)"
    else:
        return None
    if column.lower is None or column.upper is None:
        return f"CASE WHEN isfinite({day}) THEN {day} END"
    bounds = f"{quoting.day(column.lower)} AND {quoting.day(column.upper)}"
    return f"CASE WHEN {day} BETWEEN {bounds} THEN {day} END"


def _timestamp(source: str, stored: str, column: TimestampColumn) -> str | None:
    if stored in TIMES | ZONED | {"DATE"}:
        return _instant(source, stored)
    if stored in TEXTS:
        return f"try_strptime(CAST({source} AS VARCHAR), {quoting.text(column.format)})"
    return None


def _instant(source: str, stored: str) -> str:
    """Return a TIMESTAMP in UTC within the years 1 to 9999; NULL beyond, where casts can fail."""
    first, last = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
    if stored in ZONED:
        wide = f"TRY_CAST({source} AS TIMESTAMPTZ)"
        inside = f"{wide} BETWEEN TIMESTAMPTZ '{first}+00' AND TIMESTAMPTZ '{last}+00'"
        return f"CASE WHEN {inside} THEN {wide} AT TIME ZONE 'UTC' END"
    wide = f"TRY_CAST({source} AS TIMESTAMP)"
    inside = f"{wide} BETWEEN TIMESTAMP '{first}' AND TIMESTAMP '{last}'"
    return f"CASE WHEN {inside} THEN {wide} END"


def steps(value: str, aggregate: Sum, column: IntegerColumn | NumberColumn, physical: str) -> str:
    """Return a typed value as a BIGINT number of lattice steps; NULL if it is dropped.

    Rounding is half away from zero on the quotient of doubles; whole values on whole steps are
    divided exactly, half up from the lower bound.
    """
    low, high, step = aggregate.lower, aggregate.upper, aggregate.step
    whole = isinstance(column, IntegerColumn) or base_type(physical) in INTEGERS | {"BOOLEAN"}
    null = column.null_value
    if whole and step.denominator == 1 and max(abs(low), abs(high)) * step < WIDEST_EXACT:
        found = _whole_steps(value, column, low, high, step.numerator)
        if null is None:
            return found  # a missing value stays missing in all of it
    else:
        found = _rounded_steps(value, column, low, high, step)
    if null is None:
        return f"CASE WHEN {value} IS NOT NULL THEN {found} END"
    inside = min(max(_nearest(null / step), low), high)
    return f"CASE WHEN {value} IS NOT NULL THEN {found} ELSE {inside} END"


def _whole_steps(
    value: str, column: IntegerColumn | NumberColumn, low: int, high: int, step: int
) -> str:
    least, most = low * step, high * step
    if column.lower is not None and column.upper is not None:
        least = max(least, -((-column.lower) // 1))
        most = min(most, column.upper // 1)
    # Not least(greatest(...)), which takes a missing value for a bound, and is slower.
    ends = [quoting.integer(end) for end in (least, most)]
    clamped = (
        f"CASE WHEN {value} < {ends[0]} THEN {ends[0]} WHEN {value} > {ends[1]} THEN {ends[1]} "
        f"ELSE {value} END"
    )
    if step == 1:
        return f"CAST({clamped} AS BIGINT)"
    raised = f"(CAST({clamped} AS HUGEINT) - {quoting.integer(low * step)} + {step // 2})"
    return f"CAST({raised} // {step} + {quoting.integer(low)} AS BIGINT)"


def _rounded_steps(
    value: str, column: IntegerColumn | NumberColumn, low: int, high: int, step: Fraction
) -> str:
    lower, upper = Fraction(column.lower or 0), Fraction(column.upper or 0)
    least, most = quoting.double(round_down(lower)), quoting.double(round_up(upper))
    clamped = f"least(greatest(CAST({value} AS DOUBLE), {least}), {most})"
    if step.numerator == 1:
        scaled = f"{clamped} * {quoting.double(Fraction(step.denominator))}"
    else:
        scaled = f"{clamped} / {quoting.double(step)}"
    rounded = f"CAST(round({scaled}) AS HUGEINT)"
    inside = f"least(greatest({rounded}, {quoting.integer(low)}), {quoting.integer(high)})"
    return f"CAST({inside} AS BIGINT)"


def _nearest(x: Fraction) -> int:
    """Return the whole number nearest to `x`, halves away from zero."""
    sign = -1 if x < 0 else 1
    return sign * ((2 * abs(x) + 1) // 2)
