"""Compute the likeliest records of a block from all tables together, by integer programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, hstack

from dprelease.numerics.lattice import Floats, Integers
from dprelease.reconstruction.cell_likelihoods import ObservedCells, Segments
from dprelease.reconstruction.counted_tables import CountedTable
from dprelease.reconstruction.record_combinations import Combinations


@dataclass(frozen=True, slots=True)
class Program:
    """The constraints of the tables on the numbers of records of some combinations.

    `matrix` has the shape (cells, combinations), with 1 where a cell counts a combination. `lower`
    and `upper` are certain bounds of each cell. `most` is the maximum number of records of each
    combination, from the cells that count the combination. `middle` is the likeliest value of each
    cell, or NaN without information. `soft` has groups of cells, with the decrease of their log
    likelihood below and above `middle`.
    """

    matrix: csr_matrix
    lower: Floats
    upper: Floats
    most: Integers
    middle: Floats
    soft: tuple[tuple[Integers, Segments, Segments], ...]

    @property
    def is_hard(self) -> bool:
        """Return whether every cell has certain bounds."""
        return not self.soft or bool(np.isfinite(self.upper).all())

    def admits(self, records: Integers) -> bool:
        """Return whether numbers of records are within all certain bounds."""
        found = self.matrix @ records
        return bool(((self.lower <= found) & (found <= self.upper)).all())


def record_program(
    combinations: Combinations,
    block: Integers,
    tables: Sequence[CountedTable],
    likelihoods: Mapping[str, ObservedCells],
    total: float,
) -> Program:
    """Return the program of a block, which has approximately `total` records.

    A combination has at most as many records as every cell that counts the combination. The maximum
    of a cell is its certain bound, or lies in the last segment of its log likelihood.
    """
    rows, columns = [], []
    lower, upper, middle, caps, soft = [], [], [], [], []
    done = 0
    for one in tables:
        cells = combinations.cells[one.name][block]
        inside = np.flatnonzero(cells >= 0)
        known, place = np.unique(cells[inside], return_inverse=True)
        observed = likelihoods[one.name]
        rows.append(done + place)
        columns.append(inside)
        lower.append(observed.lower[known])
        upper.append(observed.upper[known])
        middle.append(observed.middle[known])
        reach = sum(width for width, _ in observed.above if math.isfinite(width))
        likely = np.maximum(1.0, np.ceil(np.nan_to_num(observed.middle[known], nan=total) + reach))
        caps.append(np.minimum(observed.upper[known], likely if observed.above else math.inf))
        if observed.below or observed.above:
            known_cells = np.flatnonzero(~np.isnan(observed.middle[known]))
            soft.append((done + known_cells, observed.below, observed.above))
        done += len(known)
    at, of = np.concatenate(rows), np.concatenate(columns)
    matrix = coo_matrix((np.ones(len(at)), (at, of)), shape=(done, len(block))).tocsr()
    most = np.full(len(block), 2.0 * total + 10.0)
    np.minimum.at(most, of, np.concatenate(caps)[at])
    return Program(
        matrix,
        np.concatenate(lower),
        np.concatenate(upper),
        np.floor(most).astype(np.int64),
        np.concatenate(middle),
        tuple(soft),
    )


SEGMENT_STARTS = (0, 1, 2, 3, 4, 6, 9, 13, 19, 28, 42, 63, 95, 142, 213, 320, 480, 720, 10**9)
"""The numbers of records between which the logarithm of the factorial is approximated linearly."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The numbers of records of all combinations.

    `proved` says whether the numbers are proven to be the likeliest, and `admitted` whether they
    are within all certain bounds. If they are not, the time ran out before any such numbers were
    found, and the numbers are the rounded fractional solution.
    """

    records: Integers
    proved: bool
    admitted: bool
    cost: float


def likeliest_records(
    problem: Program, logs: Floats, seconds: float, gap: float = 0.01
) -> Solution:
    """Return the numbers of records that have the highest posterior probability.

    The prior of the number of records of a combination is a Poisson distribution with the mean
    exp(`logs`), and the tables determine the likelihood. The logarithms of the prior and of the
    likelihood are concave and piecewise linear in integers (between a few large integers, the
    logarithm of a factorial is approximated linearly), so that the program is linear.

    - `logs`: the logarithms of the expected numbers of records, one for each combination.
    - `seconds`: the time limit, after which the best numbers so far are returned.
    - `gap`: the relative gap to the lowest cost within which a solution counts as proven.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    of, widths, costs = _unit_variables(problem.most, logs)
    parts = [problem.matrix[:, of]]
    lower, upper = problem.lower.copy(), problem.upper.copy()
    for cells, below, above in problem.soft:
        lower[cells] = upper[cells] = problem.middle[cells]
        for segments, sign in ((below, 1.0), (above, -1.0)):
            for width, slope in segments:
                shape = (len(lower), len(cells))
                data = (np.full(len(cells), sign), (cells, np.arange(len(cells))))
                parts.append(coo_matrix(data, shape=shape).tocsr())
                widths = np.concatenate([widths, np.full(len(cells), width)])
                costs = np.concatenate([costs, np.full(len(cells), slope)])
    matrix = hstack(parts, format="csr")
    if not len(costs):  # every combination is excluded by a cell with a count of 0
        no_records = np.zeros(len(logs), dtype=np.int64)
        return Solution(no_records, True, problem.admits(no_records), 0.0)
    # Deviations of cells follow from whole records, so they need not be declared whole.
    is_whole = np.arange(len(costs)) < len(of)
    found = milp(
        costs,
        integrality=is_whole.astype(np.int64),
        bounds=Bounds(np.zeros(len(costs)), widths),
        constraints=LinearConstraint(matrix, lower, upper),
        options={"time_limit": max(seconds, 0.1), "mip_rel_gap": gap},
    )
    if found.x is None:
        built = (costs, widths, matrix, lower, upper)
        return _fractional_solution(problem, built, of, seconds)
    records = _sum_by_combination(np.rint(found.x[: len(of)]), of, len(logs))
    return Solution(records, found.status == 0, problem.admits(records), float(found.fun))


