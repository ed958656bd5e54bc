"""Check that published numbers on a lattice are possible, and quantiles in their intervals."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.postprocess.finishing import post_process
from dprelease.postprocess.quantile_order import at_of
from dprelease.query.measurement import OutputColumn
from dprelease.query.post import PostProcessing
from dprelease.query.quality import too_wide
from dprelease.tables.published_columns import quantile_companions
from dprelease.verification.published_quality import published_reasons

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 2**63 - 1
"""Maximum of a published value in steps, which is larger than any noised vector or sum of them."""


def is_possible_quantile(batch: pa.RecordBatch, column: OutputColumn) -> bool:
    """Return whether quantiles lie in their intervals, and both within the column's bounds.

    Only minima and maxima are ever empty without suppression, and ends are never empty.
    """
    arrays = {name: batch.column(name) for name in batch.schema.names}
    reasons = published_reasons(batch, column) if column.quality else {}
    expected = quantile_companions(column, arrays, reasons)
    if any(not arrays[name].equals(array) for name, array in expected.items()):
        return False
    values, step = arrays[column.name], column.step or Fraction(1)
    may_be_empty = column.post.leaves_cells_empty or at_of(column) in (0, 1)
    names = [] if column.interval is None else [f"{column.name}_lower", f"{column.name}_upper"]
    if (values.null_count and not may_be_empty) or any(arrays[name].null_count for name in names):
        return False
    found = values_in_steps(values.drop_null(), step)
    ends = [values_in_steps(arrays[name], step) for name in names]
    if found is None or any(end is None for end in ends):
        return False
    known = values.is_valid().to_numpy(zero_copy_only=False)
    return _are_in_order(column, found, [end for end in ends if end is not None], known)


def _are_in_order(
    column: OutputColumn, found: Integers, ends: list[Integers], known: np.ndarray
) -> bool:
    """Return whether values that are not empty, ends of intervals, and bounds are in order.

    The lower end of a minimum and the upper end of a maximum are bounds of the column, and their
    other end is the value.
    """
    lattice, at = column.parts[0].aggregate.lattice, at_of(column)
    if lattice is None:
        return False
    lower, upper = (end[known] for end in ends) if ends else (found, found)
    if not bool(((lower <= found) & (found <= upper)).all()):
        return False
    limit = column.post.suppress_above
    if limit is not None:
        point, low, high = (x.astype(np.float64) for x in (found, lower, upper))
        if bool(too_wide(point, low, high, limit).any()):
            return False
    if column.post != PostProcessing():
        return is_postprocessed(found, column)
    if ends and at in (0, 1) and lattice.lower < lattice.upper:
        outer, inner, bound = (
            (ends[1], lower, lattice.upper) if at else (ends[0], upper, lattice.lower)
        )
        if not bool((outer == bound).all() and (inner == found).all()):
            return False
    return all(bool(((lattice.lower <= x) & (x <= lattice.upper)).all()) for x in (found, *ends))


def is_postprocessed(steps: Integers, column: OutputColumn) -> bool:
    """Return whether post-processing leaves values unchanged; bounds may be unrounded."""
    post, step = column.post, column.step or Fraction(1)
    ends = [int(end / step) for end in (post.bottom_code, post.top_code) if end is not None]
    again, _ = post_process(steps, post, step)
    return bool(((again == steps) | np.isin(steps, ends)).all())


def values_in_steps(values: pa.Array, step: Fraction) -> Integers | None:
    """Return values as numbers of noise steps; None if a value is not a multiple of the step."""
    if step == 1:
        steps: Integers = values.to_numpy()
        return steps
    found = [Fraction(value) / step for value in values.to_pylist()]
    if any(value.denominator != 1 or abs(value) > MOST for value in found):
        return None
    return np.array([int(value) for value in found], dtype=np.int64)
