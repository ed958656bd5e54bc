"""Compute exact standard errors of estimates (layer 1), and fixed-point errors for margins.

For a product of weights q = (x)_i a_i (a cell, any union of an attribute's values, a whole table's
cell with ones for the attributes that it leaves out) at an area with variances F_T (see
`variances`, in the units of the table T),
    Var = sum_T F_T prod_{i in T} (|a_i|^2 - (sum a_i)^2 / n_i) prod_{i not in T} ((sum a_i) /
    n_i)^2.
Derived here from Cov(P_T x) = F_T / N_(not T) P_T and |P_T q|^2 as a product over attributes; the
literature's last factor is (sum a_i)^2 / n_i, for F in the units of cells. For weights that are
not a product, `algebra.squared_lengths` returns |P_T q|^2.

Everything is rounded upwards: sums of non-negative floats of which each operation is wrong by a
factor of 1 +- 2**-53 at most are multiplied by 1 + 2**-40, and F by 1 + `slack`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from dprelease.consistency.algebra import Table, cell_count, spaces_of
from dprelease.consistency.fixed_point import Floats, Whole
from dprelease.consistency.passes import rounding_bounds, rounding_bounds_of_tree
from dprelease.consistency.variances import Variances

_ROUNDING_FACTOR = 1 + 2.0**-40  # of fewer than 2**12 operations, each within 1 +- 2**-53
FinalVariances = Callable[[Table], Floats]  # a function from a residual space to F at some areas


def product_coefficients(
    sizes: tuple[int, ...], weights: Sequence[Sequence[Fraction]]
) -> dict[Table, Fraction]:
    """Return the coefficients, other than 0, of F_T in the variance of a product of weights.

    - `sizes`: numbers of values of all attributes.
    - `weights`: for each attribute, the weight of each of its values; all ones to sum over the
      attribute.
    """
    inside, outside = [], []
    for n, a in zip(sizes, weights, strict=True):
        total = Fraction(sum(a))
        inside.append(sum((Fraction(x) ** 2 for x in a), Fraction(0)) - total**2 / n)
        outside.append((total / n) ** 2)
    coefficients = {
        space: math.prod(inside[i] if i in space else outside[i] for i in range(len(sizes)))
        for space in spaces_of(sizes, tuple(range(len(sizes))))
    }
    return {space: Fraction(c) for space, c in coefficients.items() if c}


@lru_cache(maxsize=256)  # called repeatedly, for one batch of areas after another
def cell_coefficients(sizes: tuple[int, ...], table: Table) -> Mapping[Table, Fraction]:
    """Return the coefficients for a cell of a table; they are the same for each of its cells."""
    one, none = Fraction(1), Fraction(0)
    weights = [[one, *[none] * (n - 1)] if i in table else [one] * n for i, n in enumerate(sizes)]
    return MappingProxyType(product_coefficients(sizes, weights))


def variance_upper_bound(
    variances: Variances, coefficients: Mapping[Table, Fraction], final: FinalVariances
) -> Floats:
    """Return a variance that is at least the exact variance; infinite where it is not estimable.

    - `coefficients`: the coefficient of each residual space of the query.
    - `final`: a function that returns F of a residual space at these areas, such as
      `final_variances_at(variances, level, start, stop)`.
    """
    total: Floats | None = None
    for space, coefficient in coefficients.items():
        slack = 1 + variances.of[space].slack if space in variances.of else math.inf
        factor = float(coefficient) * slack
        part = factor * final(space) if space in variances.of else np.array([math.inf])
        total = part if total is None else total + part
    return np.zeros(1) if total is None else total * _ROUNDING_FACTOR


def final_variances_at(variances: Variances, level: int, start: int, stop: int) -> FinalVariances:
    """Return a function from residual spaces to F at some areas of a level."""
    return lambda space: variances.of[space].variances(level, start, stop)


def standard_errors(
    variances: Variances, table: Table, level: int, start: int, stop: int
) -> Floats:
    """Return the standard error of a cell of a table at some areas, rounded upwards."""
    coefficients = cell_coefficients(variances.structure.sizes, table)
    return (
        np.sqrt(
            variance_upper_bound(
                variances, coefficients, final_variances_at(variances, level, start, stop)
            )
        )
        * _ROUNDING_FACTOR
    )


def rounding_error(variances: Variances, table: Table, *, of_tree: bool = False) -> list[int]:
    """Return, by level, how far a cell may be from exact least squares, in units of values.

    Each contrast D_T is wrong by at most e_T (`passes.rounding_bounds`). The cell x_S is computed
    from the contrasts with row sums below 2 for each attribute of T, and of 1 / n_i for each other
    attribute. The bound is therefore sum_T 2**|T| e_T / N_(S - T), plus 2**|S| for the rounding in
    the module `cells`. `of_tree`: without errors that measured groupings add.
    """
    sizes, levels = variances.structure.sizes, variances.structure.tree.levels
    bounds = rounding_bounds_of_tree if of_tree else rounding_bounds
    parts = {space: bounds(variances, space) for space in spaces_of(sizes, table)}
    return [
        math.ceil(
            error_of_cell(sizes, table, {space: part[level] for space, part in parts.items()})
        )
        + (0 if not table else 1 << len(table))
        for level in range(levels)
    ]


def error_of_cell(sizes: tuple[int, ...], table: Table, of: Mapping[Table, float]) -> float:
    """Return how far a cell may be from exact least squares, for such errors of the contrasts."""
    parts = (
        2.0 ** len(space) * error / cell_count(sizes, set(table) - set(space))
        for space, error in of.items()
    )
    return _ROUNDING_FACTOR * sum(parts)


def half_widths(
    variances: Variances, table: Table, level: int, start: int, stop: int, quantile: float
) -> Whole:
    """Return margins of estimates in whole units of values, with rounding errors: (stop - start,).

    - `quantile`: the number of standard errors in the margin. For normal or discrete Gaussian noise
      use the normal quantile; sqrt(2 ln(2 / alpha)) is a guarantee for sub-Gaussian noise. The
      caller is responsible for it.

    Raises ValueError if the table is not estimable at one of these areas.
    """
    errors = standard_errors(variances, table, level, start, stop)
    if not np.isfinite(errors).all():
        raise ValueError("a table that is not estimable at a level has no margin there")
    # Scaling by a power of two is exact, so only the ceiling rounds, and upward.
    units = np.ceil(np.ldexp(quantile * errors * _ROUNDING_FACTOR, variances.structure.bits))
    exact = errors == 0
    # An estimate without variance comes from exact whole numbers, of which nothing is rounded.
    added = np.where(exact, 0, rounding_error(variances, table)[level])
    return units.astype(np.int64) + added
