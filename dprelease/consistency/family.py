"""Compute both layers piece by piece: the entry point for releases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table
from dprelease.consistency.estimates import (
    CELLS_AT_MOST,
    FirstPass,
    Piece,
    below_of,
    first_pass,
    top_of,
)
from dprelease.consistency.fixed_point import Whole
from dprelease.consistency.passes import Read
from dprelease.consistency.refinement import exact_tables, refinement_steps
from dprelease.consistency.structure import Structure
from dprelease.consistency.subtrees import PlacedSubtree
from dprelease.consistency.tree import Ranges
from dprelease.consistency.variances import Variances
from dprelease.consistency.whole_tables import Level, children, roots
from dprelease.system.prefetch import in_threads


@dataclass(frozen=True)
class Refinement:
    """How layer 2 is computed: decided without data, and recorded in the manifest.

    Parameters
    ----------
    finest
        The table of which every published one is a sum.
    chains
        For each level, its nested tables, the finest last.
    exact
        For each level, the tables of its chain that are known exactly.
    zeros
        (n_i of the finest table) the cells that are 0 everywhere.
    """

    finest: Table
    chains: list[list[Table]]
    exact: list[set[Table]]
    zeros: NDArray[np.bool_]
    composed: tuple[bool, ...] = ()
    """For each level, whether totals come from the parents' composition; none by default."""


def refinement(
    variances: Variances,
    finest: Table,
    zeros: NDArray[np.bool_] | None = None,
    chains: Sequence[Sequence[Table]] | None = None,
    *,
    composition: bool = False,
) -> Refinement:
    """Return how layer 2 is computed, from the declaration only.

    Parameters
    ----------
    zeros
        Cells of the finest table that are 0 everywhere; none by default.
    chains
        Chains for each level; by default they follow from the variances.
    composition
        Whether totals that are not the first step become it, estimated from the parents'
        composition.

    Raises
    ------
    ValueError
        As `refinement_steps`; or if given chains are not nested or leave out an exact table.
    """
    decided = refinement_steps(variances, finest)
    known = [set(exact_tables(variances, level)) for level in range(len(decided))]
    exact = [
        {t for t in chain if any(set(t) <= set(e) for e in tables)}
        for chain, tables in zip(decided, known, strict=True)
    ]
    if chains is not None:
        decided = [[tuple(t) for t in chain] for chain in chains]
        for chain, tables in zip(decided, exact, strict=True):
            nested = all(set(a) < set(b) for a, b in pairwise(chain))
            if not nested or chain[-1] != finest or not tables <= set(chain):
                raise ValueError("a chain has nested tables, all exact ones, and the finest last")
    composed = tuple(
        composition and level > 0 and chain[0] != () and not exact[level]
        for level, chain in enumerate(decided)
    )
    decided = [[(), *chain] if own else chain for chain, own in zip(decided, composed, strict=True)]
    shape = tuple(variances.structure.sizes[i] for i in finest)
    none = np.zeros(shape, bool)
    return Refinement(finest, decided, exact, none if zeros is None else zeros, composed)


@dataclass(frozen=True)
class WholePiece:
    """The estimates of a piece, and the finest integer tables of its levels (with the highest)."""

    estimates: Piece
    whole: list[Whole]


def whole_pieces(
    variances: Variances,
    read: Read,
    how: Refinement,
    published: Sequence[Sequence[Table]] | None = None,
    cells_at_most: int = CELLS_AT_MOST,
    *,
    first: FirstPass | None = None,
) -> Iterator[WholePiece]:
    """Yield both layers of every area, as `estimates.pieces` does; nothing depends on the pieces.

    Parameters
    ----------
    published
        For each level, required tables of layer 1 in addition to the finest one.
    first
        As of `estimates.pieces`.

    Raises
    ------
    ValueError
        As `estimates.pieces`, or if exact tables contradict each other or the zeros.
    """
    wanted = with_finest(how, published or [[]] * variances.structure.tree.levels)
    first = first or first_pass(variances, read, cells_at_most)
    top = top_of(variances, first, wanted)
    above = whole_top(variances.structure, how, top.piece)
    yield above
    tasks = top.subtrees_below(variances, read, first, above.whole[-1])
    spread = map if len(first.spans) == 1 else in_threads
    yield from spread(partial(whole_below, how=how, published=wanted), tasks)


def with_finest(how: Refinement, published: Sequence[Sequence[Table]]) -> list[list[Table]]:
    """Return the required tables of layer 1 at each level, including the finest."""
    return [sorted({*tables, how.finest}, key=lambda t: (len(t), t)) for tables in published]


def whole_top(structure: Structure, how: Refinement, top: Piece) -> WholePiece:
    """Return both layers of the top of the tree; raises as `whole_pieces`."""
    alone = np.arange(structure.tree.counts[0] + 1)
    above = Level(structure, how.finest, top.tables[0][how.finest], alone, alone)
    highest = roots(above, how.chains[0], how.exact[0], how.zeros)
    return _refine_piece(structure, how, top, top.ranges, highest)


def whole_below(
    placed: PlacedSubtree, how: Refinement, published: Sequence[Sequence[Table]]
) -> WholePiece:
    """Return both layers of a subtree, from its measurements and the results above it.

    Parameters
    ----------
    placed
        With the integer tables of its highest areas.
    how, published
        As of `whole_pieces`, of the whole tree; the finest table is among the published.

    Raises
    ------
    ValueError
        As `whole_pieces`.
    """
    part = placed.subtree
    if placed.whole is None:
        raise ValueError("whole tables are made below whole tables")
    piece = below_of(placed, published)
    return _refine_piece(part.variances.structure, how, piece, part.own, placed.whole)


def _refine_piece(
    structure: Structure, how: Refinement, piece: Piece, own: Ranges, highest: Whole
) -> WholePiece:
    """Return a piece with the whole tables of all of its levels.

    `own`: its areas in the tree of the structure, which may be a part of the whole one.
    """
    whole = [highest]
    for at in range(1, len(own)):
        start, stop = own[at - 1]
        here = piece.level + at
        families = structure.tree.starts[at - 1][start : stop + 1]
        estimates = piece.tables[at][how.finest]
        level = Level(structure, how.finest, estimates, whole[-1], families - families[0])
        composed = bool(how.composed and how.composed[here])
        whole.append(children(level, how.chains[here], how.exact[here], composed=composed))
    return WholePiece(piece, whole)
