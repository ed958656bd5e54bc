"""Check the quality of published values: it follows from the values and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Flags, Floats
from dprelease.postprocess.derived_values import ends_of
from dprelease.postprocess.estimates import values_at_ends
from dprelease.postprocess.finishing import coded_cells, finished_fractions
from dprelease.query.forms.centred_moments import MEAN, STDDEV, VARIANCE
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import (
    AT_BOUND,
    CODES,
    CONFIDENCE,
    FEW_PEOPLE,
    SUPPRESSED,
    UNSURE_DIVISOR,
    too_wide,
)
from dprelease.tables.published_columns import quality_array

if TYPE_CHECKING:
    import pyarrow as pa

TOLERANCE = 1e-9
"""Tolerance of ends at the bounds, as a share of the larger bound."""


def published_reasons(batch: pa.RecordBatch, column: OutputColumn) -> dict[str, Flags]:
    """Return which cells (n,) a batch gives a reason for, by the codes that the rules allow."""
    allowed = {
        UNSURE_DIVISOR: not column.form.on_lattice,
        FEW_PEOPLE: column.post.leaves_small_empty,
        SUPPRESSED: column.post.suppress_above is not None,
    }
    return {
        code: has_code(batch, column, code) for code, is_allowed in allowed.items() if is_allowed
    }


def hidden_cells(
    column: OutputColumn, reasons: Mapping[str, Flags], empty: Sequence[Flags]
) -> Flags:
    """Return the cells (n,) that a declared rule left empty; their intervals are empty, too.

    The quality says so; without it, these are the cells in which all is empty, if there is a rule.
    `empty`: which cells (n,) have no value, no lower end and no upper end.
    """
    if column.quality:
        rules = [reasons[code] for code in (FEW_PEOPLE, SUPPRESSED) if code in reasons]
        hidden: Flags = np.logical_or.reduce([np.zeros_like(empty[0]), *rules])
        return hidden
    hidden = np.logical_and.reduce(list(empty))
    return hidden if column.post.leaves_cells_empty else np.zeros_like(hidden)


def are_possible_fractions(batch: pa.RecordBatch, column: OutputColumn) -> bool:
    """Return whether fractions, their intervals and their quality are possible."""
    values, lower, upper = (
        _floats(batch, f"{column.name}{ending}") for ending in ("", "_lower", "_upper")
    )
    reasons = published_reasons(batch, column)
    hidden = hidden_cells(column, reasons, [np.isnan(part) for part in (values, lower, upper)])
    return _are_possible_intervals(column, values, (lower, upper), hidden) and (
        not column.quality or _is_possible_quality(batch, column, values, (lower, upper))
    )


def _are_possible_intervals(
    column: OutputColumn, values: Floats, ends: tuple[Floats, Floats], hidden: Flags
) -> bool:
    """Return whether intervals lie within the bounds, and are empty in exactly the hidden cells.

    Means lie in their intervals, and values whose interval is too wide are not shown.
    """
    lower, upper = ends
    known = ~np.isnan(values)
    if not (np.isnan(lower) & np.isnan(upper))[hidden].all():
        return False
    if not _are_possible_ends(column, lower[~hidden], upper[~hidden]):
        return False
    if np.any(known & (np.isnan(lower) | np.isnan(upper))):
        return False
    if column.form == MEAN and not column.post.changes_values:
        # Rounding and codes may move a mean out of its interval, other means lie within.
        slack = TOLERANCE * max(map(abs, ends_of(column)))
        if np.any(known & ((values < lower - slack) | (values > upper + slack))):
            return False
    limit = column.post.suppress_above
    if limit is None or (column.margin or CONFIDENCE) != CONFIDENCE:
        return True
    return not too_wide(values, lower, upper, limit).any()


def _is_possible_quality(
    batch: pa.RecordBatch, column: OutputColumn, values: Floats, ends: tuple[Floats, Floats]
) -> bool:
    """Return whether the quality follows from the values and their intervals.

    It is computed again if the intervals have its confidence. Wider intervals show only that it is
    at least as good, and narrower ones that it is at most as good.
    """
    published, reasons = batch.column(f"{column.name}_quality"), published_reasons(batch, column)
    moved = has_code(batch, column, AT_BOUND)
    empty = np.logical_or.reduce(list(reasons.values()))
    if not np.array_equal(empty, np.isnan(values)) or published.null_count:
        return False
    if not _are_possible_marks(column, values, moved):
        return False
    expected = quality_array(column, values, *ends, at_bound=moved, emptied=reasons)
    confidence = column.margin or CONFIDENCE
    if confidence == CONFIDENCE:
        return bool(published.equals(expected))
    found = published.to_pylist()
    if not set(found) <= set(CODES):
        return False
    ranks = [[CODES.index(code) for code in codes] for codes in (found, expected.to_pylist())]
    better, worse = ranks if confidence > CONFIDENCE else ranks[::-1]
    return all(a <= b for a, b in zip(better, worse, strict=True))


def _are_possible_marks(column: OutputColumn, values: Floats, moved: Flags) -> bool:
    """Return whether exactly the values at a bound are marked as such.

    Variances are moved to a value above half of the largest one, depending on the number of rows,
    so that only smaller ones are checked. After rounding, only marks of values at no bound are.
    """
    (low, high), post = ends_of(column), column.post
    at_bound = values_at_ends(values, (low, high)) | coded_cells(values, post)
    if column.form in (VARIANCE, STDDEV):
        high *= (0.5 if column.form == VARIANCE else math.sqrt(0.5)) * (1 - TOLERANCE)
    if post.changes_values:
        rounded = finished_fractions(np.array([low, high]), post)
        return not (moved & ~at_bound & (rounded[0] < values) & (values < rounded[1])).any()
    return bool(((moved == at_bound) | (values >= high)).all()) if low < high else not moved.any()


def _are_possible_ends(column: OutputColumn, lower: Floats, upper: Floats) -> bool:
    """Return whether the ends are in order, and within the bounds; no end is beyond all numbers."""
    low, high = ends_of(column)
    slack = TOLERANCE * max((abs(end) for end in (low, high) if math.isfinite(end)), default=0.0)
    ordered = np.isnan(lower) | np.isnan(upper) | (lower <= upper)
    above = (lower >= low - slack) | (np.isnan(lower) & math.isinf(low))
    below = (upper <= high + slack) | (np.isnan(upper) & math.isinf(high))
    return bool((ordered & above & below).all())


def _floats(batch: pa.RecordBatch, name: str) -> Floats:
    """Return a column of doubles, with NaN for missing numbers."""
    numbers: Floats = batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def has_code(batch: pa.RecordBatch, column: OutputColumn, code: str) -> Flags:
    """Return which cells (n,) have a quality code; none if no quality is published."""
    if not column.quality:
        return np.zeros(len(batch), dtype=np.bool_)
    codes = batch.column(f"{column.name}_quality").to_pylist()
    return np.array([one == code for one in codes], dtype=np.bool_)
