"""Compute estimates (layer 1) of every table at every area, piece by piece in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dprelease.consistency.algebra import Contrasts, Table, cell_count
from dprelease.consistency.cells import PRODUCT_BITS, CellsOfAreas, additive_cells
from dprelease.consistency.fixed_point import (
    FixedPointRangeError,
    Whole,
    require_below,
    sibling_sums,
)
from dprelease.consistency.passes import Read, UpwardPass, downward_pass, own_contrasts, upward_pass
from dprelease.consistency.subtrees import PlacedSubtree, largest_sizes, subtree, subtree_summary
from dprelease.consistency.tree import Ranges
from dprelease.consistency.variances import Variances
from dprelease.system.prefetch import Spread

CELLS_AT_MOST = 1 << 21  # per level of a piece: a few arrays of 16 MB


@dataclass(frozen=True)
class Piece:
    """Estimates of some areas.

    - `level`: the level of the highest areas of the piece. Their estimates are also in the piece
      above, the top of the tree.
    - `ranges`: for each level from `level` down, the start and stop of the areas of the piece.
    - `tables`: for each of these levels, the cells of each published table in units of values. The
      highest level is included, because integer tables are computed from those of the parents.
    - `top`: whether the piece is the top of the tree, whose highest areas are the roots.
    """

    level: int
    ranges: Ranges
    tables: list[dict[Table, Whole]]
    top: bool


@dataclass(frozen=True)
class FirstPass:
    """Results of the upward pass that stay in memory between the upward and the downward pass.

    - `level`, `spans`: the level of the pieces below the top of the tree, and the highest areas of
      each piece.
    - `top`: the results for the top of the tree.
    - `estimates`, `sums`: for each level, the largest absolute contrast of an area, and the largest
      absolute sum of the contrasts of its children.
    """

    level: int
    spans: list[tuple[int, int]]
    top: UpwardPass
    estimates: list[int]
    sums: list[int]


def first_pass(
    variances: Variances,
    read: Read,
    cells_at_most: int = CELLS_AT_MOST,
    *,
    spread: Spread = map,
) -> FirstPass:
    """Return the results of the upward pass over the whole tree.

    Parameters and errors are those of `pieces`, and `spread`: a replacement of `map` that computes
    the summaries of subtrees in parallel.
    """
    structure, tree = variances.structure, variances.structure.tree
    level, cuts = tree.subtrees(
        cells_at_most, max(1, cell_count(structure.sizes, range(len(structure.sizes))))
    )
    spans = list(pairwise(cuts))
    if len(spans) == 1 and level == 0:
        spans = [(0, tree.counts[0])]
    estimates, sums = [0] * tree.levels, [0] * tree.levels
    roots, is_within_range = [], True
    # Wait for all subtrees: a task that still runs would read during the next pass.
    for summary in spread(
        subtree_summary, (subtree(variances, read, level, span) for span in spans)
    ):
        _update_maxima(estimates, summary.estimates, level)
        _update_maxima(sums, summary.sums, level)
        roots.append(summary.best)
        is_within_range &= summary.estimates_fit
    # Only now: an error in the middle would leave tasks that still read.
    if not is_within_range:
        raise FixedPointRangeError
    ranges = [(0, count) for count in tree.counts[: level + 1]]
    top = upward_pass(variances, read, 0, ranges, given=_concatenate_contrasts(roots))
    _update_maxima(estimates, largest_sizes(top.best), 0)
    _update_maxima(sums, largest_sizes(top.sums), 0)
    return FirstPass(level, spans, top, estimates, sums)


def _update_maxima(largest: list[int], found: Sequence[int], level: int) -> None:
    for at, size in enumerate(found, level):
        largest[at] = max(largest[at], size)


def estimates_fit(variances: Variances, first: FirstPass) -> bool:
    """Return whether all estimates are proved to fit 64 bits; False if there is no proof.

    A final contrast is the contrast of the node's own subtree plus a part of its parent's
    difference. This part is at most the difference and a unit: |x_c| <= |u_c| + |x_p| + |s_p| + 1.
    """
    structure = variances.structure
    spread = sum(cell_count(structure.sizes, space) << len(space) for space in structure.spaces)
    largest = first.estimates[0]
    for level in range(structure.tree.levels):
        if level:
            difference = largest + first.sums[level - 1]
            if difference >= structure.limit(()):
                return False
            largest = first.estimates[level] + difference + 1
        if spread * largest >= 1 << PRODUCT_BITS:
            return False
    return True


def pieces(
    variances: Variances,
    read: Read,
    published: Sequence[Sequence[Table]],
    cells_at_most: int = CELLS_AT_MOST,
    *,
    first: FirstPass | None = None,
) -> Iterator[Piece]:
    """Yield the estimates of the top of the tree first, then those of each set of subtrees below.

    - `read`: `read(level, table, start, stop)` returns the measured whole numbers of some areas; it
      is called twice for each area.
    - `published`: for each level, the required tables; all of their residual spaces must be
      estimable there. A table published at a level must be published at every level above it,
      because running sums are carried downwards.
    - `cells_at_most`: the largest number of cells of one level of a piece; a piece has more only if
      the children of a single area have more. The results don't depend on this number.
    - `first`: the result of `first_pass`, if the caller has computed it already.

    Raises FixedPointRangeError if measured numbers are too large for the declared largest number.
    """
    first = first or first_pass(variances, read, cells_at_most)
    top = top_estimates(variances, first, published)
    yield top.piece
    for placed in top.subtrees_below(variances, read, first):
        yield subtree_estimates(placed, published)


@dataclass(frozen=True)
class Top:
    """The top of the tree, and the running sums of its lowest areas for the subtrees below."""

    piece: Piece
    final: Contrasts
    carried: dict[Table, CellsOfAreas]

    def subtrees_below(
        self,
        variances: Variances,
        read: Read,
        first: FirstPass,
        whole: Mapping[Table, Whole] | None = None,
    ) -> Iterator[PlacedSubtree]:
        """Yield the subtrees below the top that have areas, in order.

        `whole`: by clique, the integer tables of the lowest areas of the top, if computed.
        """
        for start, stop in first.spans:
            below = variances.structure.tree.below(first.level, start, stop)
            if len(below) == 1 or below[1][0] == below[1][1]:
                continue
            yield PlacedSubtree(
                subtree(variances, read, first.level, (start, stop)),
                {space: x[start:stop] for space, x in self.final.items()},
                {
                    table: CellsOfAreas(one.values[start:stop], one.before[start:stop])
                    for table, one in self.carried.items()
                },
                None if whole is None else {t: x[start:stop] for t, x in whole.items()},
            )


def top_estimates(
    variances: Variances, first: FirstPass, published: Sequence[Sequence[Table]]
) -> Top:
    """Return the estimates of the top of the tree; see `pieces` for parameters and errors."""
    for above, below in pairwise(published):
        if not set(below) <= set(above):
            raise ValueError("a table is published at every level above its lowest one")
    tree = variances.structure.tree
    ranges = [(0, count) for count in tree.counts[: first.level + 1]]
    final = downward_pass(variances, 0, ranges, first.top, first.top.best[0])
    tables, carried = _cells_of_piece(variances, ranges, final, published, None)
    return Top(Piece(0, ranges, tables, top=True), final[-1], carried)


def subtree_estimates(placed: PlacedSubtree, published: Sequence[Sequence[Table]]) -> Piece:
    """Return the estimates of a subtree, from its measurements and the results above it.

    - `placed`: the subtree, with the results above it.
    - `published`: for each level of the whole tree, the required tables.

    Raises FixedPointRangeError if measured numbers are too large for the declared largest number.
    """
    part, variances = placed.subtree, placed.subtree.variances
    up = upward_pass(variances, part.read, 0, part.own)
    final = downward_pass(variances, 0, part.own, up, placed.final)
    wanted = published[part.level :]
    tables = _cells_of_piece(variances, part.own, final, wanted, dict(placed.before))[0]
    return Piece(part.level, part.ranges, tables, top=False)


def _concatenate_contrasts(parts: list[Contrasts]) -> Contrasts:
    return {space: np.concatenate([part[space] for part in parts]) for space in parts[0]}


def _cells_of_piece(
    variances: Variances,
    ranges: Ranges,
    final: list[Contrasts],
    published: Sequence[Sequence[Table]],
    carried_above: dict[Table, CellsOfAreas] | None,
) -> tuple[list[dict[Table, Whole]], dict[Table, CellsOfAreas]]:
    """Return the cells of each level of a piece, and the running sums of its lowest level."""
    structure = variances.structure
    levels: list[dict[Table, Whole]] = []
    carried: dict[Table, CellsOfAreas] = {}
    if carried_above is None:
        alone = np.arange(ranges[0][1] + 1)
        for table in published[0]:
            before = np.zeros((ranges[0][1], *(structure.sizes[i] for i in table)), np.int64)
            carried[table] = additive_cells(structure, table, final[0], alone, before)
    else:
        carried = carried_above
    levels.append({table: one.values for table, one in carried.items()})
    for at in range(1, len(ranges)):
        start, stop = ranges[at - 1]
        families = structure.tree.starts[at - 1][start : stop + 1]
        carried = {
            table: additive_cells(
                structure, table, final[at], families - families[0], carried[table].before
            )
            for table in published[at]
        }
        levels.append({table: one.values for table, one in carried.items()})
    return levels, carried


# Include the measurements of groupings in the estimates, by changes of those of the leaves.


def with_groups(variances: Variances, read: Read, cells_at_most: int = CELLS_AT_MOST) -> Variances:
    """Return variances with the changes of the leaves' measurements (see `group_gains`).

    Estimates computed with the result are those of least squares over all tables, also those of
    groupings; without groupings, the result is the same as `variances`.

    - `read`: as in `estimates.pieces`, also for the levels of groupings.

    Raises FixedPointRangeError if numbers are too large for the declared largest number.
    """
    structure, levels = variances.structure, variances.structure.tree.levels
    if not structure.groupings:
        return variances
    groupings = structure.groupings
    measured = [
        own_contrasts(variances, read, level, 0, grouping.size)
        for level, grouping in enumerate(groupings, levels)
    ]
    differences = [dict(own) for own in measured]
    for start, leaves in _leaf_contrasts(variances, read, cells_at_most):
        for grouping, rest in zip(groupings, differences, strict=True):
            groups = grouping.groups[start : start + len(leaves[()])]
            # The leaves of a group lie anywhere, and `sibling_sums` needs them side by side.
            order = np.argsort(groups, kind="stable")
            edges = np.searchsorted(groups[order], np.arange(grouping.size + 1))
            for space in rest:
                sums = sibling_sums(leaves[space][order], edges)
                rest[space] = require_below(rest[space] - sums, structure.limit(space))
    # The caller's variances stay without changes: they serve several sets of measurements.
    found = copy(variances)
    found.changes = {}
    for space, one in variances.of.items():
        if one.gains is None:
            continue
        of_space = [
            (grouping.groups, rest[space])
            for grouping, rest in zip(groupings, differences, strict=True)
            if space in rest
        ]
        changes = one.gains.changes(np.concatenate([values for _, values in of_space]))
        found.changes[space] = [
            (groups, change) for (groups, _), change in zip(of_space, changes, strict=True)
        ]
    return found


def _leaf_contrasts(
    variances: Variances, read: Read, cells_at_most: int
) -> Iterator[tuple[int, Contrasts]]:
    """Yield the first of some consecutive leaves, and their estimates from the tree alone."""
    first = first_pass(variances, read, cells_at_most)
    top = top_estimates(variances, first, [[]] * variances.structure.tree.levels)
    for placed in top.subtrees_below(variances, read, first):
        part = placed.subtree
        up = upward_pass(part.variances, part.read, 0, part.own)
        yield part.ranges[-1][0], downward_pass(part.variances, 0, part.own, up, placed.final)[-1]
