"""What Spark added up, as the aggregates of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dprelease.exact.true_table import DenseProfile, ExactTable, Profile
from dprelease.statements.partial import PLACE, Partial

if TYPE_CHECKING:
    import pyarrow as pa


def exact_table(
    name: str, partial: Partial, merged: pa.Table, size: int, first: int = 0
) -> ExactTable:
    """Return the aggregates of the `size` cells from `first` on.

    `merged`: rows (part, cell, v, m0, ...) of these cells alone, each place once.
    """
    part, cell, value = (np.asarray(merged[column], dtype=np.int64) for column in PLACE)
    cell = cell - first
    vectors = {}
    mine = part == 0
    for j, vector in enumerate(partial.vectors):
        vectors[vector] = np.zeros(size, dtype=np.int64)
        vectors[vector][cell[mine]] = np.asarray(merged[f"m{j}"], dtype=np.int64)[mine]
    for counted, number in partial.distinct.items():
        vectors[counted] = np.bincount(cell[part == number], minlength=size).astype(np.int64)
    profiles: dict[str, Profile | DenseProfile] = {}
    counts = np.asarray(merged["m0"], dtype=np.int64)
    for chosen, number in partial.profiles.items():
        mine = part == number
        profiles[chosen] = Profile.of(cell[mine], value[mine], counts[mine], size)
    return ExactTable(name, size, vectors, profiles)
