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
"""A tolerance that is larger than the error that HiGHS allows for a cell or an integer."""

INFEASIBLE = 2
"""The status code of SciPy for an infeasible program."""

ENOUGH = 0.5
"""The relative gap to the minimum at which a search ends, as any compatible set is useful."""


@dataclass(frozen=True, slots=True)
class Certain:
    """The proven minimum number of records of each combination.

    `decided` is whether all numbers are exact minima; if not, time ran out, and more records may be
    certain. `only` is whether it is proven that no other set of records is compatible with the
    tables.
    """

    least: Integers
    decided: bool
    only: bool = False


def certain_records(problem: Program, found: Integers, seconds: float) -> Certain:
    """Return the number of records of each combination that every compatible set contains.

    `found` is one compatible set. For each combination, in the order of its number of records, the
    solver searches for a compatible set with fewer records of it, and with few records of all
    undecided combinations, so that one set decides many of them. A number is proven to be minimal
    if no such set exists in fractions, or else none in integers. Noisy tables are compatible with
    every set, so they make no record certain.
    """
    if not problem.is_hard:
        return Certain(np.zeros(len(found), dtype=np.int64), True)
    if not problem.admits(found):
        return Certain(np.zeros(len(found), dtype=np.int64), False)
    end = monotonic() + seconds
    least, sure = found.copy(), np.zeros(len(found), dtype=np.bool_)
    order = np.flatnonzero(found)
    undecided = 0
    for one in order[np.argsort(found[order], kind="stable")]:
        while least[one] > 0 and not sure[one]:
            if monotonic() > end:
                undecided += 1
                break
            if _at_least(problem, int(one), end - monotonic()) >= least[one]:
                sure[one] = True
                break
            other = _fewer(problem, int(one), least, ~sure & (least > 0), end - monotonic())
            if other is None:
                undecided += 1
                break
            sure[one] = not len(other)
            least = np.minimum(least, other) if len(other) else least
    least = np.where(sure, least, 0)
    only = not undecided and np.array_equal(least, found)
    return Certain(least, not undecided, only and not _can_be_more(problem, int(found.sum())))


def _solve_program(problem: Program, costs: Floats, most: Floats, **more: Any) -> Any:
    from scipy.optimize import Bounds, LinearConstraint, milp

    # Combinations that a cell with a count of 0 excludes (usually most of them) are left out.
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


def _at_least(problem: Program, one: int, seconds: float) -> int:
    """Return a lower bound of a combination's records: the fractional minimum, rounded up."""
    costs = np.zeros(len(problem.most))
    costs[one] = 1.0
    limit = {"time_limit": max(0.1, seconds)}
    found = _solve_program(problem, costs, problem.most.astype(np.float64), options=limit)
    return 0 if found.status != 0 else math.ceil(found.fun - TOLERANCE)


def _fewer(
    problem: Program, one: int, least: Integers, open_: Any, seconds: float
) -> Integers | None:
    """Return a compatible set with fewer records of a combination than any known set.

    The result is empty if it is proven that no such set exists, and None if time ran out.
    """
    most = problem.most.astype(np.float64)
    most[one] = least[one] - 1.0
    found = _solve_program(
        problem,
        open_.astype(np.float64),
        most,
        integrality=np.ones(int((problem.most > 0).sum()), dtype=np.int64),
        options={"time_limit": max(0.1, seconds), "mip_rel_gap": ENOUGH},
    )
    if found.status == INFEASIBLE:
        return least[:0]
    if found.x is None:
        return None
    records: Integers = np.rint(found.x).astype(np.int64)
    return records if problem.admits(records) else None


def _can_be_more(problem: Program, number: int) -> bool:
    """Return whether a compatible set in fractions may have more records in total than a number."""
    if not (problem.most > 0).any():
        return False
    found = _solve_program(problem, -np.ones(len(problem.most)), problem.most.astype(np.float64))
    return bool(found.status != 0 or -found.fun > number + 0.5)
