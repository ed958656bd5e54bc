"""The only place where true values and randomness meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.exact.table import ExactTable
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.numerics.lattice import LIMIT, Integers, sample
from dprelease.query.aggregate import Tree
from dprelease.release.choosing import chosen
from dprelease.release.plan import PlannedColumn
from dprelease.release.tree import tree_quantiles


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """Noised integers of each measure, lattice steps, over every cell in key order."""

    size: int
    columns: dict[str, Integers]


def perturb(exact: ExactTable, columns: Sequence[PlannedColumn], bits: BitSource) -> NoisyTable:
    """Return the true vectors plus fresh noise in every cell, saturated at +-2^62, and choices."""
    noisy: dict[str, Integers] = {}
    for column in columns:
        name, law = column.measure.name, column.mechanism
        if isinstance(column.measure.aggregate, Tree):
            noisy |= tree_quantiles(exact, column, bits)
        elif isinstance(law, Mechanism):
            noisy[name] = _noised(exact.vector(name), law, bits)
        else:
            noisy[name] = chosen(exact, column, noisy, bits)
    return NoisyTable(exact.size, noisy)


@dataclass(frozen=True, slots=True)
class FreshNoise:
    """Noise with entropy of the machine that draws it, drawn anew at every call."""

    columns: tuple[PlannedColumn, ...]

    def __call__(self, exact: ExactTable) -> dict[str, Integers]:
        """Return the noised vectors of some cells."""
        return perturb(exact, self.columns, Entropy()).columns


def _noised(true: Integers, law: Mechanism, bits: BitSource) -> Integers:
    """Return values plus noise.

    Both addends lie within 2^62, so their sum fits 64 bits but for +-2^63 itself, which clamping
    the noise by one step avoids; all of it is post-processing.
    """
    noise = sample(law.law, len(true), bits)
    np.clip(noise, 1 - LIMIT, LIMIT - 1, out=noise)
    noise += true
    return np.clip(noise, -LIMIT, LIMIT, out=noise)
