"""Add noise to single records, or randomize their values, in random order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.exact.results.true_records import ExactRecords
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.entropy import BitSource, random_order
from dprelease.numerics.lattice import LIMIT, Integers, sample
from dprelease.planning.local_plan import LocalColumn


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
