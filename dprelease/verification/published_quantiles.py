"""Check that published numbers on a lattice are possible, and quantiles in their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Flags, Integers
from dprelease.postprocess.finishing import post_process
from dprelease.postprocess.quantile_order import at_of
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import too_wide
from dprelease.tables.published_columns import quantile_companions
from dprelease.verification.published_quality import hidden_cells, published_reasons

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 2**63 - 1
"""Maximum of a published value in steps, which is larger than any noised vector or sum of them."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Published numbers (n,) of a column in steps; `known`: which of them are not empty."""

    numbers: Integers
    known: Flags


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


def is_postprocessed(steps: Integers, column: OutputColumn) -> bool:
    """Return whether post-processing leaves values unchanged; bounds may be unrounded."""
    post, step = column.post, column.step or Fraction(1)
    ends = [int(end / step) for end in (post.bottom_code, post.top_code) if end is not None]
    again, _ = post_process(steps, post, step)
    return bool(((again == steps) | np.isin(steps, ends)).all())


def values_in_steps(values: pa.Array, step: Fraction) -> Steps | None:
    """Return values as numbers of noise steps; None if a value is not a multiple of the step."""
    known = values.is_valid().to_numpy(zero_copy_only=False)
    if step == 1:
        return Steps(values.fill_null(0).to_numpy(), known)
    found = [Fraction(value or 0) / step for value in values.to_pylist()]
    if any(value.denominator != 1 or abs(value) > MOST for value in found):
        return None
    return Steps(np.array([int(value) for value in found], dtype=np.int64), known)
