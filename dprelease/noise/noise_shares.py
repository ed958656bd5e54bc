"""The messages of one party, which are its true values plus its share of the noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.exact.results.true_table import ExactTable
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers, sample
from dprelease.planning.federated_plan import ShareColumn


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
        noise = sample(column.law, exact.size, bits, modular=True).view(np.uint64)
        reach = column.clamping_bound(parties)
        true = np.clip(exact.vector(name), -reach, reach)
        fine = true.view(np.uint64) * np.uint64(column.refined)
        vectors[name] = (fine + noise).view(np.int64)
    return vectors
