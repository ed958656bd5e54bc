"""Decide from the declaration the order in which integer tables (layer 2) are computed.

Below a parent whose integer table is known, the children's tables are computed by steps along a
chain of nested tables S_1 < S_2 < ... < F, F the finest: first the children's S_1, then each next
table as a refinement of the previous one. A table gets a separate step if its estimate is more
accurate than the sum of its parts: if its variance is at most a quarter of the sum of its parts'
variances. (If a table is known only from its parts, its variance is the whole sum. A separate step
would then bias its parts towards a less accurate number, because x >= 0. Under the Census Bureau's
allocation of 2020 the variance of a block's total is 0.31 of that sum, and computing it first made
block totals 2.7 times worse: design sketch, section 3. For tables of block groups the ratio is
0.002.)

Exact tables always have a step, because otherwise they would change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table, cell_count, spaces_of, subtables
from dprelease.consistency.standard_errors import (
    cell_coefficients,
    final_variances_at,
    variance_upper_bound,
)
from dprelease.consistency.structure import Structure
from dprelease.consistency.variances import Variances

# Decompose the attributes of a family into cliques, whose tables have all declared tables as sums.
#
# Two attributes are linked if a declared table has both. The graph is made chordal by eliminating
# one attribute after another, always the one that links the smallest table (min-weight
# elimination). Its maximal cliques form a junction tree: in the order of `cliques`, the attributes
# that a clique shares with all earlier ones lie in a single one of these, its separator. So tables
# of cliques agree if each agrees with one earlier table in the separator, and they can be computed
# one after another.
#
# Source: Koller and Friedman, "Probabilistic Graphical Models" (2009), sections 9.4 and 10.4.


@dataclass(frozen=True)
class Clique:
    """The attributes of one table, and those that it shares with earlier ones.

    - `table`: the attributes.
    - `separator`: the shared attributes; None for the first clique.
    """

    table: Table
    separator: Table | None


def cliques(sizes: tuple[int, ...], tables: Iterable[Table]) -> list[Clique]:
    """Return cliques of which every table is a subset, each after the one with its separator.

    - `sizes`: the number of values of each attribute.
    """
    found = _maximal(_elimination_cliques(sizes, list(tables)))
    first = max(found, key=lambda clique: (cell_count(sizes, clique), clique))
    ordered, waiting = [Clique(first, None)], [one for one in found if one != first]
    while waiting:  # Prim's algorithm: a spanning tree with the largest separators
        shared = {
            (earlier.table, later): tuple(i for i in later if i in earlier.table)
            for earlier in ordered
            for later in waiting
        }
        (_, following), separator = max(
            shared.items(), key=lambda one: (len(one[1]), cell_count(sizes, one[0][1]), one[0])
        )
        ordered.append(Clique(following, separator))
        waiting.remove(following)
    return ordered


def _elimination_cliques(sizes: tuple[int, ...], tables: list[Table]) -> list[Table]:
    """Return the cliques that arise when attributes are eliminated one after another."""
    linked: dict[int, set[int]] = {i: {i} for table in tables for i in table}
    for one, other in itertools.chain.from_iterable(
        itertools.permutations(table, 2) for table in tables
    ):
        linked[one].add(other)
    found: list[Table] = [()] if not linked else []
    while linked:
        attribute = min(linked, key=lambda i: (cell_count(sizes, linked[i]), i))
        together = linked.pop(attribute)
        found.append(tuple(sorted(together)))
        for other in together - {attribute}:
            linked[other] |= together
            linked[other].discard(attribute)
    return found


def _maximal(tables: list[Table]) -> list[Table]:
    """Return the tables that are not part of another one."""
    return sorted({t for t in tables if not any(set(t) < set(other) for other in tables)})


Weights = Mapping[tuple[int, Table], float]
"""Weights of tables at levels."""

Method = Literal["least_squares", "fast"]

_SEPARATE_STEP_FACTOR = 4.0  # a separate step needs a variance smaller by this factor
_BATCH_SIZE = 1 << 18


_MAX_LEVEL_CELLS = 1 << 27  # cells of a level up to which least squares is the default
_MAX_FAMILY_CELLS = 1 << 24  # cells of the children of one area, likewise: 13 arrays of 128 MB
_MAX_ROUNDED_CELLS = 1 << 14  # cells of one area up to which they are rounded one by one


@dataclass(frozen=True)
class Refinement:
    """How integer tables (layer 2) are computed: decided without data, recorded in the manifest.

    - `finest`: the table of a clique (`cliques`), of which published tables are sums.
    - `chains`: for each level, the nested tables that are computed one after another, the finest
      last. With least squares, the tables along which results are rounded; empty for controlled
      rounding of all measured tables.
    - `exact`: for each level, the tables of its chain that are known exactly.
    - `zeros`: (n_i of the finest table) which cells are 0 at every area.
    - `composed`: for each level, whether totals are estimated from the parents' composition.
    - `methods`: for each level, how its tables are computed.
    - `first`: for each level with least squares, the tables that are made non-negative first.
    - `separator`: the table that is known already from another clique; None for the first clique.
    """

    finest: Table
    chains: list[list[Table]]
    exact: list[set[Table]]
    zeros: NDArray[np.bool_]
    composed: tuple[bool, ...]
    methods: tuple[Method, ...]
    first: tuple[list[Table], ...]
    separator: Table | None = None


def refinement(
    variances: Variances,
    finest: Table,
    zeros: NDArray[np.bool_] | None = None,
    chains: Sequence[Sequence[Table]] | None = None,
    *,
    composition: bool = False,
    method: Method | None = None,
    weights: Weights = MappingProxyType({}),
    separator: Table | None = None,
) -> Refinement:
    """Return how integer tables (layer 2) are computed, from the declaration only.

    - `zeros`: cells of the finest table that are 0 at every area; none by default.
    - `chains`: for each level, its chain of tables; by default chains follow from the variances.
    - `composition`: whether to add totals as the first table of each chain that doesn't begin with
      them, and to estimate these totals from the parents' composition.
    - `method`: how tables are computed at all levels: by least squares over all measured tables, or
      fast, along the chains. By default levels with very many cells, and all levels with passed
      chains or with `composition`, are fast, and others are least squares.
    - `weights`: weights of tables at levels, which decide between chains.
    - `separator`: the table that is known from another clique, if any.

    Raises ValueError if exact tables of one level are not nested in each other, or if the tables of
    a passed chain are not nested or leave out an exact table.
    """
    methods = _methods(variances.structure, finest, method, fast=composition or chains is not None)
    shape = tuple(variances.structure.sizes[i] for i in finest)
    one_by_one = math.prod(shape) <= _MAX_ROUNDED_CELLS or not variances.publishable([finest])[-1]
    decided = [
        _exact_chain(variances, finest, level)
        if used == "least_squares" and one_by_one
        else _chain(variances, finest, level, weights)
        for level, used in enumerate(methods)
    ]
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
        composition
        and methods[level] == "fast"
        and level > 0
        and chain[0] != ()
        and not exact[level]
        and separator is None
        for level, chain in enumerate(decided)
    )
    decided = [[(), *chain] if own else chain for chain, own in zip(decided, composed, strict=True)]
    if separator is not None:
        exact = [{separator, *(t for t in here if set(separator) < set(t))} for here in exact]
        decided = [
            [
                separator,
                *(t for t in chain if set(separator) < set(t)),
                *([] if chain else [finest]),
            ]
            for chain in decided
        ]
    none = np.zeros(shape, bool)
    first = tuple(
        accurate_tables(variances, finest, level) if used == "least_squares" else []
        for level, used in enumerate(methods)
    )
    zero = none if zeros is None else zeros
    return Refinement(finest, decided, exact, zero, composed, methods, first, separator)


def _methods(
    structure: Structure, finest: Table, method: Method | None, *, fast: bool
) -> tuple[Method, ...]:
    """Return for each level how its tables are computed; see `refinement`."""
    if method is not None or fast:
        return (method or "fast",) * structure.tree.levels
    cells = cell_count(structure.sizes, finest)
    return tuple(
        "least_squares"
        if count * cells <= _MAX_LEVEL_CELLS
        and structure.tree.most_children(level - 1) * cells <= _MAX_FAMILY_CELLS
        else "fast"
        for level, count in enumerate(structure.tree.counts)
    )


def exact_tables(variances: Variances, level: int) -> list[Table]:
    """Return the largest tables known exactly at every area of a level, from measurements there and
    below.

    Raises ValueError if a table is known exactly at some areas of the level and not at others:
    exact tables of children then have no exact sum at their parents.
    """
    structure = variances.structure
    known: set[Table] = set()
    for space, one in variances.of.items():
        exact = one.upward[level] == 0
        if exact.any() and not exact.all():
            raise ValueError("an exact table of a level needs every area above its leaves")
        if exact.all():
            known.add(space)
    if not known:
        return []
    tables = [
        table
        for table in subtables(tuple(range(len(structure.sizes))))
        if set(spaces_of(structure.sizes, table)) <= known
    ]
    return [t for t in tables if not any(set(t) < set(other) for other in tables)]


def _exact_chain(variances: Variances, finest: Table, level: int) -> list[Table]:
    """Return the exact table along which a level is rounded, and the finest; nothing without one.

    Raises ValueError if exact tables of the level are not nested in each other.
    """
    fixed = _exact_part(variances, finest, level)
    return [] if fixed is None else [fixed, finest] if fixed != finest else [finest]


def _chain(variances: Variances, finest: Table, level: int, weights: Weights) -> list[Table]:
    """Return the chain of integer tables that are computed at a level, the finest last.

    A finest table that can't be estimated at the level is the whole chain. Of several tables that
    could be next in the chain, it is one of the largest: the one with the greatest weight, then the
    one whose estimate is the most accurate next to the sum of its parts. Errors are those of
    `_exact_chain`.
    """
    sizes = variances.structure.sizes
    variance_of = {t: _largest_variance(variances, t, level) for t in subtables(finest)}
    fixed = _exact_part(variances, finest, level)

    def rank(table: Table) -> tuple[int, float, float, Table]:
        gain = math.inf
        if variance_of[table]:
            gain = _sum_of_parts(sizes, table, chain[0], variance_of) / variance_of[table]
        return len(table), weights.get((level, table), 0.0), gain, table

    chain = [finest]
    while True:
        coarser = [
            t
            for t in subtables(chain[0])[:-1]
            if (fixed is None or set(fixed) <= set(t))
            and is_more_accurate(sizes, t, chain[0], variance_of)
            and cell_count(sizes, set(chain[0]) - set(t)) > 1
            and math.isfinite(variance_of[chain[0]])
        ]
        if fixed is not None and fixed != chain[0] and not coarser:
            coarser = [fixed]
        if not coarser:
            return chain
        chain.insert(0, max(coarser, key=rank))


def _exact_part(variances: Variances, finest: Table, level: int) -> Table | None:
    """Return the largest table within the finest one that is known exactly; None without one."""
    exact = {tuple(i for i in t if i in finest) for t in exact_tables(variances, level)}
    largest = [t for t in exact if not any(set(t) < set(other) for other in exact)]
    if len(largest) > 1:
        raise ValueError("exact tables of one level lie within each other")
    return largest[0] if largest else None


def accurate_tables(variances: Variances, finest: Table, level: int) -> list[Table]:
    """Return the tables that are made non-negative first at a level, with least squares.

    These are sums of coarse measured tables, and these tables themselves, if their estimates are
    more accurate than the sums of their parts (by the same factor as for a separate step).
    """
    structure = variances.structure
    sums = {t for table in measured_tables(structure, finest, level) for t in subtables(table)}
    sums = {(), *sums} - {finest}
    variance_of = {t: _largest_variance(variances, t, level) for t in {*sums, finest}}
    accurate = [t for t in sums if is_more_accurate(structure.sizes, t, finest, variance_of)]
    return sorted(accurate, key=lambda table: (len(table), table))


def measured_tables(structure: Structure, finest: Table, level: int) -> list[Table]:
    """Return the tables within the finest one that are measured at a level or below it.

    Of other measured tables, these are the sums within the finest one. Attributes with a single
    value are left out, and so are the finest table and the total.
    """
    several = {i for i in finest if structure.sizes[i] > 1}
    measured = {
        tuple(i for i in table if i in several)
        for tables in structure.noise_moments[level:]
        for table in tables
    }
    return sorted(measured - {(), tuple(sorted(several))}, key=lambda table: (len(table), table))


def is_more_accurate(
    sizes: tuple[int, ...], table: Table, finer: Table, variance_of: Mapping[Table, float]
) -> bool:
    """Return whether a table's estimate is much more accurate than the sum of its parts."""
    # A ratio of exactly 4 counts as enough, whatever the last bits of the floats.
    parts = _sum_of_parts(sizes, table, finer, variance_of) * (1 + 2.0**-20)
    return _SEPARATE_STEP_FACTOR * variance_of[table] <= parts


def _sum_of_parts(
    sizes: tuple[int, ...], table: Table, finer: Table, variance_of: Mapping[Table, float]
) -> float:
    return cell_count(sizes, set(finer) - set(table)) * variance_of[finer]


def _largest_variance(variances: Variances, table: Table, level: int) -> float:
    """Return the largest variance of a table's cell among the areas of a level."""
    stop = variances.structure.tree.counts[level]
    coefficients = cell_coefficients(variances.structure.sizes, table)
    return max(
        float(
            variance_upper_bound(
                variances, coefficients, final_variances_at(variances, level, start, end)
            ).max()
        )
        for start in range(0, stop, _BATCH_SIZE)
        for end in [min(start + _BATCH_SIZE, stop)]
    )
