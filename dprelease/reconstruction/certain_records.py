"""Prove which records occur in every set of records that is compatible with the tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from dprelease.numerics.lattice import Floats, Integers
from dprelease.reconstruction.programs import Program

TOLERANCE = 1e-5
"""A tolerance that is larger than the errors that HiGHS allows in a cell or in an integer."""

INFEASIBLE = 2
"""The status code of SciPy for an infeasible program."""

SEARCH_GAP = 0.5
"""The relative gap to the minimum at which a search ends, because any compatible set is useful."""


@dataclass(frozen=True, slots=True)
class CertainRecords:
    """The proven minimum number of records of each combination (`least`).

    `decided` says whether all numbers are exact minima; if not, the time ran out, and more records
    may be certain. `only` says whether it is proven that no other set of records is compatible with
    the tables.
    """

    least: Integers
    decided: bool
    only: bool = False


def certain_records(problem: Program, found: Integers, seconds: float) -> CertainRecords:
    """Return the number of records of each combination that every compatible set contains.

    `found` is one set of records that is compatible with the tables. For each combination, in
    ascending order of its number of records, the solver searches for a compatible set with fewer
    records of this combination. Among these sets it looks for one with few records of all undecided
    combinations, so that one set decides many of them. A number is proven to be minimal if there is
    no compatible set with a smaller number, either in fractions or in integers. Every set is
    compatible with noisy tables, so these make no record certain.
    """
    if not problem.is_hard:
        return CertainRecords(np.zeros(len(found), dtype=np.int64), True)
    if not problem.admits(found):
        return CertainRecords(np.zeros(len(found), dtype=np.int64), False)
    end = monotonic() + seconds
    least, sure = found.copy(), np.zeros(len(found), dtype=np.bool_)
    order = np.flatnonzero(found)
    undecided = 0
    for one in order[np.argsort(found[order], kind="stable")]:
        while least[one] > 0 and not sure[one]:
            if monotonic() > end:
                undecided += 1
                break
            if _fractional_minimum(problem, int(one), end - monotonic()) >= least[one]:
                sure[one] = True
                break
            other = _set_with_fewer_records(
                problem, int(one), least, ~sure & (least > 0), end - monotonic()
            )
            if other is None:
                undecided += 1
                break
            sure[one] = not len(other)
            least = np.minimum(least, other) if len(other) else least
    least = np.where(sure, least, 0)
    only = not undecided and np.array_equal(least, found)
    return CertainRecords(
        least, not undecided, only and not _may_have_more_records(problem, int(found.sum()))
    )


def _solve_program(problem: Program, costs: Floats, most: Floats, **more: Any) -> Any:
    """Return the result of the solver for the program that minimizes the costs."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    # Combinations without any record in a cell that counts them (usually most) are left out.
    possible = np.flatnonzero(problem.most > 0)
    found = milp(
        costs[possible],
        bounds=Bounds(np.zeros(len(possible)), most[possible]),
        constraints=LinearConstraint(problem.matrix[:, possible], problem.lower, problem.upper),
        **more,
    )
    if found.x is not None:
        solution = np.zeros(len(costs))
        solution[possible] = found.x
        found.x = solution
    return found


def _fractional_minimum(problem: Program, one: int, seconds: float) -> int:
    """Return the fractional minimum of a combination's records, rounded up, as a lower bound."""
    costs = np.zeros(len(problem.most))
    costs[one] = 1.0
    limit = {"time_limit": max(0.1, seconds)}
    found = _solve_program(problem, costs, problem.most.astype(np.float64), options=limit)
    return 0 if found.status != 0 else math.ceil(found.fun - TOLERANCE)


def _set_with_fewer_records(
    problem: Program, one: int, least: Integers, undecided_flags: Any, seconds: float
) -> Integers | None:
    """Return a compatible set with fewer records of a combination than all sets found so far.

    The result is empty if it is proven that there is no such set, and None if time runs out.
    """
    most = problem.most.astype(np.float64)
    most[one] = least[one] - 1.0
    found = _solve_program(
        problem,
        undecided_flags.astype(np.float64),
        most,
        integrality=np.ones(int((problem.most > 0).sum()), dtype=np.int64),
        options={"time_limit": max(0.1, seconds), "mip_rel_gap": SEARCH_GAP},
    )
    if found.status == INFEASIBLE:
        return least[:0]
    if found.x is None:
        return None
    records: Integers = np.rint(found.x).astype(np.int64)
    return records if problem.admits(records) else None


def _may_have_more_records(problem: Program, number: int) -> bool:
    """Return whether a compatible set, in fractions, may have more than `number` records."""
    if not (problem.most > 0).any():
        return False
    found = _solve_program(problem, -np.ones(len(problem.most)), problem.most.astype(np.float64))
    return bool(found.status != 0 or -found.fun > number + 0.5)
