"""Variances of published cells as functions of the shares, with exact slopes.

Slopes come from the complex step: f(x + ih) = f(x) + ih f'(x) up to h^2, so that with h far below
float accuracy the imaginary part is the derivative, without cancellation. Source: Squire and Trapp,
"Using complex variables to estimate derivatives of real functions", SIAM Review 40 (1998). Residual
spaces are independent of each other, so one complex step for each level serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.consistency.fixed_point import Floats
from dprelease.consistency.shares.design import Design, Placed
from dprelease.consistency.shares.shape_variances import Numbers, final_variances, unknown

MEAN = -1  # used instead of a class, for the mean over all areas of the level
_BATCH_SIZE = 1 << 18  # numbers of one array
_STEP = 1e-30  # of a complex step, relative to the precision


@dataclass(frozen=True)
class Row:
    """One function of the shares: the variance of a table's cell at one class, or its mean.

    - `placed`: the level and the table.
    - `node`: the class of areas of that level, or MEAN.
    """

    placed: Placed
    node: int


def values_and_slopes(design: Design, rows: Sequence[Row], shares: Floats) -> tuple[Floats, Floats]:
    """Return the rows' values (rows,) and their derivatives by shares (rows, items).

    No share may be 0, and all variances must be finite.
    """
    shape, levels = design.shape, design.shape.levels
    coefficients = np.array([design.coefficients(row.placed[1]) for row in rows])
    values, slopes = np.zeros(len(rows)), np.zeros((len(rows), len(shares)))
    for some in _slices(design, levels):
        by_share = design.precision[:, some]
        precisions = by_share @ shares
        moved = precisions[:, None, :] * (1 + 1j * _STEP * np.eye(levels)[:, :, None])
        sources = design.sources(shares).of(some).repeated(levels)
        final = final_variances(shape, sources, unknown(shape, sources), moved.reshape(levels, -1))
        found = _select(design, rows, final).reshape(len(rows), levels, -1)
        found *= coefficients[:, None, some]
        values += found[:, 0].real.sum(axis=1)
        # The step was relative, and a precision of 0 has no share to change it.
        relative = found.imag / _STEP / np.where(precisions > 0, precisions, np.inf)
        slopes += relative.reshape(len(rows), -1) @ by_share.reshape(-1, len(shares))
    return values, slopes


def _select(design: Design, rows: Sequence[Row], final: Sequence[Numbers]) -> Numbers:
    """Return F of each row's class, or its mean: (rows, spaces)."""
    means = {
        level: design.shape.fractions(level) @ final[level]
        for level in {row.placed[0] for row in rows if row.node == MEAN}
    }
    return np.array(
        [
            means[row.placed[0]] if row.node == MEAN else final[row.placed[0]][row.node]
            for row in rows
        ]
    )


def cell_variances(design: Design, shares: Floats, tables: Sequence[Placed]) -> list[Floats]:
    """Return for each table the variance of its cells by class; infinite where it is unknown."""
    found = [np.zeros(design.shape.counts[level]) for level, _table in tables]
    precisions = design.precision @ shares
    for some in _slices(design, 1):
        sources = design.sources(shares).of(some)
        lost = unknown(design.shape, sources)
        final = final_variances(design.shape, sources, lost, precisions[:, some])
        for each, (level, table) in zip(found, tables, strict=True):
            factors = design.coefficients(table)[some]
            each += final[level].real @ factors
            each[lost.final[level] @ (factors > 0)] = np.inf
    return found


def _slices(design: Design, copies: int) -> Iterator[slice]:
    """Yield the spaces in parts small enough for memory."""
    step = max(1, _BATCH_SIZE // (design.shape.size * copies))
    return (slice(start, start + step) for start in range(0, len(design.spaces), step))
