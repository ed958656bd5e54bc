"""Add noise to true values: of cells, of the shares of a party, and of single records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dprelease.exact.results.true_table import ExactTable
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.common.invariant import Invariant
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.entropy import BitSource, Entropy, random_order
from dprelease.numerics.lattice import CHUNK, LIMIT, Integers, sample
from dprelease.planning.plan import PlannedColumn

if TYPE_CHECKING:  # most releases are not of single records, nor of several parties
    from dprelease.exact.results.true_records import ExactRecords
    from dprelease.planning.federated_plan import ShareColumn
    from dprelease.planning.local_plan import LocalColumn


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """Noised integers of all measurements by name, in steps, for all cells or a batch of cells.

    The cells are in the order of the keys.
    """

    size: int
    columns: dict[str, Integers]


def perturb(exact: ExactTable, columns: Sequence[PlannedColumn], bits: BitSource) -> NoisyTable:
    """Return the noised vectors and the selections of all cells.

    Vectors are true values plus fresh noise in every cell, clamped to +-2^62.
    """
    (noised,) = perturb_in_batches(exact, columns, bits, max(exact.size, 1))
    return noised


def perturb_in_batches(
    exact: ExactTable, columns: Sequence[PlannedColumn], bits: BitSource, most: int
) -> Iterator[NoisyTable]:
    """Yield the result of `perturb` in batches of `most` cells; the last batch may be smaller.

    The function makes the selections of all cells first. Then it draws noise for `CHUNK` cells of
    one vector after the other, in an order that does not depend on the size of batches. So the same
    stream of bits always yields the same table.
    """
    choices: dict[str, Integers] = {}
    for column in columns:
        if not column.measurement.is_vector:
            from dprelease.noise.selections import choose_candidates

            # Imported at first use: most releases select nothing.
            choices |= choose_candidates(exact, column, choices, bits)
    mechanisms = {
        column.measurement.name: _noise_of_vector(column)
        for column in columns
        if column.measurement.is_vector and isinstance(column.mechanism, Mechanism)
    }
    chunks = _noisy_chunks(exact, mechanisms, bits)
    left: dict[str, Integers] = {name: np.empty(0, dtype=np.int64) for name in mechanisms}
    for first in range(0, max(exact.size, 1), most):
        size = min(most, exact.size - first)
        noised, left = _take_cells(chunks, left, size)
        noised |= {name: values[first : first + size] for name, values in choices.items()}
        yield NoisyTable(size, noised)


def change_batch_size(
    drawn: Iterable[Mapping[str, Integers]], size: int, most: int
) -> Iterator[NoisyTable]:
    """Yield vectors, which arrive in chunks of cells, in batches of `most` cells.

    `size` is the total number of cells. The last batch may be smaller.

    Raises LookupError if the vectors do not have `size` cells.
    """
    chunks = (dict(vectors) for vectors in drawn)
    left = next(chunks, {})
    if size and not left:
        raise LookupError("no cells came")
    for first in range(0, max(size, 1), most):
        batch_size = min(most, size - first)
        try:
            batch, left = _take_cells(chunks, left, batch_size)
        except StopIteration:
            raise LookupError("cells are missing") from None
        yield NoisyTable(batch_size, batch)
    # Too many cells would mean that keys and values are shifted against each other.
    if any(len(values) for values in left.values()) or next(chunks, None) is not None:
        raise LookupError("there are more cells than keys")


def _take_cells(
    chunks: Iterator[dict[str, Integers]], left: dict[str, Integers], size: int
) -> tuple[dict[str, Integers], dict[str, Integers]]:
    """Return the next `size` cells of every vector, and the remaining cells of the last chunk.

    `left` are the remaining cells of the previous chunk.
    """
    vectors: dict[str, Integers] = {name: np.empty(size, dtype=np.int64) for name in left}
    filled = 0
    while vectors and filled < size:
        if not len(next(iter(left.values()))):
            left = next(chunks)
        taken = min(size - filled, len(next(iter(left.values()))))
        for name, values in left.items():
            vectors[name][filled : filled + taken] = values[:taken]
        left = {name: values[taken:] for name, values in left.items()}
        filled += taken
    return vectors, left


def _noisy_chunks(
    exact: ExactTable, mechanisms: Mapping[str, Mechanism], bits: BitSource
) -> Iterator[dict[str, Integers]]:
    """Yield the noisy values of all vectors, chunk by chunk of cells."""
    for first in range(0, exact.size, CHUNK):
        cells = slice(first, min(first + CHUNK, exact.size))
        yield {
            name: _add_noise(exact.block(name, cells), mechanism, bits)
            for name, mechanism in mechanisms.items()
        }


@dataclass(frozen=True, slots=True)
class FreshNoise:
    """A function that adds fresh noise, drawn from the entropy of the machine that calls it."""

    columns: tuple[PlannedColumn, ...]

    def __call__(self, exact: ExactTable) -> dict[str, Integers]:
        return perturb(exact, self.columns, Entropy()).columns


def _noise_of_vector(column: PlannedColumn) -> Mechanism:
    """Return the noise mechanism of a vector.

    Raises TypeError if a vector has no noise, unless it is a declared invariant or a sum of one.
    """
    mechanism = column.mechanism
    # Both ways: an invariant that was not declared would publish the truth, and a declared one with
    # noise would not be one.
    if not isinstance(mechanism, Mechanism) or isinstance(mechanism, Invariant) is not bool(
        column.measurement.exact
    ):
        raise TypeError("a vector has noise unless it is declared to be published exactly")
    return mechanism


def _add_noise(true: Integers, mechanism: Mechanism, bits: BitSource) -> Integers:
    """Return true values plus noise, clamped to +-2^62; an invariant gets no noise.

    True values and noise are at most 2^62 in absolute value, so only a sum of +-2^63 could exceed
    64 bits. Clamping the noise one step earlier avoids such a sum. Clamping noise and sums is
    post-processing.
    """
    if isinstance(mechanism, Invariant):
        return np.clip(true, -LIMIT, LIMIT)
    noise = sample(mechanism.noise_distribution, len(true), bits)
    np.clip(noise, 1 - LIMIT, LIMIT - 1, out=noise)
    noise += true
    return np.clip(noise, -LIMIT, LIMIT, out=noise)


# The messages of one party, which are its true values plus its share of the noise.


def noised_messages(
    exact: ExactTable, columns: Sequence[ShareColumn], parties: int, bits: BitSource
) -> dict[str, Integers]:
    """Return the messages by column: true values in finer steps plus fresh noise, modulo 2^64.

    The function clamps true values first, so that the sum over all parties can't overflow. It
    clamps each cell separately, so that no person moves a cell farther than without clamping. It
    never clamps noise, because the sum of all messages modulo 2^64 must depend only on the sum of
    the integers.
    """
    vectors = {}
    for column in columns:
        name = column.measurement.name
        noise = sample(column.mechanism, exact.size, bits, modular=True).view(np.uint64)
        # A larger total could wrap modulo 2^64 into a plausible number.
        reach = column.clamping_bound(parties)
        true = np.clip(exact.vector(name), -reach, reach)
        fine = true.view(np.uint64) * np.uint64(column.refined)
        vectors[name] = (fine + noise).view(np.int64)
    return vectors


# Add noise to single records, or randomize their values, in random order.


def perturb_records(
    exact: ExactRecords, columns: Sequence[LocalColumn], bits: BitSource
) -> dict[str, Integers]:
    """Return the noised integers (n,) of each column of n records, by name.

    An integer is a number of steps, or the position of a value in its declared list. The function
    puts the records into random order, because a source may store them in the order of their
    values; afterwards `exact` has the same order. Every record gets fresh and independent noise.
    Noised numbers are clamped to +-2^62, which is post-processing. Noise is clamped one step
    earlier, so that no sum exceeds 64 bits.
    """
    # For all columns at once, so that the values of one record stay together.
    exact.reorder(random_order(exact.size, bits))
    noisy = {}
    for planned in columns:
        mechanism, low = planned.mechanism, planned.column.low
        # The privacy cost holds only for values within these bounds, so clamp them once more.
        true = np.clip(exact.vector(planned.column.name), low, planned.column.high)
        if isinstance(mechanism, RandomizedResponse):
            noisy[planned.column.name] = mechanism.respond(true - low, bits) + low
            continue
        if not isinstance(mechanism, Mechanism):
            raise TypeError("numbers of records get noise")
        noise = sample(mechanism.noise_distribution, exact.size, bits)
        np.clip(noise, 1 - LIMIT, LIMIT - 1, out=noise)
        noise += true
        noisy[planned.column.name] = np.clip(noise, -LIMIT, LIMIT, out=noise)
    return noisy
