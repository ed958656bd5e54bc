"""Put the quantiles of one column in order, each within its interval: post-processing only.

Each quantile and each end of an interval is selected independently, so they may contradict each
other. What is published doesn't: lower <= value <= upper, and larger quantiles have no smaller
values and no smaller ends. Every end moves away from its quantile or stays, so no interval covers
less often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.postprocess.margins import Estimates
from dprelease.query.measurement import OutputColumn, quantile_vector_name
from dprelease.query.resolve import Query

# Ratios of two selected quantiles with intervals: post-processing only.
#
# If each of two quantiles lies in its own interval, their ratio lies between the quotients of the
# ends. So it is missed at most as often as both together (Bonferroni). The value is at least 1,
# because the divisor is the smaller quantile.


def quantile_ratio_estimates(
    over: Sequence[Floats], under: Sequence[Floats], most: float
) -> Estimates:
    """Return the ratios of quantiles of numbers that are not negative.

    A ratio is unsure if the interval of its divisor reaches 0.

    - `over`, `under`: the larger and the smaller quantile of each cell (n,), and the ends of their
      intervals.
    - `most`: the largest ratio that the bounds allow, which may be infinite.
    """
    # Values and ends are selected independently, so they need not be in order.
    upper_ends, lower_ends = np.sort(np.stack(over), axis=0), np.sort(np.stack(under), axis=0)
    unsure = ~(lower_ends[0] > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(under[0] > 0.0, np.maximum(over[0] / under[0], 1.0), np.nan)
        low = np.where(lower_ends[2] > 0.0, upper_ends[0] / lower_ends[2], 1.0)
        high = np.where(unsure, most, upper_ends[2] / lower_ends[0])
    low, high = np.fmin(np.maximum(low, 1.0), values), np.fmax(np.maximum(high, 1.0), values)
    return Estimates(values, low, high, unsure, np.zeros_like(unsure))


Vectors = Mapping[str, Integers]


@dataclass(slots=True)
class QuantileSteps:
    """A quantile in every cell (cells,), in steps: its values, interval, and cells without a value.

    The values of empty cells have no meaning.
    """

    values: Integers
    lower: Integers
    upper: Integers
    empty: Flags


def quantile_steps(query: Query, column: OutputColumn, vectors: Vectors) -> QuantileSteps:
    """Return one quantile of every cell, consistent with all quantiles of its column.

    * The values of quantiles are sorted, and moved into their intervals.
    * A minimum at the upper bound of the column, or a maximum at the lower bound, states nothing
      about the values of the cell, and is left empty. So are both if the minimum is above the
      maximum: there are too few rows for the two.
    * A minimum above another quantile, or a maximum below one, is left empty, too. The other
      quantile is not moved: a minimum lies some rows above the least value on purpose, so the
      contradiction says nothing about the quantile.
    """
    source = column.parts[0].aggregate.column
    columns = [
        other
        for other in query.columns
        if is_quantile(other) and other.parts[0].aggregate.column == source
    ]
    found = {other.name: _selected_steps(other, vectors) for other in columns}
    inner = sorted((other for other in columns if 0 < at_of(other) < 1), key=at_of)
    _order_intervals([found[other.name] for other in inner if has_ends(other)])
    ends = [[found[other.name] for other in columns if at_of(other) == at] for at in (0, 1)]
    _empty_contradicting(*ends)
    if inner:
        _order_values([found[other.name] for other in inner], map(has_ends, inner))
        least, most = found[inner[0].name], found[inner[-1].name]
        for one in ends[0]:
            one.empty = one.empty | (one.values > least.values)
        for one in ends[1]:
            one.empty = one.empty | (one.values < most.values)
    return found[column.name]


def is_quantile(column: OutputColumn) -> bool:
    """Return whether a column is a quantile, measured or read from a tree, and not computed."""
    is_read = column.at is not None or column.parts[0].aggregate.part is not None
    return is_read and column.form.on_lattice


def at_of(column: OutputColumn) -> Fraction:
    """Return the fraction of values below the quantile that a column publishes."""
    return (column.parts[0].aggregate.part or Fraction(0)) if column.at is None else column.at


def has_ends(column: OutputColumn) -> bool:
    """Return whether the ends of a quantile's interval are measured, or read from a tree."""
    return column.interval is not None if column.at is not None else len(column.parts) > 1


