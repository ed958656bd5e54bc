"""Map each row to the index of its pair of a cell and a candidate, for which rows are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import numbers_of, validity_mask, with_any
from dprelease.statements.compiled_statements import ProfileSql
from dprelease.statements.values.stored_candidates import ClampedIntegers, RoundedFloats

NARROW = 2**31
"""The range of 32 bits."""


def places_of(batch: Any, asked: ProfileSql, outside: int) -> NDArray[Any]:
    """Return, for each row of a record batch, the index of its pair of a cell and a candidate.

    The index of a row that does not count is `outside`. All indexes, `outside` included, are below
    2^31.
    """
    if asked.stored is None:
        return numbers_of(batch.column(0))
    cells, values = batch.columns
    places: NDArray[np.int32] = with_any(cells) * np.int32(asked.candidates)
    # Whatever float an engine returns, a row counts for a candidate of its own cell.
    places += np.clip(_candidates(with_any(values), asked.stored), 0, asked.candidates - 1)
    for column in (cells, values):
        there = validity_mask(column)
        if there is not None:  # the check is five times as fast as writing to no row
            places *= there
            places += (1 - there) * np.int32(outside)
    return places


def _candidates(stored: NDArray[Any], by: ClampedIntegers | RoundedFloats) -> NDArray[np.int32]:
    return _clamp(stored, by) if isinstance(by, ClampedIntegers) else _round(stored, by)


def _clamp(stored: NDArray[Any], by: ClampedIntegers) -> NDArray[np.int32]:
    if max(map(abs, (by.least, by.most, by.first))) >= NARROW:
        stored = stored.astype(np.int64, copy=False)
    candidates: NDArray[Any] = np.clip(stored, by.least, by.most) - by.first
    return candidates.astype(np.int32, copy=False)


def _round(stored: NDArray[np.float64], by: RoundedFloats) -> NDArray[np.int32]:
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
