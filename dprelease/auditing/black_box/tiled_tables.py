"""Build exact tables of many equal cells, so that one call of the noise stage draws many answers.

The noise in the cells of a vector is independent, and so are the choices in different cells. So a
table of n copies of the same cells gives n independent answers, which the same code draws as one
answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from dprelease.exact.engine_api import QueryEngine
from dprelease.exact.results.true_records import ExactRecords
from dprelease.exact.results.true_table import ExactTable, Partitions, Profile
from dprelease.numerics.lattice import CHUNK, Integers
from dprelease.query.resolve import Query

Profiles = Mapping[str, Profile]
"""The counts of the candidates in each cell, by measurement."""


class TiledIntegers:
    """A vector of n copies of a few integers, which are not stored n times."""

    def __init__(self, vector: Integers, n: int) -> None:
        self._cells, self._size = len(vector), n * len(vector)
        self._tile = np.resize(vector, CHUNK + 2 * self._cells)

    def __getitem__(self, cells: slice) -> Integers:
        begin, end, _ = cells.indices(self._size)
        first, length = begin % self._cells, end - begin
        if first + length <= len(self._tile):
            return self._tile[first : first + length]
        return np.resize(np.roll(self._tile[: self._cells], -first), length)

    def __reduce__(self) -> NoReturn:
        raise TypeError("true aggregates can't be pickled or copied")


def tiled_table(
    name: str, vectors: Mapping[str, Integers], profiles: Profiles, n: int
) -> ExactTable:
    """Return the exact table of n copies of the same cells."""
    sizes = {len(vector) for vector in vectors.values()}
    sizes |= {len(profile.starts) - 1 for profile in profiles.values()}
    (cells,) = sizes
    tiled = {measurement: TiledIntegers(vector, n) for measurement, vector in vectors.items()}
    tiled_profiles = {
        measurement: _profile_of_copies(profile, n) for measurement, profile in profiles.items()
    }
    return ExactTable(name, n * cells, tiled, {**tiled_profiles})


def _profile_of_copies(profile: Profile, n: int) -> Profile:
    pairs = len(profile.values)
    starts = np.concatenate(
        [(profile.starts[:-1] + np.arange(n)[:, None] * pairs).ravel(), [n * pairs]]
    )
    return Profile(starts, np.tile(profile.values, n), np.tile(profile.counts, n))


def profile_of_cells(profile: Profile, cells: Sequence[int]) -> Profile:
    """Return the profile of some cells."""
    parts = [np.arange(profile.starts[cell], profile.starts[cell + 1]) for cell in cells]
    sizes = [len(part) for part in parts]
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    places = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    return Profile(starts, profile.values[places], profile.counts[places])


def tiled_partitions(units: Integers, n: int) -> Partitions:
    """Return n copies of the same partitions, without names, which the selection does not need."""
    return Partitions([], np.tile(units, n))


def tiled_records(name: str, values: Mapping[str, int], n: int) -> ExactRecords:
    """Return n copies of the same record."""
    tiled = {column: np.full(n, value, dtype=np.int64) for column, value in values.items()}
    return ExactRecords(name, n, tiled)


def table_of_cells(
    name: str, vectors: Mapping[str, Integers], profiles: Profiles, cells: Integers
) -> ExactTable:
    """Return the exact table of some cells, in the order of `cells`."""
    tiled = {measurement: vector[cells] for measurement, vector in vectors.items()}
    chosen_profiles = {
        measurement: profile_of_cells(profile, cells.tolist())
        for measurement, profile in profiles.items()
    }
    return ExactTable(name, len(cells), tiled, {**chosen_profiles})


@dataclass(frozen=True, eq=False)
class FixedAnswers(QueryEngine):
    """An engine that answers one query with the fixed values of some cells.

    If the keys are non-public, `names` has the name of the key of each cell, and `units` has the
    number of privacy units of each key.
    """

    vectors: Mapping[str, Integers]
    profiles: Profiles
    cells: int
    names: tuple[str, ...] = ()
    units: Integers | None = None

    def compile(self, query: Query) -> object:
        """Return None, because there is no SQL statement."""
        return None

    def run(self, query: Query) -> ExactTable:
        """Return the exact integers of all cells or, with non-public keys, of the query's keys."""
        places: Integers = np.arange(self.cells, dtype=np.int64)
        if query.private is not None:
            (key,) = query.keys.keys
            place = {name: i for i, name in enumerate(self.names)}
            places = np.array([place[str(name)] for name in key.values], dtype=np.int64)
        return table_of_cells(query.name, self.vectors, self.profiles, places)

    def partitions(self, query: Query) -> Partitions:
        """Return the non-public keys that at least one privacy unit has."""
        units = np.zeros(0, dtype=np.int64) if self.units is None else self.units
        present = np.flatnonzero(units > 0)
        return Partitions([self.names[i] for i in present.tolist()], units[present])


def differing_cells(one: Profile, other: Profile) -> Integers:
    """Return the cells in which the counts of values differ between two profiles."""
    rows = [
        np.stack((np.repeat(np.arange(len(p.starts) - 1), np.diff(p.starts)), p.values, p.counts))
        for p in (one, other)
    ]
    found, times = np.unique(np.concatenate(rows, axis=1), axis=1, return_counts=True)
    return np.unique(found[0][times == 1]).astype(np.int64)
