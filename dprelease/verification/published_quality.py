"""Check the quality of published values: it follows from the values and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Flags, Floats
from dprelease.postprocess.derived_values import ends_of
from dprelease.query.forms.centred_moments import MEAN
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import (
    AT_BOUND,
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
        code: _has_code(batch, column, code) for code, is_allowed in allowed.items() if is_allowed
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
        return np.logical_or.reduce([np.zeros_like(empty[0]), *rules])
    return np.logical_and.reduce(list(empty)) & column.post.leaves_cells_empty


def are_possible_fractions(batch: pa.RecordBatch, column: OutputColumn) -> bool:
    """Return whether the intervals and the quality of fractions are possible.

    Intervals lie within the bounds, and are empty where a rule left the value empty. If they have
    the confidence of the quality, the quality is computed again from them.
    """
    values, lower, upper = (
        _floats(batch, f"{column.name}{ending}") for ending in ("", "_lower", "_upper")
    )
    reasons, known = published_reasons(batch, column), ~np.isnan(values)
    hidden = hidden_cells(column, reasons, [np.isnan(part) for part in (values, lower, upper)])
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
    at_confidence = (column.margin or CONFIDENCE) == CONFIDENCE
    limit = column.post.suppress_above
    if at_confidence and limit is not None and too_wide(values, lower, upper, limit).any():
        return False
    if not column.quality:
        return True
    published = batch.column(f"{column.name}_quality")
    empty = np.logical_or.reduce(list(reasons.values()))
    if not np.array_equal(empty, ~known):
        return False
    if not at_confidence:
        return bool(published.null_count == 0)
    moved = _has_code(batch, column, AT_BOUND)
    return bool(
        published.equals(
            quality_array(column, values, lower, upper, at_bound=moved, emptied=reasons)
        )
    )


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


def _has_code(batch: pa.RecordBatch, column: OutputColumn, code: str) -> Flags:
    """Return which cells (n,) have a quality code; none if no quality is published."""
    if not column.quality:
        return np.zeros(len(batch), dtype=np.bool_)
    codes = batch.column(f"{column.name}_quality").to_pylist()
    return np.array([one == code for one in codes], dtype=np.bool_)
