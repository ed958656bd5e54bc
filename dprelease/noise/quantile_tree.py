"""Quantiles read from a tree of noised counts, drawn only where a quantile passes.

Every node of the tree gets noise of its own, once; what no quantile looks at needs no draw, which
is the same as drawing it and leaving it out. Where quantiles go is decided by noised counts alone.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Floats, Integers, sample
from dprelease.planning.plan import PlannedColumn
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.tree_of_counts import Tree
from dprelease.query.measurement import read_at


def tree_quantiles(
    exact: ExactTable, column: PlannedColumn, bits: BitSource
) -> dict[str, Integers]:
    """Return (size,) lattice steps of every quantile that is read from one tree, by name."""
    measurement, law = column.measurement, column.mechanism
    tree = narrow_aggregate(measurement.aggregate, Tree)
    if not isinstance(law, Mechanism):
        raise TypeError("a tree has counts and noise")
    parts = [c.at for c in column.query.columns if c.parts[0] == measurement]
    asked = sorted({at for at in parts if at is not None})
    profile = exact.profile(measurement.name)
    if isinstance(profile, DenseProfile):
        profile = profile.pairs()
    leaves = _descend(profile, tree, law, asked, bits)
    return {
        read_at(measurement.name, at): leaves[i] * tree.stride + tree.lower
        for i, at in enumerate(asked)
    }


def _descend(
    profile: Profile, tree: Tree, law: Mechanism, asked: list[Fraction], bits: BitSource
) -> Integers:
    """Return (quantiles, cells) candidates, ascending along the first axis.

    At each node a quantile is a part of the node's noised count; it goes to the half in which that
    part lies, so of two quantiles in one node the larger one never goes further left.
    """
    cells = len(profile.starts) - 1
    counter = _Counter(profile, 1 << tree.levels)
    node = np.zeros((len(asked), cells), dtype=np.int64)  # first candidate of the node
    part: Floats = np.repeat(np.array([[float(at)] for at in asked]), cells, axis=1)
    at_cell = np.broadcast_to(np.arange(cells), node.shape)
    for level in range(tree.levels):
        half = 1 << (tree.levels - level - 1)
        places, where = np.unique(node + at_cell * (1 << tree.levels), return_inverse=True)
        cell, first = places >> tree.levels, places & ((1 << tree.levels) - 1)
        left = counter.between(cell, first, first + half) + sample(law.law, len(places), bits)
        right = counter.between(cell, first + half, first + 2 * half)
        right = right + sample(law.law, len(places), bits)
        sizes = np.maximum(np.stack([left, right]).astype(np.float64), 0.0)
        sizes[:, sizes.sum(axis=0) == 0.0] = 1.0  # nothing there: halve evenly
        below, above = (side[where.reshape(node.shape)] for side in sizes)
        goal = part * (below + above)
        goes_left = (goal <= below) & (below > 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(goes_left, goal / below, (goal - below) / above)
        part = np.clip(np.nan_to_num(part, nan=1.0), 0.0, 1.0)
        node = np.where(goes_left, node, node + half)
    return np.minimum(node, tree.candidates - 1)


class _Counter:
    """Counts of candidates between two places of a cell, by cumulative sums."""

    def __init__(self, profile: Profile, width: int) -> None:
        cell = np.repeat(np.arange(len(profile.starts) - 1), np.diff(profile.starts))
        self._places = cell * width + profile.values
        self._upto = np.concatenate(([0], np.cumsum(profile.counts)))
        self._width = width

    def between(self, cell: Integers, first: Integers, last: Integers) -> Integers:
        """Return how many values lie at first..last - 1."""
        ends = [np.searchsorted(self._places, cell * self._width + x) for x in (first, last)]
        counts: Integers = self._upto[ends[1]] - self._upto[ends[0]]
        return counts
