"""The only place where true values and randomness meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.exact.table import ExactTable
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import LIMIT, Integers, sample
from dprelease.release.plan import PlannedColumn


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """Noised integers of each measure, lattice steps, over every cell in key order."""

    size: int
    columns: dict[str, Integers]


def perturb(exact: ExactTable, columns: Sequence[PlannedColumn], bits: BitSource) -> NoisyTable:
    """Return the true vectors plus fresh noise in every cell, saturated at +-2^62.

    Both addends lie within 2^62, so their sum fits 64 bits but for +-2^63 itself, which clamping
    the noise by one step avoids; all of it is post-processing.
    """
    noisy = {}
    for column in columns:
        name = column.measure.name
        noise = sample(column.mechanism.law, exact.size, bits)
        np.clip(noise, 1 - LIMIT, LIMIT - 1, out=noise)
        noise += exact.vector(name)
        noisy[name] = np.clip(noise, -LIMIT, LIMIT, out=noise)
    return NoisyTable(exact.size, noisy)