def _unit_variables(most: Integers, logs: Floats) -> tuple[Integers, Floats, Floats]:
    """Return the variables whose sums are the numbers of records of the combinations.

    Each variable has the index of its combination, its upper bound, and its cost.
    """
    of, widths, costs = [], [], []
    for start, end in pairwise(SEGMENT_STARTS):
        free = np.flatnonzero(most > start)
        if not len(free):
            break
        width = np.minimum(most[free], end) - start
        rise = np.array([math.lgamma(start + w + 1) - math.lgamma(start + 1) for w in width])
        of.append(free)
        widths.append(width.astype(np.float64))
        # The factorial's logarithm is convex, so the cheaper variables fill up first without
        # further constraints.
        costs.append(rise / width - logs[free])
    if not of:
        return np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
    return np.concatenate(of), np.concatenate(widths), np.concatenate(costs)


def _sum_by_combination(values: Floats, of: Integers, n: int) -> Integers:
    """Return the sum of the values of each combination; `of` has the combination of each value."""
    records: Integers = np.bincount(of, values, n).astype(np.int64)
    return records


def _fractional_solution(
    problem: Program,
    built: tuple[Floats, Floats, csr_matrix, Floats, Floats],
    of: Integers,
    seconds: float,
) -> Solution:
    """Return the likeliest fractional numbers, rounded to integers; zeros if time runs out."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    from dprelease.reconstruction.guesses import apportion

    costs, widths, matrix, lower, upper = built
    found = milp(
        costs, bounds=Bounds(np.zeros(len(costs)), widths),
        constraints=LinearConstraint(matrix, lower, upper),
        options={"time_limit": max(seconds, 0.1)},
    )  # fmt: skip
    if found.x is None:
        return Solution(np.zeros(len(problem.most), dtype=np.int64), False, False, math.inf)
    parts: Floats = np.bincount(of, found.x[: len(of)], len(problem.most)).astype(np.float64)
    records = apportion(parts, round(float(parts.sum())))
    return Solution(records, False, problem.admits(records), math.inf)
