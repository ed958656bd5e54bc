"""Candidates chosen for every cell: quantiles and most frequent values."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dprelease.exact.true_table import DenseProfile, ExactTable, Profile
from dprelease.mechanisms.selection.exponential import Exponential
from dprelease.mechanisms.selection.permute_and_flip import PermuteAndFlip
from dprelease.noise.quantiles import quantiles
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import PlannedColumn
from dprelease.query.aggregate import Frequent, Quantile
from dprelease.query.measurement import Measurement

MOST_PAIRS = 2**20
"""Pairs of a cell and a value that are looked at together, for a bounded memory."""


def chosen(
    exact: ExactTable, column: PlannedColumn, before: Mapping[str, Integers], bits: BitSource
) -> Integers:
    """Return (size,) chosen candidates: lattice steps of a quantile, positions of a declared value.

    `before`: what was chosen for measurements ahead of this one; lower ranks are not chosen again.
    """
    measurement = column.measurement
    profile = exact.profile(measurement.name)
    if isinstance(measurement.aggregate, Quantile):
        law = column.mechanism
        if not isinstance(law, Exponential):
            raise TypeError("quantiles are chosen by the exponential mechanism")
        return quantiles(profile, measurement.aggregate, law, bits)
    if isinstance(profile, DenseProfile):
        profile = profile.pairs()
    if not isinstance(measurement.aggregate, Frequent):
        raise TypeError("only quantiles and frequent values are chosen")
    earlier = [before[other.name] for other in _lower_ranks(column)]
    return _frequent(profile, measurement.aggregate, column, earlier, bits)


def _frequent(
    profile: Profile,
    aggregate: Frequent,
    column: PlannedColumn,
    earlier: list[Integers],
    bits: BitSource,
) -> Integers:
    law, candidates = column.mechanism, aggregate.candidates
    if not isinstance(law, Exponential | PermuteAndFlip):
        raise TypeError("frequent values are chosen by a selection mechanism")
    found = np.empty(len(profile.starts) - 1, dtype=np.int64)
    for cells, block in profile.blocks(max(1, math.ceil(MOST_PAIRS / candidates))):
        scores = block.dense(candidates)
        is_open = np.ones(scores.shape, dtype=np.bool_)
        for taken in earlier:
            np.put_along_axis(is_open, taken[cells, None], False, axis=1)
        found[cells] = law.choose_open(scores, is_open, bits)
    return found


def _lower_ranks(column: PlannedColumn) -> list[Measurement]:
    """Return the measurements that chose before this one, among the same values."""
    measurement = column.measurement
    wanted = measurement.aggregate
    return [
        other
        for other in column.query.measurements
        if isinstance(other.aggregate, Frequent)
        and isinstance(wanted, Frequent)
        and other.aggregate.column == wanted.column
        and other.aggregate.rank < wanted.rank
        and (other.mechanism, other.own) == (measurement.mechanism, measurement.own)
    ]
