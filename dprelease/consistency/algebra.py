"""The algebra of marginal tables: contrasts of a table, and tables computed from contrasts.

A family of tables counts the same rows by the values of k attributes with n_1, ..., n_k values.
The cells are a vector x of N = n_1 ... n_k numbers; the table S (a set of attributes) is A_S x
with A_S = (x)_i (identity if i in S, else a row of ones). A_S' A_S = (x)_i (I or J), J all ones:
these matrices commute, and their common eigenspaces are the residual spaces T, one for each set of
attributes, with projections P_T = (x)_i (I - J/n_i if i in T, else J/n_i).

**Contrasts.** Any coordinates of a residual space work, so integer ones are used: along an
attribute of T the n_i - 1 differences x_j - x_last, along every other attribute the sum over its
values. The contrasts D_T of a table of whole numbers are whole numbers; D_T depends on x through
P_T x alone, since a difference ignores constants and a sum ignores what sums to 0. The map from a
table to its contrasts is linear and one to one: a table S is computed from the contrasts of all T
within S, one attribute after another, by
    n x_last = s - sum_j D_j,        n x_j = n D_j + n x_last        (s the sum over the attribute).
What `table_from_contrasts` returns is |S| x_S in whole numbers, where |S| is the number of cells:
nothing is divided or rounded.

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

Table = tuple[int, ...]  # attributes of a table or of a residual space, ascending
Whole = NDArray[np.int64]
Contrasts = dict[Table, Whole]  # for each residual space (nodes, product of (n_i - 1))


def subtables(table: Table) -> list[Table]:
    """Return every subset of the attributes of `table`: the smallest first, `table` itself last."""
    return [s for size in range(len(table) + 1) for s in itertools.combinations(table, size)]


def spaces_of(sizes: tuple[int, ...], table: Table) -> list[Table]:
    """Return the residual spaces of a table; none of them has an attribute with a single value."""
    return subtables(tuple(i for i in table if sizes[i] > 1))


def residual_spaces(sizes: tuple[int, ...], tables: Iterable[Table]) -> list[Table]:
    """Return the residual spaces of all `tables` together, the smallest first."""
    spaces = {space for table in tables for space in spaces_of(sizes, table)}
    return sorted(spaces, key=lambda space: (len(space), space))


def cell_count(sizes: tuple[int, ...], table: Iterable[int]) -> int:
    """Return the number of combinations of values of the attributes of a table."""
    return math.prod(sizes[i] for i in table)


def own_weights(
    sizes: tuple[int, ...], space: Table, variances: Mapping[Table, Fraction]
) -> tuple[Fraction | None, dict[Table, Fraction]]:
    """Return the variance of a space measured by the tables of a node, and the table weights.

    - `sizes`: numbers of values of all attributes.
    - `space`: the residual space T. The returned variance is that of a table's sum over the
      attributes outside T, in the units of the table T itself.
    - `variances`: for each measured table, the variance of the noise of one of its cells; 0 for
      exact values.

    Returns the variance, and for each table a weight; the weights sum to 1. If tables are exact,
    the first of these has the whole weight. If no table measures the space: None and no weights.
    """
    noise = {
        table: variance * cell_count(sizes, set(table) - set(space))
        for table, variance in variances.items()
        if set(space) <= set(table)
    }
    exact = [table for table, variance in noise.items() if variance == 0]
    if exact:
        # Exact tables agree, so one of them suffices.
        return Fraction(0), {exact[0]: Fraction(1)}
    if not noise:
        return None, {}
    precision = sum((1 / variance for variance in noise.values()), Fraction(0))
    return 1 / precision, {table: 1 / v / precision for table, v in noise.items()}


def contrasts(sizes: tuple[int, ...], table: Table, values: Whole) -> Contrasts:
    """Return the exact contrasts of a table at several nodes, if sums stay within 64 bits.

    - `sizes`: numbers of values of all attributes.
    - `table`: the attributes of the table, in rising order.
    - `values`: whole numbers of shape (nodes, n_i for i in table): the cells of the table at each
      node.
    """
    nodes = len(values)
    parts: dict[Table, Whole] = {(): values.reshape(nodes, 1, cell_count(sizes, table))}
    for i in (i for i in table if sizes[i] > 1):
        split: dict[Table, Whole] = {}
        after = cell_count(sizes, [j for j in table if j > i])
        for space, part in parts.items():
            by_value = part.reshape(nodes, part.shape[1], sizes[i], after)
            split[space] = by_value.sum(axis=2)
            # To the last value and not to the mean, so that contrasts of whole numbers stay whole.
            differences = by_value[:, :, :-1] - by_value[:, :, -1:]
            split[(*space, i)] = differences.reshape(nodes, part.shape[1] * (sizes[i] - 1), after)
        parts = split
    return {space: part.reshape(nodes, part.shape[1]) for space, part in parts.items()}


def table_from_contrasts(sizes: tuple[int, ...], table: Table, of: Mapping[Table, Whole]) -> Whole:
    """Return the table with the contrasts `of`, times its number of cells.

    The result has the shape (nodes, n_i for i in table).

    Contract: table_from_contrasts(contrasts(x)) == cell_count(sizes, table) * x. The function is
    linear. Contrasts of spaces that are not in `of` are 0. The sum of its result over an attribute
    i is n_i times its result for the table without i. The result is exact if it fits 64 bits, even
    if intermediate sums overflow, because sums modulo 2**64 don't depend on the order.
    """
    nodes = len(of[()])
    parts = {
        space: of[space] if space in of else np.zeros((nodes, _contrast_count(sizes, space)), int)
        for space in spaces_of(sizes, table)
    }
    for i in (i for i in reversed(table) if sizes[i] > 1):  # the last attribute varies fastest
        n = sizes[i]
        joined: dict[Table, Whole] = {}
        for space in [space for space in parts if i not in space]:
            total = parts[space]
            before = math.prod(sizes[j] - 1 for j in space)
            after = cell_count(sizes, [j for j in table if j > i])
            total = total.reshape(nodes, before, after)
            differences = parts[(*space, i)].reshape(nodes, before, n - 1, after)
            out = np.empty((nodes, before, n, after), np.int64)
            np.subtract(total, differences.sum(axis=2), out=out[:, :, -1])
            np.multiply(differences, n, out=out[:, :, :-1])
            out[:, :, :-1] += out[:, :, -1:]
            joined[space] = out.reshape(nodes, before * n * after)
        parts = joined
    return parts[()].reshape(nodes, *(sizes[i] for i in table))


def _contrast_count(sizes: tuple[int, ...], space: Table) -> int:
    return math.prod(sizes[i] - 1 for i in space)


def squared_lengths(sizes: tuple[int, ...], query: Whole) -> dict[Table, Fraction]:
    """Return exactly |P_T q|^2 of a query over all cells, for every residual space T.

    - `query`: whole weights of shape (n_1, ..., n_k). The function computes with Python's integers,
      which can't overflow.
    """
    lengths: dict[Table, Fraction] = {}
    for space in spaces_of(sizes, tuple(range(len(sizes)))):
        part = query.astype(object)
        for i, n in enumerate(sizes):
            total = part.sum(axis=i, keepdims=True)
            # Multiplied by n, so that nothing is divided; the product of all n divides the result
            # once.
            part = n * part - total if i in space else total + 0 * part
        projected = (query.astype(object) * part).sum()  # q' P_T q = |P_T q|^2
        lengths[space] = Fraction(int(projected), math.prod(sizes))
    return lengths
