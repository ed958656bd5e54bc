"""Compute the errors of published values, by size of the cell, from truth tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dprelease.documents.rehearsal_errors import ClassErrors, ColumnErrors, Figures
from dprelease.numerics.lattice import Flags, Floats
from dprelease.rehearsal.truth_comparison import ColumnComparison

if TYPE_CHECKING:
    import pyarrow as pa

SIZES = (0, 1, 10, 100, 1_000, 10_000)
"""The numbers of rows of a cell at which each class of cells begins."""


def summary(columns: Sequence[ColumnComparison], table: pa.Table) -> list[ColumnErrors]:
    """Return the errors of the columns of one truth table, for each size class and all cells.

    The errors of choices are numbers of rows, as in `plan`.
    """
    return [_of_column(one, table) for one in columns]


def _of_column(one: ColumnComparison, table: pa.Table) -> ColumnErrors:
    rows = _floats(table, one.rows)
    errors = _errors(one, table)
    margins = _floats(table, one.margin) if one.margin in table.column_names else None
    cut = None
    if one.unbounded and not one.off:
        cut = _floats(table, one.unbounded) - _floats(table, one.true)
    return ColumnErrors(
        table=one.table,
        column=one.column,
        unit=one.unit,
        confidence=one.confidence if margins is not None else None,
        expected=one.expected,
        classes=class_errors(errors, rows, margins, cut),
        **dict(figures_of(errors, margins, cut)),
    )


def class_errors(
    errors: Floats, rows: Floats, margins: Floats | None, cut: Floats | None = None
) -> list[ClassErrors]:
    """Return the errors of cells, by the size class of the cell.

    Cells without an error (NaN) are empty. `cut` has the amount by which contribution limits lower
    the exact value of each cell.
    """
    known = np.isfinite(errors)
    return [
        ClassErrors(rows=words, **dict(_figures(errors, known, margins, cut, inside)))
        for words, inside in _classes(rows)
        if inside.any()
    ]


def figures_of(errors: Floats, margins: Floats | None, cut: Floats | None = None) -> Figures:
    """Return the errors of all cells together; the parameters are those of `class_errors`."""
    every = np.ones(len(errors), dtype=np.bool_)
    return _figures(errors, np.isfinite(errors), margins, cut, every)


def _errors(one: ColumnComparison, table: pa.Table) -> Floats:
    if one.off:
        return _floats(table, one.off)
    errors: Floats = _floats(table, one.column) - _floats(table, one.true)
    return errors


def _classes(rows: Floats) -> Iterable[tuple[str, Flags]]:
    for low, high in zip(SIZES, [*SIZES[1:], None], strict=True):
        inside = rows >= low if high is None else (rows >= low) & (rows < high)
        if low == 0:
            size_class = "0"
        else:
            size_class = f"{low:,} or more" if high is None else f"{low:,} to {high - 1:,}"
        yield size_class, inside


def _figures(
    errors: Floats, known: Flags, margins: Floats | None, cut: Floats | None, inside: Flags
) -> Figures:
    """Return the figures of some cells; a figure is None without cells to compute it from."""
    counted = errors[inside & known].tolist()
    n = len(counted)
    covered = mean_cut = None
    if margins is not None:
        shown = inside & known & np.isfinite(margins)
        if shown.any():
            held = np.abs(errors[shown]) <= margins[shown] * (1 + 1e-12)
            covered = int(held.sum()) / int(shown.sum())
    if cut is not None:
        lost = cut[inside & np.isfinite(cut)].tolist()
        mean_cut = math.fsum(lost) / len(lost) if lost else None
    return Figures(
        cells=int(inside.sum()),
        empty=int((inside & ~known).sum()),
        mean_absolute_error=math.fsum(map(abs, counted)) / n if n else None,
        bias=math.fsum(counted) / n if n else None,
        root_mean_square_error=math.sqrt(math.fsum(e * e for e in counted) / n) if n else None,
        largest_error=max(map(abs, counted)) if n else None,
        covered=covered,
        cut=mean_cut,
    )


def _floats(table: pa.Table, name: str) -> Floats:
    import pyarrow as pa

    column = table.column(name)
    if pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(
            pa.float64(), safe=False
        )  # the last digits of integers above 2^53 don't matter
    floats: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return floats
