"""Draw answers about two neighbouring tables, with the noise code of releases.

A source returns n answers at once, each as a column of integers. These are the differences between
noisy numbers and the true numbers of the first table, or the selected candidates. A source draws
only some cells of a vector: as many differing cells as fit, and some others. This suffices, because
the privacy loss of a part of an answer is a privacy loss of the whole answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dprelease.auditing.black_box.tiled_tables import (
    Profiles,
    profile_of_cells,
    tiled_partitions,
    tiled_table,
)
from dprelease.noise.noised_answers import selected_keys
from dprelease.noise.noised_vectors import perturb
from dprelease.noise.selections import tree_selections
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import PlannedColumn
from dprelease.query.measurement import quantile_vector_name
from dprelease.schema.release import PRIVATE_KEYS

Stream = BitSource
"""A stream of random bits for one run of the noise stage."""

BitFactory = Callable[[], Stream]
"""A function that returns a new stream of random bits for every run of the noise stage."""

FRESH_BITS: BitFactory = Entropy


@dataclass(frozen=True, slots=True)
class Feature:
    """The description of one number of an answer.

    `column` is the name of its measurement, `cell` its cell, and `differing` says whether the two
    tables differ in it.
    """

    query: str
    column: str
    cell: int
    differing: bool


class Source(Protocol):
    """A source of answers about two tables."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features of the numbers of an answer, in order."""
        ...

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return (features, n) numbers: n answers about the first table (0) or the second (1)."""
        ...


@dataclass(frozen=True, eq=False)
class NoisedCells:
    """The source of noisy vectors: some cells of one query, in some of its columns."""

    columns: tuple[PlannedColumn, ...]
    cells: tuple[int, ...]
    sides: tuple[Mapping[str, Integers], Mapping[str, Integers]]
    """The true integers of these cells in both tables, by measurement."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return a feature for each measurement and cell."""
        found = []
        for column in self.columns:
            name = column.measurement.name
            one, other = (side[name] for side in self.sides)
            found += [
                Feature(column.query.name, name, cell, bool(one[i] != other[i]))
                for i, cell in enumerate(self.cells)
            ]
        return tuple(found)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the differences between noisy numbers and the first table's true numbers."""
        vectors = {c.measurement.name: self.sides[side][c.measurement.name] for c in self.columns}
        exact = tiled_table(self.columns[0].query.name, vectors, {}, n)
        noised = perturb(exact, self.columns, bits).columns
        parts = []
        for column in self.columns:
            name = column.measurement.name
            drawn = noised[name].reshape(n, len(self.cells)).T
            # The first table's numbers for both sides: subtracting each side's own would remove the
            # difference.
            parts.append(drawn - self.sides[0][name][:, None])
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class ChoicesInCells:
    """The source of choices: candidates in some cells of one query, in some of its columns."""

    columns: tuple[PlannedColumn, ...]
    cells: tuple[int, ...]
    sides: tuple[Profiles, Profiles]
    """The counts of the candidates in these cells, in both tables, by measurement."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return a feature for each choice and cell."""
        found = []
        for column in self.columns:
            name = column.measurement.name
            differing = [cell_differs(*self.sides, name, i) for i in range(len(self.cells))]
            for _ in choice_names(column):
                found += [
                    Feature(column.query.name, name, cell, differing[i])
                    for i, cell in enumerate(self.cells)
                ]
        return tuple(found)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the selected candidates, as steps or as indices of values."""
        exact = tiled_table(self.columns[0].query.name, {}, self.sides[side], n)
        answers = perturb(exact, self.columns, bits).columns
        names = [name for column in self.columns for name in choice_names(column)]
        return np.concatenate([answers[name].reshape(n, len(self.cells)).T for name in names])


def choice_names(column: PlannedColumn) -> list[str]:
    """Return the names that the noise stage uses for the choices of a measurement."""
    name = column.measurement.name
    if not column.measurement.aggregate.sums_weights:
        return [name]
    return [quantile_vector_name(name, at, side) for at, side in tree_selections(column)]


def cell_differs(one: Profiles, other: Profiles, name: str, cell: int) -> bool:
    """Return whether the values in a cell of two tables differ."""
    both = [profile_of_cells(side[name], [cell]) for side in (one, other)]
    return not all(
        np.array_equal(a, b)
        for a, b in ((both[0].values, both[1].values), (both[0].counts, both[1].counts))
    )


@dataclass(frozen=True, eq=False)
class SelectedKeys:
    """The source of selected non-public keys, with the noisy numbers of units if published."""

    column: PlannedColumn
    units: tuple[Integers, Integers]
    """The number of units that have each key, in both tables."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return two features of each key: for its selection, and for its noisy number of units."""
        name, differing = self.column.query.name, self.units[0] != self.units[1]
        one = [Feature(name, PRIVATE_KEYS, i, bool(differs)) for i, differs in enumerate(differing)]
        return (*one, *one)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return 1 for each selected key, and then its noisy number of units.

        Both are 0 for a key that is not selected, or that no unit has.
        """
        units = self.units[side]
        present = np.flatnonzero(units > 0)
        drawn: Integers = np.zeros((2, len(units), n), dtype=np.int64)
        flags, numbers = selected_keys(tiled_partitions(units[present], n), self.column, bits)
        drawn[0, present] = flags.reshape(n, len(present)).T
        if numbers is not None:
            drawn[1, present] = np.where(flags, numbers, 0).reshape(n, len(present)).T
        return drawn.reshape(2 * len(units), n)


@dataclass(frozen=True, eq=False)
class NumbersUnderKeys:
    """The source of all numbers that are published about non-public keys.

    Keys that are not selected have no published numbers.
    """

    keys: SelectedKeys
    inner: tuple[Source, ...]
    """The sources of the other columns, whose cells are those of the keys, in their order."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features of the keys, and then those of the other columns."""
        differing = self.keys.units[0] != self.keys.units[1]
        neighbours = [
            Feature(f.query, f.column, f.cell, bool(f.differing or differing[i % len(differing)]))
            for source in self.inner
            for i, f in enumerate(source.features)
        ]
        return (*self.keys.features, *neighbours)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of the keys and of the other columns; 0 for unpublished numbers."""
        keys = self.keys.draw(n, side, bits)
        number = len(self.keys.units[0])
        appears = keys[:number]
        parts = [keys]
        for source in self.inner:
            drawn = source.draw(n, side, bits)
            drawn *= np.tile(appears, (len(drawn) // number, 1))
            parts.append(drawn)
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class CombinedSources:
    """The source whose answers consist of one answer of each of several sources."""

    sources: tuple[Source, ...]

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features of all sources."""
        return tuple(feature for source in self.sources for feature in source.features)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of all sources, which are drawn one after the other."""
        return np.concatenate([source.draw(n, side, bits) for source in self.sources])


def vector_columns(columns: Sequence[PlannedColumn]) -> tuple[PlannedColumn, ...]:
    """Return the columns with additive noise."""
    return tuple(c for c in columns if c.measurement.is_vector and not c.measurement.exact)


def choice_columns(columns: Sequence[PlannedColumn]) -> tuple[PlannedColumn, ...]:
    """Return the columns in which a candidate is selected in each cell."""
    return tuple(c for c in columns if c.measurement.is_choice)
