"""Compute the errors of published values from truth tables, by size class of the cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dprelease.documents.rehearsal_manifest import ClassErrors, ColumnErrors, Figures
from dprelease.numerics.lattice import Flags, Floats
from dprelease.rehearsal.truth_comparison import ColumnComparison

if TYPE_CHECKING:
    import pyarrow as pa

SIZES = (0, 1, 10, 100, 1_000, 10_000)
"""The smallest number of rows of a cell in each size class."""


def summarize_errors(columns: Sequence[ColumnComparison], table: pa.Table) -> list[ColumnErrors]:
    """Return the errors of the columns of one truth table, by size class and for all cells.

    The errors of choices (medians and most frequent values) are numbers of rows, as in `plan`.
    """
    return [_column_errors(one, table) for one in columns]


def _column_errors(one: ColumnComparison, table: pa.Table) -> ColumnErrors:
    """Return the errors of one column of a truth table, by size class and for all cells."""
    rows = _to_floats(table, one.rows_column)
    errors = _published_errors(one, table)
    covered, cut = _coverage(one, table, errors), None
    if one.unlimited_column and not one.rows_off_column:
        cut = _to_floats(table, one.unlimited_column) - _to_floats(table, one.true_column)
    return ColumnErrors(
        table=one.table,
        column=one.column,
        unit=one.unit,
        confidence=one.confidence if covered is not None else None,
        expected=one.expected,
        classes=class_errors(errors, rows, covered, cut),
        **dict(error_figures(errors, covered, cut)),
    )


def _coverage(one: ColumnComparison, table: pa.Table, errors: Floats) -> Floats | None:
    """Return whether each cell's interval holds the exact value; None without intervals.

    Cells without a value count if they have an interval; those that a rule left empty have none.
    """
    if one.interval_columns:
        exact = _to_floats(table, one.true_column)
        ends = [_to_floats(table, name) for name in one.interval_columns]
        return within_interval(exact, ends[0], ends[1])
    if one.margin_column not in table.column_names:
        return None
    return within_margins(errors, _to_floats(table, one.margin_column))


def within_margins(errors: Floats, margins: Floats) -> Floats:
    """Return 1 for each cell whose error is within its margin, 0 for others, NaN if unknown."""
    inside = np.abs(errors) <= margins * (1 + 1e-12)
    return np.where(np.isfinite(errors) & np.isfinite(margins), inside, math.nan)


def within_interval(exact: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return 1 for each exact value in its interval, 0 for others, and NaN without one of them.

    One missing end is unbounded; without both, there is no interval. The tolerance is that of sums
    of floats.
    """
    low, high = np.nan_to_num(lower, nan=-math.inf), np.nan_to_num(upper, nan=math.inf)
    slack = 1e-9 * np.maximum(np.abs(exact), 1.0)
    inside = (low <= exact + slack) & (exact - slack <= high)
    has_interval = np.isfinite(lower) | np.isfinite(upper)
    return np.where(np.isfinite(exact) & has_interval, inside, math.nan)


def class_errors(
    errors: Floats, rows: Floats, covered: Floats | None, cut: Floats | None = None
) -> list[ClassErrors]:
    """Return the errors of the cells of each size class.

    `rows` has the true number of rows of each cell, and `covered` is 1 where its interval holds the
    exact value, 0 where not, and NaN without an interval. A cell whose error is NaN counts as
    empty. `cut` has, for each cell, the amount by which contribution limits lower the exact value.
    """
    known = np.isfinite(errors)
    return [
        ClassErrors(rows=label, **dict(_figures_of_cells(errors, known, covered, cut, inside)))
        for label, inside in _size_classes(rows)
        if inside.any()
    ]


def error_figures(errors: Floats, covered: Floats | None, cut: Floats | None = None) -> Figures:
    """Return the errors of all cells together; `covered` and `cut` are as in `class_errors`."""
    every = np.ones(len(errors), dtype=np.bool_)
    return _figures_of_cells(errors, np.isfinite(errors), covered, cut, every)


def _published_errors(one: ColumnComparison, table: pa.Table) -> Floats:
    """Return the error of the published value in each cell; of choices, in rows."""
    if one.rows_off_column:
        return _to_floats(table, one.rows_off_column)
    errors: Floats = _to_floats(table, one.column) - _to_floats(table, one.true_column)
    return errors


def _size_classes(rows: Floats) -> Iterable[tuple[str, Flags]]:
    """Yield the label of each size class, and which cells belong to the class."""
    for low, high in zip(SIZES, [*SIZES[1:], None], strict=True):
        inside = rows >= low if high is None else (rows >= low) & (rows < high)
        if low == 0:
            size_class = "0"
        else:
            size_class = f"{low:,} or more" if high is None else f"{low:,} to {high - 1:,}"
        yield size_class, inside


def _figures_of_cells(
    errors: Floats, known: Flags, covered: Floats | None, cut: Floats | None, inside: Flags
) -> Figures:
    """Return the figures of the cells `inside`; None for a figure that no cell contributes to."""
    known_errors = errors[inside & known].tolist()
    n = len(known_errors)
    share = mean_cut = None
    if covered is not None:
        counted = covered[inside & np.isfinite(covered)]
        share = float(counted.sum()) / len(counted) if len(counted) else None
    if cut is not None:
        amounts = cut[inside & np.isfinite(cut)].tolist()
        mean_cut = math.fsum(amounts) / len(amounts) if amounts else None
    return Figures(
        cells=int(inside.sum()),
        empty=int((inside & ~known).sum()),
        mean_absolute_error=math.fsum(map(abs, known_errors)) / n if n else None,
        bias=math.fsum(known_errors) / n if n else None,
        root_mean_square_error=math.sqrt(math.fsum(e * e for e in known_errors) / n) if n else None,
        largest_error=max(map(abs, known_errors)) if n else None,
        covered=share,
        cut=mean_cut,
    )


def _to_floats(table: pa.Table, name: str) -> Floats:
    """Return a column of a table as floats, with NaN for missing values."""
    import pyarrow as pa

    column = table.column(name)
    if pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(
            pa.float64(), safe=False
        )  # the last digits of integers above 2^53 don't matter
    floats: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return floats
