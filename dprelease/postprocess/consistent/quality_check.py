"""Check the quality of a family's values by another method than the step: from published columns.

The step computes the classes of estimates and integers from errors in fixed-point numbers. Here
they follow from the published standard errors, or from the ends of the published intervals. Margins
that nearly equal a limit count for the classes on both of its sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.consistency.standard_errors import rounding_error
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.postprocess.consistent.derived import DerivedColumn, derived_columns
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable
from dprelease.postprocess.consistent.outputs import (
    estimates_name,
    integer_table_name,
    tables_with_estimates,
)
from dprelease.postprocess.consistent.published import Files, steps_of
from dprelease.query.forms.centred_moments import SUM
from dprelease.query.quality import (
    AT_BOUND,
    CODES,
    CONFIDENCE,
    RELIABLE,
    UNDEFINED,
    UNSURE_DIVISOR,
)
from dprelease.schema.release_parts.consistent import ConsistentSpec

if TYPE_CHECKING:
    import pyarrow as pa

SLACK = 1e-4
"""Relative difference of a margin from a limit up to which both classes are accepted."""


def wrong_qualities(
    columns: Sequence[FamilyColumn], spec: ConsistentSpec, files: Files
) -> Iterator[str]:
    """Yield published tables with a quality that does not follow from their other columns."""
    shape = columns[0].shape
    shown = [one for one in columns if one.is_shown and one.column.quality]
    derived = [one for one in derived_columns(shape) if one.column.quality]
    for placed in tables_with_estimates(shape, spec):
        for batch in files[estimates_name(placed.name)]():
            right = [_is_estimate_right(batch, one, _rounding(one, placed)) for one in shown]
            right += [
                (_is_estimate_right if one.column.form == SUM else _is_quotient_right)(batch, one)
                for one in derived
            ]
            if not all(right):
                yield f"the quality in '{estimates_name(placed.name)}' is not that of its errors"
                break
    for placed in shape.placed if spec.non_negative else ():
        for batch in files[integer_table_name(placed.name)]():
            if not all(_is_integer_right(batch, one) for one in shown):
                name = integer_table_name(placed.name)
                yield f"the quality in '{name}' is not that of its intervals"
                break


def _rounding(one: FamilyColumn, placed: PlacedTable) -> float:
    """Return by how much a margin may be wider than its standard errors, in the column's unit.

    Margins also cover the largest error of fixed-point numbers, and are rounded up to a unit.
    """
    units = rounding_error(one.variances, placed.attributes)[placed.level] + 1
    return math.ldexp(float(units * one.step), -one.variances.structure.bits)


def _is_estimate_right(
    batch: pa.RecordBatch, one: FamilyColumn | DerivedColumn, rounding: float = 0.0
) -> bool:
    """Return whether estimates have the class of their standard errors, or of wider margins."""
    quantile = (
        one.quality_quantile if isinstance(one, DerivedColumn) else one.vector.quality_quantile
    )
    errors = _floats(batch, f"{one.name}_se")
    margins = _Margins(_floats(batch, one.name), quantile * errors, one.column.quality, rounding)
    return bool(margins.allow(_codes(batch, one.name)).all())


def _is_quotient_right(batch: pa.RecordBatch, one: DerivedColumn) -> bool:
    """Return whether means and ratios have the class of their intervals, or the right mark."""
    values, lower, upper = (_floats(batch, f"{one.name}{end}") for end in ("", "_lower", "_upper"))
    codes, (low, high) = _codes(batch, one.name), one.ends
    empty = np.isnan(values)
    of_empty = np.isin(codes, [CODES.index(UNSURE_DIVISOR), CODES.index(UNDEFINED)])
    at_bound = ((values <= low) | (values >= high)) & (lower < upper)
    marked = codes == CODES.index(AT_BOUND)
    with np.errstate(invalid="ignore"):
        widths = np.maximum(values - lower, upper - values)
    margins = _Margins(values, widths, one.column.quality)
    rated = margins.allow(codes, one.column.margin or CONFIDENCE)
    return bool(np.where(empty, of_empty, np.where(at_bound, marked, rated)).all())


def _is_integer_right(batch: pa.RecordBatch, one: FamilyColumn) -> bool:
    """Return whether integers have the class of their intervals, and 0 the mark of a bound.

    A 0 that is exact is at no bound, and has an interval without a width.
    """
    values, lower, upper = (
        steps_of(batch.column(f"{one.name}{end}"), one.step) for end in ("", "_lower", "_upper")
    )
    codes, zero = _codes(batch, one.name), values == 0
    widths = np.maximum(values - lower, upper - values).astype(np.float64)
    margins = _Margins(values.astype(np.float64), widths, one.column.quality)
    rated = margins.allow(codes, one.confidence)
    marked = (codes == CODES.index(AT_BOUND)) & zero
    return bool((marked | (rated & (~zero | (widths == 0.0)))).all())


class _Margins:
    """Margins of values, and the classes that follow: 0 for A up to 3 for D.

    The true margins may be wider than `widths` by `rounding`.
    """

    def __init__(
        self, values: Floats, widths: Floats, limits: Sequence[Fraction], rounding: float = 0.0
    ) -> None:
        self.best = self._ranks(values, widths * (1.0 - SLACK), limits)
        self.worst = self._ranks(values, widths * (1.0 + SLACK) + rounding, limits)

    @staticmethod
    def _ranks(values: Floats, widths: Floats, limits: Sequence[Fraction]) -> Integers:
        """Return how many limits each margin exceeds; an unknown margin exceeds all."""
        within = [widths <= float(limit) * np.abs(values) for limit in limits]
        ranks: Integers = len(limits) - np.sum(within, axis=0)
        return ranks

    def allow(self, codes: Integers, confidence: Fraction = CONFIDENCE) -> Flags:
        """Return which codes (n,) are possible for margins at a confidence.

        Wider margins than those of the codes show only that a class is at least as good, and
        narrower ones that it is at most as good.
        """
        is_class = codes <= len(RELIABLE)
        not_better, not_worse = codes >= self.best, codes <= self.worst
        if confidence > CONFIDENCE:
            return is_class & not_worse
        return is_class & not_better & (not_worse | np.bool_(confidence < CONFIDENCE))


def _floats(batch: pa.RecordBatch, name: str) -> Floats:
    """Return a column as floats; NaN for missing numbers."""
    numbers: Floats = batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _codes(batch: pa.RecordBatch, name: str) -> Integers:
    """Return the quality codes of a column as positions in `CODES`; other texts come after all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(batch.column(f"{name}_quality"), value_set=pa.array(CODES))
    places: Integers = pc.fill_null(found, len(CODES)).to_numpy(zero_copy_only=False)
    return places.astype(np.int64)
