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

from dprelease.consistency.algebra import Table, cell_count, spaces_of, subtables
from dprelease.consistency.standard_errors import (
    cell_coefficients,
    final_variances_at,
    variance_upper_bound,
)
from dprelease.consistency.variances import Variances

_SEPARATE_STEP_FACTOR = 4.0  # a separate step needs a variance smaller by this factor
_BATCH_SIZE = 1 << 18


def exact_tables(variances: Variances, level: int) -> list[Table]:
    """Return the largest tables known exactly at every area of a level, from measurements there and
    below.

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
    """Return for each level the chain of integer tables that are computed, the finest last.

    Parameters
    ----------
    finest
        The table of which every published table is a sum.

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
        largest_variances = {t: _largest_variance(variances, t, level) for t in subtables(finest)}
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
                and _SEPARATE_STEP_FACTOR * largest_variances[t]
                <= cell_count(sizes, set(chain[0]) - set(t))
                * largest_variances[chain[0]]
                * (1 + 2.0**-20)
                and cell_count(sizes, set(chain[0]) - set(t)) > 1
            ]
            if fixed is not None and fixed != chain[0] and not coarser:
                coarser = [fixed]
            if not coarser:
                break
            chain.insert(0, coarser[-1])
        chains.append(chain)
    return chains


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
