"""True tables of several queries from one scan of the rows, by `query.scans.scan_planning`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import numbers_of
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
from dprelease.query.scans.scan_planning import Part, Scan, query_parts, scans
from dprelease.statements.scan import JointTable

Scanned = list[tuple[JointTable, dict[object, Integers]]]
"""Joint tables, each with its vectors by aggregate."""


class ScannedTables:
    """The tables of one engine's queries: read together where that is cheaper, or one by one.

    `read` reads the table of one query, `scan` fills the joint tables of several, or returns None
    if it can't. The result of a scan is held until its last query has run.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        read: Callable[[Query], ExactTable],
        scan: Callable[[Scan], Scanned | None],
    ) -> None:
        """Plan scans for the queries to come, each of which is run once."""
        self._read, self._scan = read, scan
        self._expected = {query.name: query for query in queries}
        self._scans = {part.name: scan for scan in scans(queries)[0] for part in scan.parts}
        self._found: dict[tuple[str, str], ExactTable] = {}

    def table(self, query: Query) -> ExactTable:
        """Return the true table of a query; raises as `read` and `scan`."""
        if self._expected.pop(query.name, None) is not query:
            return self._read(query)
        parts = query_parts(query)
        if not any(part.name in self._scans or part.name in self._found for part in parts):
            return self._read(query)
        vectors: dict[str, VectorBlock] = {}
        profiles: dict[str, Profile | DenseProfile] = {}
        for part in parts:
            table = self._part(part)
            for measurement in part.query.measurements:
                if measurement.is_vector:
                    vectors[measurement.name] = table.vector(measurement.name)
                else:
                    profiles[measurement.name] = table.profile(measurement.name)
        return ExactTable(query.name, query.keys.size, vectors, profiles)

    def _part(self, part: Part) -> ExactTable:
        scan = self._scans.get(part.name)
        if scan is not None:
            filled = self._scan(scan)
            for served in scan.parts:
                del self._scans[served.name]
            for joint, numbers in filled or ():
                for each in joint.joint.parts:
                    self._found[each.name] = _added_up(joint, numbers, each)
        table = self._found.pop(part.name, None)
        return self._read(part.query) if table is None else table


def fill(batches: Iterable[Any], joints: Sequence[JointTable]) -> Scanned | None:
    """Return the joint tables of rows that come in batches; None if sums might not fit 64 bits."""
    tables: Scanned = [
        (
            joint,
            {vector: np.zeros(joint.size + 1, dtype=np.int64) for vector in joint.joint.vectors},
        )
        for joint in joints
    ]
    seen = 0
    for batch in batches:
        seen += len(batch)
        if seen > MOST_ROWS:
            return None
        columns = [numbers_of(column) for column in batch.columns]
        for joint, vectors in tables:
            cells = columns[joint.cells]
            for vector, numbers in vectors.items():
                place = joint.added.get(vector)
                np.add.at(numbers, cells, 1 if place is None else columns[place])
    return [
        (joint, {vector: numbers[:-1] for vector, numbers in vectors.items()})
        for joint, vectors in tables
    ]


def _added_up(joint: JointTable, numbers: dict[object, Integers], part: Part) -> ExactTable:
    """Return a part's table, whose cells are sums of those of a joint one."""
    table, keys = joint.joint, joint.joint.space.keys
    vectors: dict[str, VectorBlock] = {}
    profiles: dict[str, Profile | DenseProfile] = {}
    if table.candidates:
        (counts,) = numbers.values()
        shaped = counts.reshape(-1, table.candidates)
        profile = DenseProfile.of(_over(shaped, keys, part.query.keys.keys))
        profiles = {measurement.name: profile for measurement in part.query.measurements}
    else:
        for measurement in part.query.measurements:
            vector = numbers[measurement.aggregate]
            vectors[measurement.name] = _over(vector, keys, part.query.keys.keys)
    return ExactTable(part.query.name, part.query.keys.size, vectors, profiles)


def _over(values: NDArray[np.int64], keys: Sequence[Key], kept: Sequence[Key]) -> Integers:
    """Return values by cells of some keys, in their order: sums over the cells of all others.

    `values`: (cells,) or (cells, candidates). Rows without a cell of a kept key are left out. Sums
    over all rows fit 64 bits, and so do these.
    """
    wanted = [key.column for key in kept]
    more = list(values.shape[1:])
    cube = values.reshape([key.size for key in keys] + more)
    left = [key.column for key in keys]
    for axis in reversed(range(len(keys))):
        if left[axis] not in wanted:
            cube = cube.sum(axis=axis, dtype=np.int64)
            del left[axis]
    sizes = {key.column: len(key.values) for key in kept}
    cube = cube[tuple(slice(sizes[column]) for column in left)]
    order = [left.index(column) for column in wanted] + list(range(len(left), cube.ndim))
    size = math.prod(sizes.values())
    return np.ascontiguousarray(cube.transpose(order).reshape([size, *more]))
