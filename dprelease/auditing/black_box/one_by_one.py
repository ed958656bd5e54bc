"""Answers drawn as releases draw them: one call of the noise stage for each, with bits of its own.

Many equal cells in one table tell what the noise of a cell is like. They can't tell whether the
next release gets other noise, or whether the noise of one question comes back in another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.auditing.black_box.drawn_answers import (
    Bits,
    Feature,
    Stream,
    choices_of,
    chosen_names,
    differ,
    vectors_of,
)
from dprelease.auditing.black_box.tiled_tables import Known
from dprelease.noise.noised_answers import answer_query
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import PlannedColumn
from dprelease.schema.release import PRIVATE_KEYS


@dataclass(frozen=True, eq=False)
class Answered:
    """All columns of one query in some cells, answered as a release answers them."""

    columns: tuple[PlannedColumn, ...]
    sides: tuple[Known, Known]

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return a feature for each number and cell; first whether keys appear, if not public."""
        one, moved = self.sides[0], self._keys_moved()
        found = []
        name = self.columns[0].query.name
        if one.names:
            found += [Feature(name, PRIVATE_KEYS, i, there) for i, there in enumerate(moved)]
        for measurement, names in self._number_names():
            for _ in names:
                found += [
                    Feature(name, measurement, i, moved[i] or self._differ(measurement, i))
                    for i in range(one.cells)
                ]
        return tuple(found)

    def _number_names(self) -> list[tuple[str, list[str]]]:
        """Return names of measurements, each with those of its noised numbers."""
        vectors = [(c.measurement.name, [c.measurement.name]) for c in vectors_of(self.columns)]
        return vectors + [(c.measurement.name, chosen_names(c)) for c in choices_of(self.columns)]

    def _keys_moved(self) -> list[bool]:
        one, other = (side.units for side in self.sides)
        if one is None or other is None:
            return [False] * self.sides[0].cells
        moved: list[bool] = (one != other).tolist()
        return moved

    def _differ(self, measurement: str, cell: int) -> bool:
        one, other = self.sides
        if measurement in one.profiles:
            return differ(one.profiles, other.profiles, measurement, cell)
        return bool(one.vectors[measurement][cell] != other.vectors[measurement][cell])

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of n answers; 0 where a key does not appear."""
        rows = [self._row(side, bits) for _ in range(n)]
        return np.stack(rows, axis=1)

    def _row(self, side: int, bits: Stream) -> Integers:
        known = self.sides[side]
        answer = answer_query(known, self.columns, bits)
        places: Integers = np.arange(known.cells, dtype=np.int64)
        parts = []
        if known.names:
            place = {name: i for i, name in enumerate(known.names)}
            (key,) = answer.query.keys.keys
            places = np.array([place[str(name)] for name in key.values], dtype=np.int64)
            appears: Integers = np.zeros(known.cells, dtype=np.int64)
            appears[places] = 1
            parts.append(appears)
        for measurement, names in self._number_names():
            base = self.sides[0].vectors.get(measurement, np.zeros(known.cells, dtype=np.int64))
            for name in names:
                row: Integers = np.zeros(known.cells, dtype=np.int64)
                row[places] = answer.noisy.columns[name] - base[places]
                parts.append(row)
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Releases:
    """Whole releases: all queries one after the other, from one stream of bits for each release."""

    queries: tuple[Answered, ...]
    bits: Bits

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return those of all queries."""
        return tuple(feature for query in self.queries for feature in query.features)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of n releases, each with fresh bits."""
        columns = []
        for _ in range(n):
            own = self.bits()
            columns.append(np.concatenate([query.draw(1, side, own) for query in self.queries]))
        return np.concatenate(columns, axis=1)
