"""Answer one query: select its private keys, if it has any, and add noise to every column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dprelease.exact.engine_api import QueryEngine
from dprelease.exact.results.true_table import Partitions
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.gaussian_threshold import GaussianThreshold
from dprelease.mechanisms.partition_selection import PartitionSelection
from dprelease.noise.noised_vectors import (
    FreshNoise,
    NoisyTable,
    change_batch_size,
    perturb_in_batches,
)
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.numerics.lattice import Integers, largest_true, sample
from dprelease.planning.plan import PlannedColumn
from dprelease.query.resolve import Query
from dprelease.schema.release import PRIVATE_KEYS


@dataclass(frozen=True, slots=True)
class Answer:
    """The noised table of one query, with the planned columns for its published keys."""

    noisy: NoisyTable
    columns: tuple[PlannedColumn, ...]

    @property
    def query(self) -> Query:
        """Return the query with the published keys."""
        return self.columns[0].query


def answer_query(engine: QueryEngine, columns: Sequence[PlannedColumn], bits: BitSource) -> Answer:
    """Return the noised answer of one query, for which `columns` are all its planned columns.

    If the query has private keys, a separate mechanism selects keys first. The selected keys are
    public from then on, and the other columns are computed and noised for the cells of these keys.

    Raises DataError: the errors of `QueryEngine.run`.
    """
    query = columns[0].query
    if query.private is None:
        return Answer(_noisy_table(engine, query, columns, bits), tuple(columns))
    (selecting,) = (column for column in columns if column.measurement.finds_keys)
    partitions = engine.partitions(query)
    selected, numbers = selected_keys(partitions, selecting, bits)
    space = query.private.key_space_of(
        partitions.names[i] for i in np.flatnonzero(selected).tolist()
    )
    index_of_name = {name: i for i, name in enumerate(partitions.names)}
    # The key space sorts the names, so numbers of people are put into its order.
    order = [index_of_name[str(text)] for text in space.keys[0].values]
    public = replace(query, keys=space)
    planned = tuple(replace(column, query=public) for column in columns)
    others = [column for column in planned if not column.measurement.finds_keys]
    empty = NoisyTable(space.size, {})  # of a query that publishes only keys
    noisy = _noisy_table(engine, public, others, bits) if others else empty
    vectors = dict(noisy.columns)
    if numbers is not None:
        vectors[PRIVATE_KEYS] = numbers[np.array(order, dtype=np.int64)]
    return Answer(NoisyTable(noisy.size, vectors), planned)


def _noisy_table(
    engine: QueryEngine, query: Query, columns: Sequence[PlannedColumn], bits: BitSource
) -> NoisyTable:
    """Return the noised vectors of all cells of one query."""
    (noised,) = noisy_batches(engine, query, columns, bits, max(query.keys.size, 1))
    return noised


def noisy_batches(
    engine: QueryEngine,
    query: Query,
    columns: Sequence[PlannedColumn],
    bits: BitSource,
    most: int,
) -> Iterator[NoisyTable]:
    """Return the noised vectors of public keys, in batches of `most` cells.

    The last batch may be smaller. If other machines have the cells, these machines draw the noise.
    In both cases, the engine has read all rows before the first batch.

    Raises DataError: the errors of `QueryEngine.run`.
    """
    # Only with true randomness: a rehearsal or a replay draws from its own bits on this machine.
    if isinstance(bits, Entropy):
        drawn = engine.noisy_vectors(query, FreshNoise(tuple(columns)))
        if drawn is not None:
            return change_batch_size(drawn, query.keys.size, most)
    return perturb_in_batches(engine.run(query), columns, bits, most)


def selected_keys(
    partitions: Partitions, selecting: PlannedColumn, bits: BitSource
) -> tuple[np.ndarray, Integers | None]:
    """Return flags of the selected keys, and noised numbers of people if these numbers decide.

    The second result is None if a partition selection decides.
    """
    mechanism = selecting.mechanism
    if isinstance(mechanism, PartitionSelection):
        return mechanism.select(partitions.units, bits), None
    if not isinstance(mechanism, Mechanism):
        raise TypeError("keys are selected by a selection or by noise that ends")
    numbers = sample(mechanism.noise_distribution, len(partitions.units), bits) + partitions.units
    return numbers >= key_threshold(mechanism), numbers


def key_threshold(mechanism: Mechanism) -> int:
    """Return the smallest noised number of a selected key.

    For bounded noise, it is the smallest number that the noise never reaches. If nobody has a key,
    its noised number is always below this threshold. So leaving out smaller numbers is
    post-processing of a vector over all possible keys.

    Raises ValueError if the noise is not bounded, or if its largest value can't be determined.
    """

    def can_be_reached(k: int) -> bool:
        """Return whether the noise can be k or more."""
        return not mechanism.tail(k, True).is_zero()

    if isinstance(mechanism, GaussianThreshold):
        return int(mechanism.threshold)
    if not mechanism.has_bounded_noise:
        raise ValueError("only noise that ends has a threshold")
    # Tails of bounded noise are exactly 0 beyond its end, so a ball decides without an error.
    last = largest_true(can_be_reached, mechanism.half_width(0.9))
    if last is None:
        raise ValueError("the largest value of the noise can't be computed")
    return last + 1
