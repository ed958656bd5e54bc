"""Compute estimates, integer tables and intervals piece by piece: entry point for releases.

**Intervals** around true values. Let x_1 be an estimate and w its margin, which includes rounding
errors (`half_widths` of `standard_errors`). The true value lies in [x_1 - w, x_1 + w] with the
declared confidence. It is an integer, and counts are at least 0, so
    lower = ceil(max(0, x_1 - w)),    upper = floor(max(0, x_1) + w)
preserve the coverage. For an x_1 below 0, floor(x_1 + w) would preserve it, too, but readers would
take "0 to 0" for certainty that nobody is there. If no integer is within the margin, `adjusted` is
true, and an interval that would be empty is the whole number from 0 up that is nearest to x_1.
`moe` is the larger distance from the published integer x_2 to an end of the interval, so that
x_2 +- moe contains the true value whenever the interval does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table
from dprelease.consistency.estimates import (
    CELLS_AT_MOST,
    FirstPass,
    Piece,
    first_pass,
    subtree_estimates,
    top_estimates,
)
from dprelease.consistency.fixed_point import Whole
from dprelease.consistency.integer_tables.decisions import Refinement
from dprelease.consistency.integer_tables.least_squares import (
    LevelPrecisions,
    nearest_children,
    nearest_roots,
)
from dprelease.consistency.integer_tables.nested_tables import Level, children, roots
from dprelease.consistency.passes import Read
from dprelease.consistency.structure import Structure
from dprelease.consistency.subtrees import PlacedSubtree
from dprelease.consistency.tree import Ranges
from dprelease.consistency.variances import Variances
from dprelease.system.prefetch import in_threads

Cliques = Mapping[Table, Whole]
"""The integer tables of all cliques at some areas: (areas, n_i ...) by their attributes."""


@dataclass(frozen=True)
class IntegerPiece:
    """The estimates of a piece, and the integer tables of its levels (with the highest)."""

    estimates: Piece
    whole: list[Cliques]


def integer_pieces(
    variances: Variances,
    read: Read,
    cliques: Sequence[Refinement],
    published: Sequence[Sequence[Table]] | None = None,
    cells_at_most: int = CELLS_AT_MOST,
    *,
    first: FirstPass | None = None,
) -> Iterator[IntegerPiece]:
    """Yield estimates and integer tables of every area, in the pieces of `estimates.pieces`.

    The results don't depend on the size of the pieces.

    - `cliques`: how the integer tables of each clique are computed, in the order of
      `decisions.cliques`.
    - `published`: for each level, the tables with required estimates in addition to those of the
      cliques.
    - `first`: the result of `first_pass`, if the caller has computed it already.

    Raises ValueError for the reasons of `estimates.pieces`, or if exact tables contradict each
    other or the structural zeros.
    """
    wanted = with_cliques(cliques, published or [[]] * variances.structure.tree.levels)
    first = first or first_pass(variances, read, cells_at_most)
    top = top_estimates(variances, first, wanted)
    above = integer_tables_of_top(variances, cliques, top.piece)
    yield above
    tasks = top.subtrees_below(variances, read, first, above.whole[-1])
    # NumPy releases the interpreter's lock in large operations, so threads suffice.
    spread = map if len(first.spans) == 1 else in_threads
    yield from spread(partial(integer_tables_of_subtree, cliques=cliques, published=wanted), tasks)


def with_cliques(
    cliques: Sequence[Refinement], published: Sequence[Sequence[Table]]
) -> list[list[Table]]:
    """Return for each level the tables with required estimates, including those of cliques."""
    needed = {how.finest for how in cliques}
    return [sorted({*tables, *needed}, key=lambda t: (len(t), t)) for tables in published]


def integer_tables_of_top(
    variances: Variances, cliques: Sequence[Refinement], top: Piece
) -> IntegerPiece:
    """Return estimates and integer tables of the top of the tree; errors as in `integer_pieces`."""
    count = variances.structure.tree.counts[0]
    alone = np.arange(count + 1)
    highest: dict[Table, Whole] = {}
    for how in cliques:
        estimates = _with_separator(variances.structure, how, top.tables[0][how.finest], highest)
        above = Level(variances.structure, how.finest, estimates, alone, alone)
        if how.methods[0] == "least_squares":
            measured = LevelPrecisions.of(variances, how, 0, (0, count))
            found = nearest_roots(above, measured, how.chains[0], how.exact[0], ~how.zeros)
        else:
            found = roots(above, how.chains[0], how.exact[0], how.zeros)
        highest[how.finest] = found
    return _refine_piece(variances, cliques, top, top.ranges, highest)


def integer_tables_of_subtree(
    placed: PlacedSubtree, cliques: Sequence[Refinement], published: Sequence[Sequence[Table]]
) -> IntegerPiece:
    """Return estimates and integer tables of a subtree, from its measurements and the tree above.

    - `placed`: the subtree, with the integer tables of its highest areas.
    - `cliques`: how the integer tables of each clique are computed.
    - `published`: for each level of the whole tree, the tables with required estimates; those of
      the cliques are among them.

    Raises ValueError if exact tables contradict each other or the structural zeros.
    """
    part = placed.subtree
    if placed.whole is None:
        raise ValueError("integer tables are computed below integer tables")
    piece = subtree_estimates(placed, published)
    return _refine_piece(part.variances, cliques, piece, part.own, placed.whole)


def _refine_piece(
    variances: Variances,
    cliques: Sequence[Refinement],
    piece: Piece,
    own: Ranges,
    highest: Cliques,
) -> IntegerPiece:
    """Return a piece with the integer tables of all of its levels.

    `own`: for each level, the areas of the piece as numbered in the tree of `variances`, which may
    be a part of the whole tree.
    """
    structure, whole = variances.structure, [highest]
    for at in range(1, len(own)):
        start, stop = own[at - 1]
        here = piece.level + at
        families = structure.tree.starts[at - 1][start : stop + 1]
        families = families - families[0]
        found: dict[Table, Whole] = {}
        for how in cliques:
            estimates = _with_separator(structure, how, piece.tables[at][how.finest], found)
            level = Level(structure, how.finest, estimates, whole[-1][how.finest], families)
            chain, exact = how.chains[here], how.exact[here]
            if how.methods[here] == "least_squares":
                measured = LevelPrecisions.of(variances, how, at, own[at], here)
                integers = nearest_children(level, measured, chain, exact)
            else:
                integers = children(level, chain, exact, composed=how.composed[here])
            found[how.finest] = integers
        whole.append(found)
    return IntegerPiece(piece, whole)


def table_of_cliques(cliques: Cliques, table: Table) -> Whole:
    """Return an integer table as sums of the smallest table of a clique that has its attributes."""
    finest = min((t for t in cliques if set(table) <= set(t)), key=lambda t: (cliques[t].size, t))
    summed = tuple(1 + axis for axis, i in enumerate(finest) if i not in table)
    found: Whole = cliques[finest].sum(axis=summed) if summed else cliques[finest]
    return found


def _with_separator(
    structure: Structure, how: Refinement, estimates: Whole, earlier: Cliques
) -> Whole:
    """Return estimates of a clique whose sums are the integers of the separator, if there is one.

    The difference is divided evenly among the parts of each cell, the remainder among the first.
    """
    if how.separator is None:
        return estimates
    alone = np.arange(len(estimates) + 1)
    level = Level(structure, how.finest, estimates, estimates, alone)
    known = table_of_cliques(earlier, how.separator).reshape(len(estimates), -1) << structure.bits
    parts = level.margin(estimates, how.finest, how.separator)
    each, rest = np.divmod(known - parts.sum(axis=2), parts.shape[2])
    # Not in place: the parts may be a view of the estimates, which are published.
    parts = parts + each[:, :, None] + (np.arange(parts.shape[2]) < rest[:, :, None])
    return level.restore(parts, how.finest, how.separator).reshape(estimates.shape)


@dataclass(frozen=True)
class Intervals:
    """Integer intervals of the cells of a table, published next to its integers.

    - `lower`, `upper`: the ends of the intervals.
    - `moe`: the larger distance from the published integer to an end of its interval.
    - `adjusted`: whether the published integer is outside the interval, or no integer is within the
      margin.
    """

    lower: Whole
    upper: Whole
    moe: Whole
    adjusted: NDArray[np.bool_]


def intervals(estimates: Whole, half_widths: Whole, whole: Whole, bits: int) -> Intervals:
    """Return the intervals of the cells of some areas.

    - `estimates`: (areas, n_i ...) estimates in units of 2**-bits.
    - `half_widths`: (areas,) margins of the estimates in the same units, rounded up.
    - `whole`: (areas, n_i ...) integers of layer 2.
    """
    margin = half_widths.reshape(-1, *[1] * (estimates.ndim - 1))
    lower = -((margin - estimates) >> bits)  # the least integer at or above the end
    highest = (estimates + margin) >> bits
    nearest = (estimates + (1 << bits >> 1)) >> bits
    lower, nearest = np.maximum(lower, 0), np.maximum(nearest, 0)
    # From 0 and not from a negative estimate, because of "0 to 0" above.
    upper = (np.maximum(estimates, 0) + margin) >> bits
    outside = highest < lower
    lower = np.where(upper < lower, nearest, lower)
    upper = np.maximum(upper, lower)
    moe = np.maximum(np.maximum(upper - whole, whole - lower), 0)
    return Intervals(lower, upper, moe, outside | (whole < lower) | (whole > upper))
