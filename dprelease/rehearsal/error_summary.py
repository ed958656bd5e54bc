"""Compute how far published values are from the truth, by size of the cell, from truth tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.numerics.lattice import Flags, Floats
from dprelease.rehearsal.truth_comparison import ColumnComparison

if TYPE_CHECKING:
    import pyarrow as pa

SIZES = (0, 1, 10, 100, 1_000, 10_000)
"""Rows of a cell at which each class of cells begins."""


def summary(columns: Sequence[ColumnComparison], table: pa.Table) -> list[dict[str, Any]]:
    """Return the errors of the columns of one truth table, by size class and of all cells.

    `error` is published minus exact, both within the contribution bounds. `cut`: by how much the
    bounds lower the exact value. `covered`: the share of cells whose margin contains the truth.
    Errors
    of choices are in rows, as in `plan`.
    """
    return [_of_column(one, table) for one in columns]


def _of_column(one: ColumnComparison, table: pa.Table) -> dict[str, Any]:
    rows = _floats(table, one.rows)
    errors = _errors(one, table)
    margins = _floats(table, one.margin) if one.margin in table.column_names else None
    cut = None
    if one.unbounded and not one.off:
        cut = _floats(table, one.unbounded) - _floats(table, one.true)
    return {
        "table": one.table,
        "column": one.column,
        "unit": one.unit,
        "confidence": one.confidence if margins is not None else None,
        "expected": one.expected,
        **summary_of_cells(errors, rows, margins, cut),
    }


def summary_of_cells(
    errors: Floats, rows: Floats, margins: Floats | None, cut: Floats | None = None
) -> dict[str, Any]:
    """Return the errors of cells, by class of their rows and of all.

    Cells without an error (NaN) are empty. `cut`: by how much bounds lower the exact value.
    """
    known = np.isfinite(errors)
    classes = [
        {"rows": description, **_figures(errors, known, margins, cut, inside)}
        for description, inside in _classes(rows)
        if inside.any()
    ]
    return {"classes": classes, **figures_of(errors, margins, cut)}


def figures_of(errors: Floats, margins: Floats | None, cut: Floats | None = None) -> dict[str, Any]:
    """Return the errors of all cells together; parameters are those of `summary_of_cells`."""
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
) -> dict[str, Any]:
    """Return the figures of some cells; null where there are no cells to compute them from."""
    counted = errors[inside & known].tolist()
    n = len(counted)
    figures: dict[str, Any] = {
        "cells": int(inside.sum()),
        "empty": int((inside & ~known).sum()),
        "mean_absolute_error": math.fsum(map(abs, counted)) / n if n else None,
        "bias": math.fsum(counted) / n if n else None,
        "root_mean_square_error": math.sqrt(math.fsum(e * e for e in counted) / n) if n else None,
        "largest_error": max(map(abs, counted)) if n else None,
        "covered": None,
        "cut": None,
    }
    if margins is not None:
        shown = inside & known & np.isfinite(margins)
        if shown.any():
            covered = np.abs(errors[shown]) <= margins[shown] * (1 + 1e-12)
            figures["covered"] = int(covered.sum()) / int(shown.sum())
    if cut is not None:
        lost = cut[inside & np.isfinite(cut)].tolist()
        figures["cut"] = math.fsum(lost) / len(lost) if lost else None
    return figures


def _floats(table: pa.Table, name: str) -> Floats:
    import pyarrow as pa

    column = table.column(name)
    if pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64(), safe=False)  # above 2^53 the last digits don't matter
    floats: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return floats


def encode_errors(errors: list[dict[str, Any]]) -> bytes:
    """Return the file of all errors."""
    return (json.dumps(errors, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
