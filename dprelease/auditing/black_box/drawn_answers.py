"""Draw answers about two neighbouring tables, with the noise code of releases.

A source returns n answers at once, each as a column of integers: the differences between noisy
numbers and the true numbers of the first table, or the selected candidates. A source draws only
some cells of a vector: as many cells that differ as fit, and some others. This suffices, because
the privacy loss of a part of an answer is a privacy loss of the whole answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dprelease.auditing.black_box.tiled_tables import (
    Profiles,
    cells_of,
    tiled_partitions,
    tiled_table,
)
from dprelease.noise.noised_answers import selected_keys
from dprelease.noise.noised_vectors import perturb
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import PlannedColumn
from dprelease.query.measurement import read_at
from dprelease.schema.release import PRIVATE_KEYS

Stream = BitSource
"""The source of random bits for one run of the noise stage."""

Bits = Callable[[], Stream]
"""A function that returns new random bits for every run of the noise stage, as in releases."""

FRESH: Bits = Entropy


@dataclass(frozen=True, slots=True)
class Feature:
    """One number of an answer: its measurement, its cell, and whether the tables differ there."""

    query: str
    column: str
    cell: int
    moved: bool


class Source(Protocol):
    """A source of answers."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features of an answer, in order."""
        ...

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return (features, n) numbers: n answers about the first table (0) or the second (1)."""
        ...


@dataclass(frozen=True, eq=False)
class NoisedCells:
    """Some cells of the vectors of one query, in some of its columns."""

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
            parts.append(drawn - self.sides[0][name][:, None])
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class ChoicesInCells:
    """Candidates selected in some cells of one query, in some of its columns."""

    columns: tuple[PlannedColumn, ...]
    cells: tuple[int, ...]
    sides: tuple[Profiles, Profiles]
    """The counts of each candidate in these cells, in both tables, by measurement."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return a feature for each choice and cell."""
        found = []
        for column in self.columns:
            name = column.measurement.name
            moved = [cell_differs(*self.sides, name, i) for i in range(len(self.cells))]
            for _ in choice_names(column):
                found += [
                    Feature(column.query.name, name, cell, moved[i])
                    for i, cell in enumerate(self.cells)
                ]
        return tuple(found)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the selected candidates: noise steps, or indices of values."""
        exact = tiled_table(self.columns[0].query.name, {}, self.sides[side], n)
        answers = perturb(exact, self.columns, bits).columns
        names = [name for column in self.columns for name in choice_names(column)]
        return np.concatenate([answers[name].reshape(n, len(self.cells)).T for name in names])


def choice_names(column: PlannedColumn) -> list[str]:
    """Return the names that the noise stage uses for the choices of a measurement."""
    name = column.measurement.name
    if not column.measurement.aggregate.paid_together:
        return [name]
    parts = [c.at for c in column.query.columns if c.parts[0] == column.measurement]
    return [read_at(name, at) for at in sorted({at for at in parts if at is not None})]


def cell_differs(one: Profiles, other: Profiles, name: str, cell: int) -> bool:
    """Return whether the values in a cell of two tables differ."""
    both = [cells_of(side[name], [cell]) for side in (one, other)]
    return not all(
        np.array_equal(a, b)
        for a, b in ((both[0].values, both[1].values), (both[0].counts, both[1].counts))
    )


@dataclass(frozen=True, eq=False)
class SelectedKeys:
    """The selection of non-public keys, with their noisy numbers of units if published."""

    column: PlannedColumn
    units: tuple[Integers, Integers]
    """The number of units that have each key, in both tables."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return two features for each key: whether it is selected, and its noisy number of
        units."""
        name, moved = self.column.query.name, self.units[0] != self.units[1]
        one = [Feature(name, PRIVATE_KEYS, i, bool(has_moved)) for i, has_moved in enumerate(moved)]
        return (*one, *one)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return 1 for a selected key, with its number; otherwise 0, as for a key without a
        unit."""
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
    """The published numbers under non-public keys; keys that are not selected have no numbers."""

    keys: SelectedKeys
    inner: tuple[Source, ...]
    """The sources of the other columns. Each has one number per key, in the order of the keys."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features of the keys, then those of their other columns."""
        moved = self.keys.units[0] != self.keys.units[1]
        neighbours = [
            Feature(f.query, f.column, f.cell, bool(f.moved or moved[i % len(moved)]))
            for source in self.inner
            for i, f in enumerate(source.features)
        ]
        return (*self.keys.features, *neighbours)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the features of keys and the numbers under them; 0 for numbers that are not
        published."""
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
    """Several sources combined: an answer consists of one answer of each source."""

    sources: tuple[Source, ...]

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features of all sources."""
        return tuple(feature for source in self.sources for feature in source.features)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of all sources, which are drawn one after the other."""
        return np.concatenate([source.draw(n, side, bits) for source in self.sources])


def vectors_of(columns: Sequence[PlannedColumn]) -> tuple[PlannedColumn, ...]:
    """Return the columns with additive noise."""
    return tuple(c for c in columns if c.measurement.is_vector and not c.measurement.exact)


def choices_of(columns: Sequence[PlannedColumn]) -> tuple[PlannedColumn, ...]:
    """Return the columns for which a candidate is selected in each cell."""
    return tuple(c for c in columns if c.measurement.is_choice)
