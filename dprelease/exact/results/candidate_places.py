"""Map each row to the index of its pair of a cell and a candidate, for which rows are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import to_numpy, to_numpy_ignoring_nulls, validity_mask
from dprelease.statements.compiled_statements import ProfileSql
from dprelease.statements.values.stored_candidates import ClampedIntegers, RoundedFloats

RANGE_OF_32_BITS = 2**31
"""Signed integers of 32 bits are smaller than this number."""


def pair_indexes(batch: Any, asked: ProfileSql, outside: int) -> NDArray[Any]:
    """Return, for each row of a record batch, the index of its pair of a cell and a candidate.

    The index of a row that does not count is `outside`. All indexes, `outside` included, are below
    2^31.
    """
    if asked.stored is None:
        return to_numpy(batch.column(0))
    cells, values = batch.columns
    places: NDArray[np.int32] = to_numpy_ignoring_nulls(cells) * np.int32(asked.candidates)
    # Whatever float an engine returns, a row counts for a candidate of its own cell.
    places += np.clip(
        _candidate_indexes(to_numpy_ignoring_nulls(values), asked.stored), 0, asked.candidates - 1
    )
    for column in (cells, values):
        is_present = validity_mask(column)
        if is_present is not None:  # the check is five times as fast as writing to no row
            places *= is_present
            places += (1 - is_present) * np.int32(outside)
    return places


def _candidate_indexes(
    stored: NDArray[Any], by: ClampedIntegers | RoundedFloats
) -> NDArray[np.int32]:
    """Return the index of the candidate to which each stored value is clamped or rounded."""
    if isinstance(by, ClampedIntegers):
        return _clamp_to_candidates(stored, by)
    return _round_to_candidates(stored, by)


def _clamp_to_candidates(stored: NDArray[Any], by: ClampedIntegers) -> NDArray[np.int32]:
    """Return the index of the candidate for each stored integer, clamped to the bounds."""
    if max(map(abs, (by.least, by.most, by.first))) >= RANGE_OF_32_BITS:
        stored = stored.astype(np.int64, copy=False)
    candidates: NDArray[Any] = np.clip(stored, by.least, by.most) - by.first
    return candidates.astype(np.int32, copy=False)


def _round_to_candidates(stored: NDArray[np.float64], by: RoundedFloats) -> NDArray[np.int32]:
    """Return the index of the nearest candidate for each stored float, after clamping."""
    with np.errstate(invalid="ignore"):  # missing values may be any float, also a signalling NaN
        scaled = np.clip(stored, by.least, by.most)
        if by.times != 1:
            scaled *= by.times
        if by.over != 1:
            scaled /= by.over
        whole = np.trunc(scaled)
        scaled -= whole  # exact, and so is what follows: adding a half could round
        whole += scaled >= 0.5
        if by.least < 0:
            whole -= scaled <= -0.5
        if by.first:
            whole -= by.first
        return whole.astype(np.int32)
