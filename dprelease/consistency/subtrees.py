"""Areas with all that lies below them, apart from the rest of the tree: what one task works on.

Layer 1 asks the rest of the tree for little: upwards nothing, so that the estimates of the highest
areas are all that goes on from there; downwards the final contrasts of these, and what of running
sums comes before each of them (`cells`). Layer 2 asks for their whole tables. So a subtree can be
worked on anywhere, in any order, by whoever has its measurements; of what is the same for the whole
tree (units, weights, bounds of rounding) it takes its levels along. Nothing depends on the cuts.
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
    """Some areas and all below them, with what was measured there.

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
        """Return what was measured at some of its areas; see `passes.Read`."""
        return self.measured[level, table][start:stop].astype(np.int64, copy=False)

    @property
    def own(self) -> Ranges:
        """Return the areas of each level as numbers of its own tree."""
        return [(0, count) for count in self.variances.structure.tree.counts]

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent: measurements as narrow as they are."""
        narrow = {key: _to_narrowest_type(values) for key, values in self.measured.items()}
        return {**self.__dict__, "measured": narrow}


@dataclass(frozen=True)
class PlacedSubtree:
    """A subtree, and what the tree above says of its highest areas.

    Parameters
    ----------
    final
        Their final contrasts.
    before
        What each of them carries, by published table; see `cells.Carried`.
    whole
        (areas, n_i ...) their whole finest tables, where layer 2 is made.
    """

    subtree: Subtree
    final: Contrasts
    before: Mapping[Table, CellsOfAreas]
    whole: Whole | None = None


@dataclass(frozen=True)
class SubtreeMessage:
    """What a subtree says upwards.

    Parameters
    ----------
    best
        Estimates of its highest areas from all that lies below them.
    estimates, sums
        For each of its levels, the largest size of an area's contrasts, and of its children's sums.
    """

    best: Contrasts
    estimates: list[int]
    sums: list[int]
    is_within: bool = True
    """Whether no number exceeds what the declared largest one allows for; else nothing is said."""


def subtree(variances: Variances, read: Read, level: int, span: tuple[int, int]) -> Subtree:
    """Return some areas of a level, side by side, with all that lies below them."""
    structure = variances.structure
    for space in structure.spaces:
        rounding(variances, space)  # of the whole tree, which a part of it knows nothing about
    ranges = structure.tree.below(level, *span)
    measured = {
        (at, table): read(level + at, table, *here)
        for at, here in enumerate(ranges)
        for table in structure.laws[level + at]
    }
    return Subtree(level, ranges, variances.part(level, ranges), measured)


def subtree_summary(subtree: Subtree) -> SubtreeMessage:
    """Return what a subtree says upwards; numbers out of range are told, for whoever asked."""
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
    """Return whole numbers in the narrowest type that has room for them."""
    if values.size:
        low, high = int(values.min()), int(values.max())
        for kind in _NARROW:
            if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                return values.astype(kind)
    return values
