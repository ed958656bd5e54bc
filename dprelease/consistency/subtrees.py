"""Subtrees of areas as units of parallel work.

Layer 1 needs little from the rest of the tree. The upward pass needs nothing, and passes on only
the estimates of the highest areas. The downward pass needs the final contrasts of these areas, and
the running sums before each of them (`cells`). Layer 2 needs their integer tables. So any task that
has the measurements of a subtree can process it, in any order. A subtree includes the properties of
the whole tree (units, weights, bounds of rounding) for its levels. Results don't depend on the
cuts.
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
from dprelease.consistency.passes import Read, rounding, upward
from dprelease.consistency.tree import Ranges
from dprelease.consistency.variances import Variances

_NARROW = (np.int8, np.int16, np.int32)


@dataclass(frozen=True)
class Subtree:
    """Some areas and all areas below them, with their measurements.

    Parameters
    ----------
    level, ranges
        In the whole tree: the level of the highest areas, and all areas from there down.
    variances
        Of these areas (`Variances.part`).
    measured
        (nodes, n_i ...) by level, from 0 on for the highest areas, and table.
    """

    level: int
    ranges: Ranges
    variances: Variances
    measured: Mapping[tuple[int, Table], Whole]

    def read(self, level: int, table: Table, start: int, stop: int) -> Whole:
        """Return the measurements of some of its areas; see `passes.Read`."""
        return self.measured[level, table][start:stop].astype(np.int64, copy=False)

    @property
    def own(self) -> Ranges:
        """Return the areas of each level, numbered within the subtree."""
        return [(0, count) for count in self.variances.structure.tree.counts]

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state, with measurements in their narrowest type."""
        narrow = {key: _to_narrowest_type(values) for key, values in self.measured.items()}
        return {**self.__dict__, "measured": narrow}


@dataclass(frozen=True)
class PlacedSubtree:
    """A subtree, and the results of the tree above for its highest areas.

    Parameters
    ----------
    final
        Their final contrasts.
    before
        The running sums before each of them, by published table; see `cells.CellsOfAreas`.
    whole
        (areas, n_i ...) their finest integer tables, if layer 2 is computed.
    """

    subtree: Subtree
    final: Contrasts
    before: Mapping[Table, CellsOfAreas]
    whole: Whole | None = None


@dataclass(frozen=True)
class SubtreeMessage:
    """The result of a subtree that the tree above needs.

    Parameters
    ----------
    best
        Estimates of its highest areas from all areas below them.
    estimates, sums
        For each of its levels, the largest size of an area's contrasts, and of its children's sums.
    """

    best: Contrasts
    estimates: list[int]
    sums: list[int]
    is_within: bool = True
    """Whether all numbers fit the declared largest number; otherwise the other fields are empty."""


def subtree(variances: Variances, read: Read, level: int, span: tuple[int, int]) -> Subtree:
    """Return some consecutive areas of a level with all areas below them."""
    structure = variances.structure
    for space in structure.spaces:
        rounding(variances, space)  # computed on the whole tree, because a part can't compute it
    ranges = structure.tree.below(level, *span)
    measured = {
        (at, table): read(level + at, table, *here)
        for at, here in enumerate(ranges)
        for table in structure.laws[level + at]
    }
    return Subtree(level, ranges, variances.part(level, ranges), measured)


def subtree_summary(subtree: Subtree) -> SubtreeMessage:
    """Return the summary of a subtree; numbers out of range are reported in it, not raised."""
    try:
        up = upward(subtree.variances, subtree.read, 0, subtree.own)
    except FixedPointRangeError:
        return SubtreeMessage({}, [], [], is_within=False)
    return SubtreeMessage(up.best[0], sizes(up.best), sizes(up.sums))


def sizes(levels: Sequence[Contrasts]) -> list[int]:
    """Return for each level the largest size of a number."""
    return [
        max((max(int(x.max()), -int(x.min())) for x in parts.values() if x.size), default=0)
        for parts in levels
    ]


def _to_narrowest_type(values: Whole) -> NDArray[np.signedinteger[Any]]:
    """Return whole numbers in the narrowest integer type that fits them."""
    if values.size:
        low, high = int(values.min()), int(values.max())
        for kind in _NARROW:
            if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                return values.astype(kind)
    return values
