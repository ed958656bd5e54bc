"""One query answered: keys found if they are not public, then every column noised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dprelease.exact.engine_api import Answering
from dprelease.exact.results.partitions import Partitions
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.partition_selection import PartitionSelection
from dprelease.noise.noised_vectors import FreshNoise, NoisyTable, perturb_in_batches, rebatch
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.numerics.lattice import Integers, largest, sample
from dprelease.planning.plan import PlannedColumn
from dprelease.query.resolve import Query
from dprelease.schema.release import PRIVATE_KEYS


@dataclass(frozen=True, slots=True)
class Answer:
    """A noised table, and its columns over the cells that are published."""

    noisy: NoisyTable
    columns: tuple[PlannedColumn, ...]

    @property
    def query(self) -> Query:
        """Return the query with the keys that are published."""
        return self.columns[0].query


def answer_query(engine: Answering, columns: Sequence[PlannedColumn], bits: BitSource) -> Answer:
    """Return the noised answer of one query, all of whose planned columns are given.

    Keys that are not public are selected first, by their own mechanism; selected ones are public
    from then on, and the other columns are computed and noised over these cells.

    Raises
    ------
    DataError
        As `Engine.run`.
    """
    query = columns[0].query
    if query.private is None:
        return Answer(_noisy(engine, query, columns, bits), tuple(columns))
    (selecting,) = (column for column in columns if column.measurement.finds_keys)
    partitions = engine.partitions(query)
    selected, numbers = selected_keys(partitions, selecting, bits)
    space = query.private.among(partitions.names[i] for i in np.flatnonzero(selected).tolist())
    place = {name: i for i, name in enumerate(partitions.names)}
    order = [place[str(text)] for text in space.keys[0].values]
    public = replace(query, keys=space)
    planned = tuple(replace(column, query=public) for column in columns)
    others = [column for column in planned if not column.measurement.finds_keys]
    noisy = _noisy(engine, public, others, bits)
    vectors = dict(noisy.columns)
    if numbers is not None:
        vectors[PRIVATE_KEYS] = numbers[np.array(order, dtype=np.int64)]
    return Answer(NoisyTable(noisy.size, vectors), planned)


def _noisy(
    engine: Answering, query: Query, columns: Sequence[PlannedColumn], bits: BitSource
) -> NoisyTable:
    """Return the noised vectors of all cells at once."""
    (whole,) = noisy_batches(engine, query, columns, bits, max(query.keys.size, 1))
    return whole


def noisy_batches(
    engine: Answering,
    query: Query,
    columns: Sequence[PlannedColumn],
    bits: BitSource,
    most: int,
) -> Iterator[NoisyTable]:
    """Return the noised vectors of public keys in batches of `most` cells, the last of those left.

    Noise is drawn where the cells are, if they are elsewhere. Either way all rows have been read.

    Raises
    ------
    DataError
        As `Engine.run`.
    """
    if isinstance(bits, Entropy):
        drawn = engine.noisy_vectors(query, FreshNoise(tuple(columns)))
        if drawn is not None:
            return rebatch(drawn, query.keys.size, most)
    return perturb_in_batches(engine.run(query), columns, bits, most)


def selected_keys(
    partitions: Partitions, selecting: PlannedColumn, bits: BitSource
) -> tuple[np.ndarray, Integers | None]:
    """Return which partitions are selected, and their noised numbers of units if these decide."""
    law = selecting.mechanism
    if isinstance(law, PartitionSelection):
        return law.select(partitions.units, bits), None
    if not isinstance(law, Mechanism):
        raise TypeError("keys are selected by a selection or by noise that ends")
    numbers = sample(law.law, len(partitions.units), bits) + partitions.units
    return numbers >= threshold(law), numbers


def threshold(law: Mechanism) -> int:
    """Return the least number that noise alone never reaches.

    What no unit has stays below it, so leaving out the smaller ones is post-processing of a vector
    over all keys that could be thought of.
    """

    def possible(k: int) -> bool:
        return not law.tail(k, True).is_zero()

    if not law.bounded:
        raise ValueError("only noise that ends has a threshold")
    last = largest(possible, law.half_width(0.9))
    if last is None:
        raise ValueError("the end of the noise can't be told")
    return last + 1
