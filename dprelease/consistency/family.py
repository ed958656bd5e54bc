"""Compute estimates and integer tables piece by piece: the entry point for releases."""

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
    first_pass,
    subtree_estimates,
    top_estimates,
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
    """How integer tables (layer 2) are computed: decided without data, recorded in the manifest.

    Parameters
    ----------
    finest
        The table of which every published table is a sum.
    chains
        For each level, the nested tables that are computed one after another, the finest last.
    exact
        For each level, the tables of its chain that are known exactly.
    zeros
        (n_i of the finest table) which cells are 0 at every area.
    """

    finest: Table
    chains: list[list[Table]]
    exact: list[set[Table]]
    zeros: NDArray[np.bool_]
    composed: tuple[bool, ...] = ()
    """For each level, whether totals are estimated from the parents' composition."""


def refinement(
    variances: Variances,
    finest: Table,
    zeros: NDArray[np.bool_] | None = None,
    chains: Sequence[Sequence[Table]] | None = None,
    *,
    composition: bool = False,
) -> Refinement:
    """Return how integer tables (layer 2) are computed, from the declaration only.

    Parameters
    ----------
    zeros
        Cells of the finest table that are 0 at every area; none by default.
    chains
        For each level, its chain of tables; by default chains follow from the variances.
    composition
        Whether to add totals as the first table of each chain that doesn't begin with them, and to
        estimate these totals from the parents' composition.

    Raises
    ------
    ValueError
        For the reasons of `refinement_steps`, or if the tables of a passed chain are not nested or
        leave out an exact table.
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
class IntegerPiece:
    """The estimates of a piece, and the finest integer tables of its levels (with the highest)."""

    estimates: Piece
    whole: list[Whole]


def integer_pieces(
    variances: Variances,
    read: Read,
    how: Refinement,
    published: Sequence[Sequence[Table]] | None = None,
    cells_at_most: int = CELLS_AT_MOST,
    *,
    first: FirstPass | None = None,
) -> Iterator[IntegerPiece]:
    """Yield estimates and integer tables of every area, in the pieces of `estimates.pieces`.

    The results don't depend on the size of the pieces.

    Parameters
    ----------
    published
        For each level, the tables with required estimates in addition to the finest table.
    first
        The result of `first_pass`, if the caller has computed it already.

    Raises
    ------
    ValueError
        For the reasons of `estimates.pieces`, or if exact tables contradict each other or the
        structural zeros.
    """
    wanted = with_finest(how, published or [[]] * variances.structure.tree.levels)
    first = first or first_pass(variances, read, cells_at_most)
    top = top_estimates(variances, first, wanted)
    above = integer_tables_of_top(variances.structure, how, top.piece)
    yield above
    tasks = top.subtrees_below(variances, read, first, above.whole[-1])
    spread = map if len(first.spans) == 1 else in_threads
    yield from spread(partial(integer_tables_of_subtree, how=how, published=wanted), tasks)


def with_finest(how: Refinement, published: Sequence[Sequence[Table]]) -> list[list[Table]]:
    """Return for each level the tables with required estimates, including the finest table."""
    return [sorted({*tables, how.finest}, key=lambda t: (len(t), t)) for tables in published]


def integer_tables_of_top(structure: Structure, how: Refinement, top: Piece) -> IntegerPiece:
    """Return estimates and integer tables of the top of the tree; errors as in `integer_pieces`."""
    alone = np.arange(structure.tree.counts[0] + 1)
    above = Level(structure, how.finest, top.tables[0][how.finest], alone, alone)
    highest = roots(above, how.chains[0], how.exact[0], how.zeros)
    return _refine_piece(structure, how, top, top.ranges, highest)


def integer_tables_of_subtree(
    placed: PlacedSubtree, how: Refinement, published: Sequence[Sequence[Table]]
) -> IntegerPiece:
    """Return estimates and integer tables of a subtree, from its measurements and the tree above.

    Parameters
    ----------
    placed
        The subtree, with the integer tables of its highest areas.
    how
        How integer tables are computed.
    published
        For each level of the whole tree, the tables with required estimates; the finest table is
        one of them.

    Raises
    ------
    ValueError
        If exact tables contradict each other or the structural zeros.
    """
    part = placed.subtree
    if placed.whole is None:
        raise ValueError("whole tables are made below whole tables")
    piece = subtree_estimates(placed, published)
    return _refine_piece(part.variances.structure, how, piece, part.own, placed.whole)


def _refine_piece(
    structure: Structure, how: Refinement, piece: Piece, own: Ranges, highest: Whole
) -> IntegerPiece:
    """Return a piece with the integer tables of all of its levels.

    `own`: for each level, the areas of the piece as numbered in the tree of `structure`, which may
    be a part of the whole tree.
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
    return IntegerPiece(piece, whole)
