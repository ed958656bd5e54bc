"""Check that published quantiles are possible: in their intervals, and in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Flags
from dprelease.postprocess.quantile_order import at_of, is_quantile
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import too_wide
from dprelease.query.resolve import Query
from dprelease.tables.published_columns import quantile_companions
from dprelease.verification.published.published_quality import hidden_cells, published_reasons
from dprelease.verification.published.published_steps import (
    Steps,
    is_postprocessed,
    values_in_steps,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PublishedQuantile:
    """A published quantile with the ends of its interval, if it has one.

    `hidden`: the cells (n,) that a declared rule left empty.
    """

    column: OutputColumn
    value: Steps
    ends: tuple[Steps, ...]
    hidden: Flags

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the bounds of the column in steps."""
        lattice = self.column.parts[0].aggregate.lattice
        if lattice is None:
            raise TypeError("a quantile has bounds")
        return lattice.lower, lattice.upper

    @property
    def at(self) -> Fraction:
        """Return the fraction of values below the quantile."""
        return at_of(self.column)


def published_quantile(batch: pa.RecordBatch, column: OutputColumn) -> PublishedQuantile | None:
    """Return a quantile as it is published; None if a number is not a multiple of the step."""
    endings = ("",) if column.interval is None else ("", "_lower", "_upper")
    step = column.step or Fraction(1)
    found = [values_in_steps(batch.column(f"{column.name}{ending}"), step) for ending in endings]
    numbers = [one for one in found if one is not None]
    if len(numbers) < len(found):
        return None
    value, *ends = numbers
    reasons = published_reasons(batch, column)
    hidden = hidden_cells(column, reasons, [~one.known for one in (value, *ends)])
    return PublishedQuantile(column, value, tuple(ends), hidden)


def is_possible_quantile(batch: pa.RecordBatch, column: OutputColumn) -> bool:
    """Return whether quantiles lie in their intervals, and both within the column's bounds.

    Only minima and maxima are ever empty without a declared rule. Intervals are empty where a rule
    left the value empty, and nowhere else.
    """
    arrays = {name: batch.column(name) for name in batch.schema.names}
    reasons = published_reasons(batch, column)
    expected = quantile_companions(column, arrays, reasons)
    if any(not arrays[name].equals(array) for name, array in expected.items()):
        return False
    found = published_quantile(batch, column)
    if found is None or (found.value.known & found.hidden).any():
        return False
    if not (found.value.known | found.hidden).all() and found.at not in (0, 1):
        return False
    if any(not np.array_equal(end.known, ~found.hidden) for end in found.ends):
        return False
    return _are_in_order(found)


def _are_in_order(found: PublishedQuantile) -> bool:
    """Return whether values, ends of intervals and bounds are in order, as far as not empty.

    The lower end of a minimum and the upper end of a maximum are bounds of the column, and their
    other end is the value.
    """
    column, known, (low, high) = found.column, found.value.known, found.bounds
    value = found.value.numbers[known]
    lower, upper = (end.numbers[known] for end in found.ends) if found.ends else (value, value)
    if not bool(((lower <= value) & (value <= upper)).all()):
        return False
    limit = column.post.suppress_above
    if limit is not None:
        point, *both = (x.astype(np.float64) for x in (value, lower, upper))
        if bool(too_wide(point, both[0], both[1], limit).any()):
            return False
    if column.post.changes_values:
        return is_postprocessed(value, column)
    if found.ends and found.at in (0, 1) and low < high:
        outer, inner, bound = (upper, lower, high) if found.at else (lower, upper, low)
        if not bool((outer == bound).all() and (inner == value).all()):
            return False
    ends = [end.numbers[end.known] for end in found.ends]
    return all(bool(((low <= x) & (x <= high)).all()) for x in (value, *ends))


def are_possible_quantiles(batch: pa.RecordBatch, query: Query) -> bool:
    """Return whether the quantiles of each source column don't contradict each other."""
    groups: dict[str | None, list[PublishedQuantile]] = {}
    for column in query.columns:
        if is_quantile(column) and (one := published_quantile(batch, column)) is not None:
            groups.setdefault(column.parts[0].aggregate.column, []).append(one)
    return all(_ascend(group) and _are_extremes_right(group) for group in groups.values())


def _are_alike(one: PublishedQuantile, other: PublishedQuantile) -> bool:
    """Return whether post-processing changes the values of two quantiles in the same way.

    Otherwise, rounding may change the order of their values.
    """
    plain = [
        replace(post, suppress_people=None, suppress_above=None, labels=False)
        for post in (one.column.post, other.column.post)
    ]
    return plain[0] == plain[1]


def _ascend(group: Sequence[PublishedQuantile]) -> bool:
    """Return whether larger quantiles have no smaller values and no smaller ends."""
    for smaller, larger in permutations(group, 2):
        if smaller.at >= larger.at or not _are_alike(smaller, larger):
            continue
        pairs = [(smaller.value, larger.value)]
        if smaller.at > 0 and larger.at < 1:
            pairs += zip(smaller.ends, larger.ends, strict=False)  # one of them may have none
        if any((a.known & b.known & (a.numbers > b.numbers)).any() for a, b in pairs):
            return False
    return True


def _are_extremes_right(group: Sequence[PublishedQuantile]) -> bool:
    """Return whether minima and maxima are empty where they must be, and nowhere else.

    A minimum is empty if it is the upper bound, above another quantile or above a maximum; a
    maximum likewise.
    """
    for one in group:
        if one.at not in (0, 1) or one.bounds[0] == one.bounds[1]:
            continue
        if one.column.post.changes_values:
            continue  # rounding may have moved the value to a bound
        sign, bound = (1, one.bounds[1]) if one.at == 0 else (-1, one.bounds[0])
        value = _selected(one)
        contradicts, unsure = value.known & (value.numbers == bound), ~value.known
        for other in (other for other in group if other.at != one.at):
            against = _selected(other)
            comparable = against.known & _are_alike(one, other)
            beyond = sign * value.numbers > sign * against.numbers
            contradicts |= value.known & comparable & beyond
            unsure |= ~comparable
        shown = one.value.known
        if (shown & contradicts).any() or (~shown & ~one.hidden & ~contradicts & ~unsure).any():
            return False
    return True


def _selected(one: PublishedQuantile) -> Steps:
    """Return the values of a quantile, for an empty extreme the end of its interval next to it."""
    if one.at not in (0, 1) or not one.ends:
        return one.value
    inner = one.ends[1 if one.at == 0 else 0]
    return Steps(np.where(one.value.known, one.value.numbers, inner.numbers), inner.known)
