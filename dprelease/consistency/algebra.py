"""The algebra of marginal tables: contrasts of a table, and tables computed from contrasts.

A family of tables counts the same rows by the values of k attributes with n_1, ..., n_k values.
The cells are a vector x of N = n_1 ... n_k numbers; the table S (a set of attributes) is A_S x
with A_S = (x)_i (identity if i in S, else a row of ones). A_S' A_S = (x)_i (I or J), J all ones:
these matrices commute, and their common eigenspaces are the residual spaces T, one for each set of
attributes, with projections P_T = (x)_i (I - J/n_i if i in T, else J/n_i).

**Contrasts.** Any coordinates of a residual space work, so integer ones are used: along an
attribute of T the n_i - 1 differences x_j - x_last, along every other the sum over its values. The
contrasts D_T of a table of whole numbers are whole numbers; D_T depends on x through P_T x alone,
since a difference ignores constants and a sum ignores what sums to 0. They are linear and one to
one: a table S is computed from the contrasts of all T within S, one attribute after another, by
    n x_last = s - sum_j D_j,        n x_j = n D_j + n x_last        (s the sum over the attribute).
What `table_from_contrasts` returns is |S| x_S in whole numbers, |S| the number of cells:
no division, nothing rounded.

**Precision.** One table S with noise of variance s2 in each cell measures D_T for every T within S
with the covariance s2 N_{S - T} C, N_{S - T} the number of cells of S that are summed up for one
of T's, and C the same matrix for every S. Independent tables therefore measure T with the scalar
precision
    1 / v_T = sum over measured S >= T of 1 / (s2_S N_{S - T})
and the best weight of S among them is its term over the sum. (Derived here. The literature writes
lambda_T = sum w_S N_{not S} for projections of cells, which is N_{not T} times this one, since
summing up the attributes outside T multiplies the square of a length by N_{not T}.)

Sources: McKenna et al., "Optimizing error of high-dimensional statistical queries" (VLDB 2018),
for the commuting algebra; Xiao et al., "An Optimal and Scalable Matrix Mechanism for Noisy
Marginals" (2023), for residual bases.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Table = tuple[int, ...]  # attributes of a table or of a residual space, in rising order
Whole = NDArray[np.int64]
Contrasts = dict[Table, Whole]  # of each residual space: (nodes, product of (n_i - 1))


def subtables(table: Table) -> list[Table]:
    """Return every set of attributes within `table`, smallest first, itself last."""
    return [s for size in range(len(table) + 1) for s in itertools.combinations(table, size)]


def spaces_of(sizes: tuple[int, ...], table: Table) -> list[Table]:
    """Return the residual spaces of a table: an attribute with a single value has none."""
    return subtables(tuple(i for i in table if sizes[i] > 1))


def residual_spaces(sizes: tuple[int, ...], tables: Iterable[Table]) -> list[Table]:
    """Return the residual spaces of `tables`, smallest first."""
    spaces = {space for table in tables for space in spaces_of(sizes, table)}
    return sorted(spaces, key=lambda space: (len(space), space))


def cells(sizes: tuple[int, ...], table: Iterable[int]) -> int:
    """Return the number of cells of a table, or of any set of attributes."""
    return math.prod(sizes[i] for i in table)


def own_weights(
    sizes: tuple[int, ...], space: Table, variances: Mapping[Table, Fraction]
) -> tuple[Fraction | None, dict[Table, Fraction]]:
    """Return the variance of a space measured by the tables of a node, and the table weights.

    Parameters
    ----------
    sizes
        Numbers of values of all attributes.
    space
        The residual space T; the variance is that of the sum over T's complement within a table, in
        the units of the table T itself.
    variances
        Of each measured table, the variance of the noise of one of its cells; 0 for exact values.

    Returns
    -------
    tuple
        None and no weights if no table measures it; else the variance and weights that sum to
        1. One exact table, the first, has the whole weight.
    """
    noise = {
        table: variance * cells(sizes, set(table) - set(space))
        for table, variance in variances.items()
        if set(space) <= set(table)
    }
    known = [table for table, variance in noise.items() if variance == 0]
    if known:
        return Fraction(0), {known[0]: Fraction(1)}
    if not noise:
        return None, {}
    precision = sum((1 / variance for variance in noise.values()), Fraction(0))
    return 1 / precision, {table: 1 / v / precision for table, v in noise.items()}


def contrasts(sizes: tuple[int, ...], table: Table, values: Whole) -> Contrasts:
    """Return the contrasts of a table at several nodes: exact, as long as sums stay within 64 bits.

    Parameters
    ----------
    sizes
        Numbers of values of all attributes.
    table
        The attributes of the table, in rising order.
    values
        (nodes, n_i for i in table), whole numbers.
    """
    nodes = len(values)
    parts: dict[Table, Whole] = {(): values.reshape(nodes, 1, cells(sizes, table))}
    for i in (i for i in table if sizes[i] > 1):
        split: dict[Table, Whole] = {}
        after = cells(sizes, [j for j in table if j > i])
        for space, part in parts.items():
            by_value = part.reshape(nodes, part.shape[1], sizes[i], after)
            split[space] = by_value.sum(axis=2)
            apart = by_value[:, :, :-1] - by_value[:, :, -1:]
            split[(*space, i)] = apart.reshape(nodes, part.shape[1] * (sizes[i] - 1), after)
        parts = split
    return {space: part.reshape(nodes, part.shape[1]) for space, part in parts.items()}


def table_from_contrasts(sizes: tuple[int, ...], table: Table, of: Mapping[Table, Whole]) -> Whole:
    """Return `cells(table)` times the table whose contrasts are given: (nodes, n_i for i in table).

    Contract: table_from_contrasts(contrasts(x)) == cells * x; linear; summed over an attribute i it
    is n_i times the table without i. Exact if the result is within 64 bits, even if intermediate
    sums overflow: sums modulo 2**64 don't depend on the order.
    """
    parts = {space: of[space] for space in spaces_of(sizes, table)}
    nodes = len(parts[()])
    for i in (i for i in reversed(table) if sizes[i] > 1):  # the last attribute varies fastest
        n = sizes[i]
        joined: dict[Table, Whole] = {}
        for space in [space for space in parts if i not in space]:
            total = parts[space]
            before = math.prod(sizes[j] - 1 for j in space)
            after = cells(sizes, [j for j in table if j > i])
            total = total.reshape(nodes, before, after)
            apart = parts[(*space, i)].reshape(nodes, before, n - 1, after)
            out = np.empty((nodes, before, n, after), np.int64)
            np.subtract(total, apart.sum(axis=2), out=out[:, :, -1])
            np.multiply(apart, n, out=out[:, :, :-1])
            out[:, :, :-1] += out[:, :, -1:]
            joined[space] = out.reshape(nodes, before * n * after)
        parts = joined
    return parts[()].reshape(nodes, *(sizes[i] for i in table))


def squared_lengths(sizes: tuple[int, ...], query: Whole) -> dict[Table, Fraction]:
    """Return |P_T q|^2 of a query over all cells for every residual space T, exactly.

    Parameters
    ----------
    query
        (n_1, ..., n_k) whole weights. Python's whole numbers: nothing can overflow.
    """
    lengths: dict[Table, Fraction] = {}
    for space in spaces_of(sizes, tuple(range(len(sizes)))):
        part = query.astype(object)
        for i, n in enumerate(sizes):
            total = part.sum(axis=i, keepdims=True)
            part = n * part - total if i in space else total + 0 * part
        projected = (query.astype(object) * part).sum()  # q' P_T q = |P_T q|^2
        lengths[space] = Fraction(int(projected), math.prod(sizes))
    return lengths
