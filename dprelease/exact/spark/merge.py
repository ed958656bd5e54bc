"""Combine the sums that tasks return to the true aggregates of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.exact.results.vectors import MOST_ROWS
from dprelease.exact.shared_scan import ScannedVectors
from dprelease.exact.spark.executors.tasks import ROWS_SEEN
from dprelease.statements.partial import GROUP_COLUMNS, PartialQuery
from dprelease.statements.scan import JointTable

if TYPE_CHECKING:
    import pyarrow as pa


def exact_table(
    name: str, partial: PartialQuery, merged: pa.Table | None, size: int, first: int = 0
) -> ExactTable:
    """Return the true aggregates of a range of `size` cells, which starts at the cell `first`.

    `merged`: a table with the columns part, cell, v, m0, ..., with at most one row for each
    combination of part, cell and v, and only with cells of the range; None if no row of the source
    has a cell of the range.
    """
    if merged is None:
        merged = _empty_sums(partial)
    part, cell, value = (np.asarray(merged[column], dtype=np.int64) for column in GROUP_COLUMNS)
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


def _empty_sums(partial: PartialQuery) -> pa.Table:
    """Return an empty table of sums."""
    import pyarrow as pa

    names = [*GROUP_COLUMNS, *(f"m{j}" for j in range(partial.width))]
    return pa.table({name: pa.array([], pa.int64()) for name in names})


def sum_joint_tables(
    filled: Sequence[JointTable], found: Mapping[int, Sequence[pa.Table]]
) -> ScannedVectors | None:
    """Return the joint tables filled with the sums of tasks; None if sums might not fit 64 bits.

    `found`: the sums by the index of their joint table, and by `ROWS_SEEN` the number of rows.
    """
    seen = sum(sum(table["m0"].to_pylist()) for table in found.get(ROWS_SEEN, ()))
    if seen > MOST_ROWS:
        return None
    scanned: ScannedVectors = []
    for place, joint in enumerate(filled):
        vectors = {name: np.zeros(joint.size, dtype=np.int64) for name in joint.joint.vectors}
        for table in found.get(place, ()):
            cells = np.asarray(table["cell"], dtype=np.int64)
            for j, vector in enumerate(vectors.values()):  # each cell occurs once per table
                vector[cells] += np.asarray(table[f"m{j}"].cast("int64"), dtype=np.int64)
        scanned.append((joint, dict(vectors)))
    return scanned
