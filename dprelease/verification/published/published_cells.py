"""Check that the published cells of a query are possible under its declaration, for some noise.

Companion columns follow from the value and its noise, post-processing must not change the value,
rules that leave cells empty were applied, and a selected value lies within its bounds. Columns that
follow from other published columns are computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Flags
from dprelease.postprocess.finishing import post_process
from dprelease.postprocess.quantile_order import at_of, is_quantile
from dprelease.query.forms.single_part import LABEL
from dprelease.query.measurement import OutputColumn
from dprelease.query.post import PostProcessing
from dprelease.query.quality import CONFIDENCE, too_wide
from dprelease.query.resolve import Query
from dprelease.tables import formats
from dprelease.tables.arrays import key_values
from dprelease.tables.published_columns import (
    candidates_of,
    lattice_companions,
    lattice_margin,
    quantile_companions,
)
from dprelease.verification.published.published_quality import (
    are_possible_fractions,
    hidden_cells,
    published_reasons,
)
from dprelease.verification.published.recomputed_columns import (
    Steps,
    follow_from_each_other,
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
        # The rule leaves cells with wider intervals empty, so that none of them is published.
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
        value = _quantile_values(one)
        contradicts, unsure = value.known & (value.numbers == bound), ~value.known
        for other in (other for other in group if other.at != one.at):
            against = _quantile_values(other)
            comparable = against.known & _are_alike(one, other)
            beyond = sign * value.numbers > sign * against.numbers
            contradicts |= value.known & comparable & beyond
            unsure |= ~comparable
        shown = one.value.known
        if (shown & contradicts).any() or (~shown & ~one.hidden & ~contradicts & ~unsure).any():
            return False
    return True


def _quantile_values(one: PublishedQuantile) -> Steps:
    """Return the values of a quantile, for an empty extreme the end of its interval next to it."""
    if one.at not in (0, 1) or not one.ends:
        return one.value
    inner = one.ends[1 if one.at == 0 else 0]
    return Steps(np.where(one.value.known, one.value.numbers, inner.numbers), inner.known)


def may_be_published(path: Path, query: Query, mechanisms: Mapping[str, Randomizer]) -> bool:
    """Return whether all cells of a table and their companion columns are possible.

    `path` is a file with the columns of its query, `mechanisms` the noise of each measurement.
    """
    import pyarrow as pa

    try:
        return all(are_possible_cells(batch, query, mechanisms) for batch in _batches(path, query))
    except (OSError, pa.ArrowException):
        return False


def _batches(path: Path, query: Query) -> Iterator[pa.RecordBatch]:
    """Yield the cells of a table; all at once if a column is computed from several cells."""
    if any(column.form.needs_all_cells for column in query.columns):
        yield from formats.PUBLISHED_FORMAT.read(path).combine_chunks().to_batches()
    else:
        yield from formats.PUBLISHED_FORMAT.batches(path, None)


def are_possible_cells(
    batch: pa.RecordBatch, query: Query, mechanisms: Mapping[str, Randomizer]
) -> bool:
    """Return whether the cells of a batch are possible, each alone and all together."""
    return (
        all(_is_possible_column(batch, query, column, mechanisms) for column in query.columns)
        and are_possible_quantiles(batch, query)
        and follow_from_each_other(batch, query, mechanisms)
    )


def _is_possible_column(
    batch: pa.RecordBatch, query: Query, column: OutputColumn, mechanisms: Mapping[str, Randomizer]
) -> bool:
    """Return whether the values of a column, and their companions, are possible."""
    values = batch.column(column.name)
    if column.form == LABEL:
        import pyarrow.compute as pc

        known = pc.is_in(values, value_set=key_values(candidates_of(query, column)))
        return values.null_count == 0 and bool(pc.all(known).as_py() is not False)
    if not column.form.on_lattice:
        return are_possible_fractions(batch, column)
    if is_quantile(column):
        return is_possible_quantile(batch, column)
    return _are_possible_multiples(batch, column, mechanisms)


def _are_possible_multiples(
    batch: pa.RecordBatch, column: OutputColumn, mechanisms: Mapping[str, Randomizer]
) -> bool:
    """Return whether multiples of a step, and their companions, are possible."""
    values, post = batch.column(column.name), column.post
    if values.null_count and not post.leaves_cells_empty:
        return False
    expected_columns = lattice_companions(
        column, values, mechanisms, published_reasons(batch, column)
    )
    if any(not batch.column(name).equals(array) for name, array in expected_columns.items()):
        return False
    if post == PostProcessing():
        return True  # the noise may be any number of steps
    step = column.step or Fraction(1)
    found = values_in_steps(values, step)
    if found is None:
        return False
    shown = found.numbers[found.known]
    if not is_postprocessed(shown, column):
        return False
    if post.suppress_below is not None:
        least = np.array([-(-post.suppress_below // step)], dtype=np.int64)
        if np.any(shown < post_process(least, post, step)[0]):
            return False
    if post.suppress_above is not None:
        steps, width = (
            shown.astype(np.float64),
            float(lattice_margin(column, mechanisms, CONFIDENCE)),
        )
        return not too_wide(steps, steps - width, steps + width, post.suppress_above).any()
    return True
