"""Subtrees of areas as units of parallel work.

The estimates of a subtree need little from the rest of the tree. The upward pass needs nothing, and
returns only the estimates of the highest areas of the subtree. The downward pass needs the final
contrasts of these areas, and the running sums before each of them (`cells`). Integer tables need
the integer tables of the same areas. So any task that has the measurements of a subtree can process
it, in any order. A subtree includes those properties of the whole tree that its levels need: units,
weights and bounds of rounding errors. Results don't depend on the cuts between subtrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Contrasts, Table
from dprelease.consistency.cells import CellsOfAreas
from dprelease.consistency.fixed_point import FixedPointRangeError, Whole
from dprelease.consistency.passes import Read, rounding_bounds, upward_pass
from dprelease.consistency.tree import Ranges
from dprelease.consistency.variances import Variances

_NARROW_TYPES = (np.int8, np.int16, np.int32)


@dataclass(frozen=True)
class Subtree:
    """Some areas and all areas below them, with their measurements.

    - `level`, `ranges`: the level of the highest areas, and the areas of each level from there
      down, as numbered in the whole tree.
    - `variances`: the variances of these areas (`Variances.part`).
    - `measured`: measured numbers (nodes, n_i ...) by level and table. Level 0 is that of the
      highest areas.
    """

    level: int
    ranges: Ranges
    variances: Variances
    measured: Mapping[tuple[int, Table], Whole]

    def read(self, level: int, table: Table, start: int, stop: int) -> Whole:
        """Return the measurements of some areas of the subtree; see `passes.Read`."""
        return self.measured[level, table][start:stop].astype(np.int64, copy=False)

    @property
    def own(self) -> Ranges:
        """Return for each level the range of its areas, numbered within the subtree."""
        return [(0, count) for count in self.variances.structure.tree.counts]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, with measurements in the narrowest type that fits them."""
        # Subtrees go to other machines, and counts mostly fit 16 bits of the 64.
        narrow = {key: _to_narrowest_type(values) for key, values in self.measured.items()}
        return {**self.__dict__, "measured": narrow}


@dataclass(frozen=True)
class PlacedSubtree:
    """A subtree, and the results of the tree above for its highest areas.

    - `final`: the final contrasts of the highest areas.
    - `before`: the cells of the highest areas and the running sums before them, by published table;
      see `cells.CellsOfAreas`.
    - `whole`: (areas, n_i ...) by clique, the integer tables of the highest areas, if they are
      computed.
    """

    subtree: Subtree
    final: Contrasts
    before: Mapping[Table, CellsOfAreas]
    whole: Mapping[Table, Whole] | None = None


@dataclass(frozen=True)
class SubtreeMessage:
    """The results of the upward pass of a subtree, which the tree above needs.

    - `best`: the estimates of the highest areas from their own subtrees.
    - `estimates`, `sums`: for each level of the subtree, the largest absolute contrast of an area,
      and the largest absolute sum of the contrasts of its children.
    """

    best: Contrasts
    estimates: list[int]
    sums: list[int]
    estimates_fit: bool = True
    """Whether all numbers are within the declared largest number; else other fields are empty."""


def subtree(variances: Variances, read: Read, level: int, span: tuple[int, int]) -> Subtree:
    """Return some consecutive areas of a level with all areas below them."""
    structure = variances.structure
    for space in structure.spaces:
        rounding_bounds(
            variances, space
        )  # computed on the whole tree, because a part can't compute it
    ranges = structure.tree.below(level, *span)
    measured = {
        (at, table): read(level + at, table, *here)
        for at, here in enumerate(ranges)
        for table in structure.noise_moments[level + at]
    }
    return Subtree(level, ranges, variances.part(level, ranges), measured)


def subtree_summary(subtree: Subtree) -> SubtreeMessage:
    """Return the summary of a subtree, which reports numbers out of range without an error."""
    try:
        up = upward_pass(subtree.variances, subtree.read, 0, subtree.own)
    # Reported and not raised, so that the caller can wait for all tasks first.
    except FixedPointRangeError:
        return SubtreeMessage({}, [], [], estimates_fit=False)
    return SubtreeMessage(up.best[0], largest_sizes(up.best), largest_sizes(up.sums))


def largest_sizes(levels: Sequence[Contrasts]) -> list[int]:
    """Return for each level the largest absolute value of a contrast."""
    return [
        max((max(int(x.max()), -int(x.min())) for x in parts.values() if x.size), default=0)
        for parts in levels
    ]


def _to_narrowest_type(values: Whole) -> NDArray[np.signedinteger[Any]]:
    """Return whole numbers in the narrowest integer type that fits them."""
    if values.size:
        low, high = int(values.min()), int(values.max())
        for kind in _NARROW_TYPES:
            if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                return values.astype(kind)
    return values