def value_vector_name(column: OutputColumn) -> str:
    """Return the name of the vector with the values of a column that is selected, or of its part.

    The vector of a quantile that is read from a tree has a name of its own.
    """
    first = column.parts[0].name
    return first if column.at is None else quantile_vector_name(first, column.at)


def _selected_steps(column: OutputColumn, vectors: Vectors) -> QuantileSteps:
    """Return the selected values of a column, with an interval up to the bounds if it has none."""
    aggregate, at = column.parts[0].aggregate, at_of(column)
    if aggregate.lattice is None:
        raise TypeError("a quantile is a number of steps")
    values = vectors[value_vector_name(column)]
    bounds = aggregate.lattice.lower, aggregate.lattice.upper
    lower, upper = (np.full_like(values, bound) for bound in bounds)
    if column.at is not None and has_ends(column):
        names = [quantile_vector_name(column.parts[0].name, column.at, side) for side in (-1, 1)]
        lower, upper = (vectors[name] for name in names)
    elif has_ends(column):
        lower, upper = (vectors[part.name] for part in column.parts[1:])
    empty = np.zeros(values.shape, dtype=np.bool_)
    if at in (0, 1) and bounds[0] < bounds[1]:
        lower, upper = (values, upper) if at else (lower, values)
        empty = values == bounds[0 if at else 1]
    return QuantileSteps(values, np.minimum(lower, upper), np.maximum(lower, upper), empty)


def _order_intervals(ascending: Sequence[QuantileSteps]) -> None:
    """Widen the intervals of ascending quantiles so that their ends ascend as well."""
    for smaller, larger in reversed(list(pairwise(ascending))):
        smaller.lower = np.minimum(smaller.lower, larger.lower)
    for smaller, larger in pairwise(ascending):
        larger.upper = np.maximum(larger.upper, smaller.upper)


def _empty_contradicting(minima: Sequence[QuantileSteps], maxima: Sequence[QuantileSteps]) -> None:
    """Leave minima and maxima empty in cells where a minimum is above a maximum."""
    for least in minima:
        for most in maxima:
            contradict = least.values > most.values
            least.empty, most.empty = least.empty | contradict, most.empty | contradict


def _order_values(ascending: Sequence[QuantileSteps], with_ends: Iterator[bool]) -> None:
    """Sort the values of ascending quantiles, and move each into its interval."""
    values = np.sort(np.stack([one.values for one in ascending]), axis=0)
    limits = _limits_of_values(ascending, with_ends)
    for one, ordered, (low, high) in zip(ascending, values, limits, strict=True):
        one.values = np.clip(ordered, low, high)
        one.lower, one.upper = np.minimum(one.lower, one.values), np.maximum(one.upper, one.values)


def _limits_of_values(
    ascending: Sequence[QuantileSteps], with_ends: Iterator[bool]
) -> list[tuple[Integers, Integers]]:
    """Return the limits to which the values of ascending quantiles are moved.

    These are the ends of the interval, or for a quantile without one, the lower end of the largest
    smaller quantile that has one, and the upper end of the smallest larger such quantile.
    """
    flags = list(with_ends)
    lower, upper = ascending[0].lower, ascending[-1].upper
    lows, highs = [], []
    for one, flag in zip(ascending, flags, strict=True):
        lower = one.lower if flag else lower
        lows.append(lower)
    for one, flag in zip(ascending[::-1], flags[::-1], strict=True):
        upper = one.upper if flag else upper
        highs.append(upper)
    return list(zip(lows, highs[::-1], strict=True))
