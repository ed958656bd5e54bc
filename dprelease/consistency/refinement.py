"""Decide from the declaration which tables layer 2 fixes first at each level.

Below a parent whose integer table is known, the children's tables are computed by steps along a
chain of nested tables S_1 < S_2 < ... < F, F the finest: first the children's S_1, then each
refined into the next. A table gets a separate step if layer 1 knows it better than the sum of its
parts: if its variance is at most a quarter of the sum of its parts' variances. (The parts of a
table known by them alone have the whole sum; with one step more their own estimates would be bent,
by x >= 0, towards a worse number. Under the Bureau's allotment of 2020 the total of a block has
0.31 of that sum, and taking it first made block totals 2.7 times worse: design sketch, section 3.
Tables of block groups have 0.002.)

Exact tables are always steps, because otherwise they would change.
"""

from __future__ import annotations

from dprelease.consistency.algebra import Table, cells, spaces_of, subtables
from dprelease.consistency.standard_errors import at, cell_coefficients, variance_above
from dprelease.consistency.variances import Variances

_WORTH = 4.0  # a separate step needs a variance smaller by this factor
_AT_ONCE = 1 << 18


def exact_tables(variances: Variances, level: int) -> list[Table]:
    """Return the largest tables known exactly at every area of a level, from itself and below.

    Raises
    ------
    ValueError
        If a table is known exactly at some areas of the level and not at others: exact tables of
        children then have no exact sum at their parents.
    """
    structure = variances.structure
    known: set[Table] = set()
    for space, one in variances.of.items():
        exact = one.upward[level] == 0
        if exact.any() and not exact.all():
            raise ValueError("an exact table of a level needs every area above its leaves")
        if exact.all():
            known.add(space)
    tables = [
        table
        for table in subtables(tuple(range(len(structure.sizes))))
        if set(spaces_of(structure.sizes, table)) <= known
    ]
    return [t for t in tables if not any(set(t) < set(other) for other in tables)]


def refinement_steps(variances: Variances, finest: Table) -> list[list[Table]]:
    """Return for each level the chain of tables that layer 2 computes, the finest last.

    Parameters
    ----------
    finest
        The table of which every published one is a sum.

    Raises
    ------
    ValueError
        If the finest table can't be estimated at some level, or exact tables of one level are not
        nested in each other.
    """
    sizes, tree = variances.structure.sizes, variances.structure.tree
    if not all(variances.publishable([finest])):
        raise ValueError("the finest table can't be estimated at every level")
    chains = []
    for level in range(tree.levels):
        worst = {t: _worst(variances, t, level) for t in subtables(finest)}
        exact = sorted(
            {tuple(i for i in t if i in finest) for t in exact_tables(variances, level)}, key=len
        )
        if len(exact) > 1:
            raise ValueError("exact tables of one level lie within each other")
        fixed = exact[0] if exact else None
        chain = [finest]
        while True:
            coarser = [
                t
                for t in subtables(chain[0])[:-1]
                if (fixed is None or set(fixed) <= set(t))
                and _WORTH * worst[t]
                <= cells(sizes, set(chain[0]) - set(t)) * worst[chain[0]] * (1 + 2.0**-20)
                and cells(sizes, set(chain[0]) - set(t)) > 1
            ]
            if fixed is not None and fixed != chain[0] and not coarser:
                coarser = [fixed]
            if not coarser:
                break
            chain.insert(0, coarser[-1])
        chains.append(chain)
    return chains


def _worst(variances: Variances, table: Table, level: int) -> float:
    """Return the largest variance of a table's cell among the areas of a level."""
    stop = variances.structure.tree.counts[level]
    coefficients = cell_coefficients(variances.structure.sizes, table)
    return max(
        float(variance_above(variances, coefficients, at(variances, level, a, b)).max())
        for a in range(0, stop, _AT_ONCE)
        for b in [min(a + _AT_ONCE, stop)]
    )
