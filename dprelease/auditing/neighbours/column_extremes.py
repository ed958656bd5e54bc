"""The values of one column that an audit tries: usual ones, those at bounds, and odd ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from dprelease.rehearsal.column_values import Literals
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TextColumn,
    TimestampColumn,
)

MANY_VALUES = 40
"""Values of a long list that are tried: first and last ones, and some between."""

UNDECLARED = "undeclared"
FIRST_DAY, LAST_DAY = date(2020, 1, 1), date(2029, 12, 31)


@dataclass(frozen=True, slots=True)
class Extremes:
    """`usual`: what a row that counts may say. `odd`: what is missing, beyond, or none at all."""

    usual: tuple[object, ...]
    odd: tuple[object, ...]


def extremes_of(column: Column, literals: Literals) -> Extremes:
    """Return the values of a stored column, and of what conditions compare it with."""
    match column:
        case CategoryColumn():
            texts = _some(column.values or ())
            return Extremes(texts, (None, "", UNDECLARED, " ", f"{texts[0]} "))
        case BooleanColumn():
            return Extremes((True, False), (None, 2, "maybe"))
        case IntegerColumn():
            return _of_integers(column, literals)
        case NumberColumn():
            return _of_numbers(column, literals)
        case DateColumn() | TimestampColumn():
            return _of_days(column, literals)
        case TextColumn():
            texts = tuple(dict.fromkeys((*literals.texts, *(f"text {i}" for i in range(6)))))
            return Extremes(texts, (None, "", " "))
    raise TypeError("a cut has no stored column")


def _some(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(values) <= MANY_VALUES:
        return tuple(values)
    stride = max(1, len(values) // (MANY_VALUES // 2))
    ends = (*values[: MANY_VALUES // 4], *values[-MANY_VALUES // 4 :])
    return tuple(dict.fromkeys((*ends, *values[::stride])))


def _of_integers(column: IntegerColumn, literals: Literals) -> Extremes:
    near = [int(number) + by for number in literals.numbers for by in (-1, 0, 1)]
    low, high = column.lower, column.upper
    if low is None or high is None:
        low, high = min([0, *near]), max([9, *near])
        return Extremes(
            tuple(dict.fromkeys((low, high, *near, 1, 2, 3))), (None, 10**15, -(10**15))
        )
    step, middle = column.step, (low + high) // 2
    inside = (low, high, middle, low + step // 2, high - step // 2, *near, 0, 1)
    usual = [value for value in inside if low <= value <= high]
    beyond = (low - 1, high + 1, -(2**63), 2**63 - 1, None, math.nan, math.inf, -math.inf, 0.5, "x")
    return Extremes(tuple(dict.fromkeys(usual)), beyond)


def _of_numbers(column: NumberColumn, literals: Literals) -> Extremes:
    near = [float(number) + by for number in literals.numbers for by in (-1.0, 0.0, 1.0)]
    lattice = column.lattice
    if lattice is None:
        return Extremes(tuple(dict.fromkeys((0.0, 1.0, *near))), (None, math.nan, math.inf, 1e308))
    low, high, step = float(column.lower or 0), float(column.upper or 0), float(lattice.step)
    inside = (low, high, (low + high) / 2, low + step / 2, high - step / 2, low + step, *near, 0.0)
    usual = [value for value in inside if low <= value <= high]
    odd = (
        None, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, -1e308,
        low - step, high + step, "x",
    )  # fmt: skip
    return Extremes(tuple(dict.fromkeys(usual)), odd)


def _of_days(column: DateColumn | TimestampColumn, literals: Literals) -> Extremes:
    low, high = FIRST_DAY, LAST_DAY
    if isinstance(column, DateColumn) and column.lower is not None and column.upper is not None:
        low, high = column.lower, column.upper
    day = timedelta(days=1)
    near = [at + by for at in literals.days for by in (-day, timedelta(0), day)]
    days = list(dict.fromkeys((low, high, low + (high - low) // 2, *near)))
    odd: tuple[object, ...] = (None, date(1, 1, 1), date(9999, 12, 31), "x")
    if isinstance(column, DateColumn):
        return Extremes(tuple(days), odd)
    return Extremes(tuple(datetime(at.year, at.month, at.day, 12) for at in days), odd)
