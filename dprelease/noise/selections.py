"""Candidates chosen for every cell: quantiles and most frequent values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dprelease.exact.results.true_table import DenseProfile, ExactTable
from dprelease.mechanisms.selection.exponential import Exponential
from dprelease.mechanisms.selection.permute_and_flip import PermuteAndFlip
from dprelease.noise.quantile_tree import tree_quantiles
from dprelease.noise.quantiles import quantiles
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import PlannedColumn
from dprelease.query.aggregates.aggregate import Aggregate, narrow_aggregate
from dprelease.query.aggregates.frequent import Frequent
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.aggregates.tree_of_counts import Tree
from dprelease.query.measurement import Measurement

MOST_PAIRS = 2**20
"""Pairs of a cell and a value that are looked at together, for a bounded memory."""


Choices = Mapping[str, Integers]


def choose_candidates(
    exact: ExactTable, column: PlannedColumn, before: Choices, bits: BitSource
) -> dict[str, Integers]:
    """Return (size,) chosen candidates by name: lattice steps, or positions of declared values.

    `before`: what was chosen for measurements ahead of this one; lower ranks are not chosen again.
    """
    return CHOOSERS[type(column.measurement.aggregate)](exact, column, before, bits)


def _tree(
    exact: ExactTable, column: PlannedColumn, _before: Choices, bits: BitSource
) -> dict[str, Integers]:
    return tree_quantiles(exact, column, bits)


def _quantile(
    exact: ExactTable, column: PlannedColumn, _before: Choices, bits: BitSource
) -> dict[str, Integers]:
    measurement, law = column.measurement, column.mechanism
    if not isinstance(law, Exponential):
        raise TypeError("quantiles are chosen by the exponential mechanism")
    profile, aggregate = (
        exact.profile(measurement.name),
        narrow_aggregate(measurement.aggregate, Quantile),
    )
    return {measurement.name: quantiles(profile, aggregate, law, bits)}


def _frequent(
    exact: ExactTable, column: PlannedColumn, before: Choices, bits: BitSource
) -> dict[str, Integers]:
    measurement, law = column.measurement, column.mechanism
    if not isinstance(law, Exponential | PermuteAndFlip):
        raise TypeError("frequent values are chosen by a selection mechanism")
    profile = exact.profile(measurement.name)
    if isinstance(profile, DenseProfile):
        profile = profile.pairs()
    earlier = [before[other.name] for other in _lower_ranks(column)]
    candidates = measurement.aggregate.candidates
    choices = np.empty(len(profile.starts) - 1, dtype=np.int64)
    for cells, block in profile.blocks(max(1, math.ceil(MOST_PAIRS / candidates))):
        scores = block.dense(candidates)
        is_open = np.ones(scores.shape, dtype=np.bool_)
        for taken in earlier:
            np.put_along_axis(is_open, taken[cells, None], False, axis=1)
        choices[cells] = law.choose_open(scores, is_open, bits)
    return {measurement.name: choices}


def _lower_ranks(column: PlannedColumn) -> list[Measurement]:
    """Return the measurements that chose before this one, among the same values."""
    measurement = column.measurement
    wanted = narrow_aggregate(measurement.aggregate, Frequent)
    lower = {replace(wanted, rank=rank) for rank in range(1, wanted.rank)}
    return [
        other
        for other in column.query.measurements
        if other.aggregate in lower
        and (other.mechanism, other.own) == (measurement.mechanism, measurement.own)
    ]


Chooser = Callable[[ExactTable, PlannedColumn, Choices, BitSource], dict[str, Integers]]

CHOOSERS: dict[type[Aggregate], Chooser] = {
    Tree: _tree,
    Quantile: _quantile,
    Frequent: _frequent,
}
"""How answers are found that are no noised vectors, by aggregate."""
