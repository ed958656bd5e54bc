"""Compute the true tables of several queries from one scan of the rows.

`query.scans.scan_planning` decides which queries share a scan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import to_numpy
from dprelease.exact.results.true_table import (
    DenseProfile,
    ExactTable,
    Integers,
    Profile,
    VectorBlock,
)
from dprelease.exact.results.vectors import MOST_ROWS
from dprelease.query.grouping.group_keys import Key
from dprelease.query.resolve import Query
from dprelease.query.scan_planning import Part, Scan, plan_scans, query_parts
from dprelease.statements.coded_rows import JointTable

ScannedVectors = list[tuple[JointTable, dict[object, Integers]]]
"""Joint tables, each with its vectors of true integers by aggregate."""


class ScannedTables:
    """The true tables of an engine's queries, read in joint scans where that is faster.

    `read`: a function that returns the table of one query. `scan`: a function that returns the
    joint tables of several queries, or None if their sums might exceed 64 bits. The result of a
    scan is held until the last query of the scan has run.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        read: Callable[[Query], ExactTable],
        scan: Callable[[Scan], ScannedVectors | None],
    ) -> None:
        """Plan scans for queries, each of which will be run once."""
        self._read, self._scan = read, scan
        self._expected = {query.name: query for query in queries}
        self._scans = {part.name: scan for scan in plan_scans(queries)[0] for part in scan.parts}
        self._found: dict[tuple[str, str], ExactTable] = {}

    def table(self, query: Query) -> ExactTable:
        """Return the true table of a query; raises what `read` and `scan` raise."""
        # A query that was not announced, or comes a second time, finds nothing held for it.
        if self._expected.pop(query.name, None) is not query:
            return self._read(query)
        parts = query_parts(query)
        if not any(part.name in self._scans or part.name in self._found for part in parts):
            return self._read(query)
        vectors: dict[str, VectorBlock] = {}
        profiles: dict[str, Profile | DenseProfile] = {}
        for part in parts:
            table = self._table_of_part(part)
            for measurement in part.query.measurements:
                if measurement.is_vector:
                    vectors[measurement.name] = table.vector(measurement.name)
                else:
                    profiles[measurement.name] = table.profile(measurement.name)
        return ExactTable(query.name, query.keys.size, vectors, profiles)

    def _table_of_part(self, part: Part) -> ExactTable:
        """Return the exact table of a part, from its shared scan or from a query of its own."""
        scan = self._scans.get(part.name)
        if scan is not None:
            filled = self._scan(scan)
            # Also after a scan whose sums might not fit: each of its parts is then read by its own
            # query, which sums with 128 bits.
            for served in scan.parts:
                del self._scans[served.name]
            for joint, numbers in filled or ():
                for each in joint.joint.parts:
                    self._found[each.name] = _sum_to_table(joint, numbers, each)
        table = self._found.pop(part.name, None)
        return self._read(part.query) if table is None else table


def fill_joint_tables(
    batches: Iterable[Any], joints: Sequence[JointTable]
) -> ScannedVectors | None:
    """Return joint tables filled with rows, which arrive in batches.

    The result is None if there are so many rows that sums might not fit 64 bits.
    """
    tables: ScannedVectors = [
        (
            joint,
            # The additional cell collects the rows that count in no cell; it is cut off below.
            {vector: np.zeros(joint.size + 1, dtype=np.int64) for vector in joint.joint.vectors},
        )
        for joint in joints
    ]
    seen = 0
    for batch in batches:
        seen += len(batch)
        if seen > MOST_ROWS:
            return None
        columns = [to_numpy(column) for column in batch.columns]
        for joint, vectors in tables:
            cells = columns[joint.cells]
            for vector, numbers in vectors.items():
                place = joint.added.get(vector)
                np.add.at(numbers, cells, 1 if place is None else columns[place])
    return [
        (joint, {vector: numbers[:-1] for vector, numbers in vectors.items()})
        for joint, vectors in tables
    ]


def _sum_to_table(joint: JointTable, numbers: dict[object, Integers], part: Part) -> ExactTable:
    """Return the table of a part of a query, whose cells are sums of cells of a joint table."""
    table, keys = joint.joint, joint.joint.space.keys
    vectors: dict[str, VectorBlock] = {}
    profiles: dict[str, Profile | DenseProfile] = {}
    if table.candidates:
        (counts,) = numbers.values()
        shaped = counts.reshape(-1, table.candidates)
        counts_of_part = _sum_over_other_keys(shaped, keys, part.query.keys.keys)
        profile = DenseProfile.of(counts_of_part)
        profiles = {measurement.name: profile for measurement in part.query.measurements}
    else:
        for measurement in part.query.measurements:
            vector = numbers[measurement.aggregate]
            vectors[measurement.name] = _sum_over_other_keys(vector, keys, part.query.keys.keys)
    return ExactTable(part.query.name, part.query.keys.size, vectors, profiles)


def _sum_over_other_keys(
    values: NDArray[np.int64], keys: Sequence[Key], kept: Sequence[Key]
) -> Integers:
    """Return sums of values by the cells of the `kept` keys, over the cells of all other keys.

    `values`: the values of the cells of `keys`, (cells,) or (cells, candidates). Rows without a
    cell of a kept key are left out. The sums fit 64 bits, because sums over all rows do.
    """
    wanted = [key.column for key in kept]
    candidate_axis = list(values.shape[1:])
    cube = values.reshape([key.size for key in keys] + candidate_axis)
    remaining_keys = [key.column for key in keys]
    for axis in reversed(range(len(keys))):
        if remaining_keys[axis] not in wanted:
            cube = cube.sum(axis=axis, dtype=np.int64)
            del remaining_keys[axis]
    sizes = {key.column: len(key.values) for key in kept}
    # A key of a joint table may have a code more than the table needs: for rows outside of the
    # values that this query declares.
    cube = cube[tuple(slice(sizes[column]) for column in remaining_keys)]
    order = [remaining_keys.index(column) for column in wanted] + list(
        range(len(remaining_keys), cube.ndim)
    )
    size = math.prod(sizes.values())
    return np.ascontiguousarray(cube.transpose(order).reshape([size, *candidate_axis]))
