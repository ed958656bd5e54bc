"""Records that are in every table of people that what was published admits: proven, not guessed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from dprelease.numerics.lattice import Floats, Integers
from dprelease.reconstruction.programs import Program

TOLERANCE = 1e-5
"""More than HiGHS lets a cell or a whole number be off."""

INFEASIBLE = 2
"""What SciPy calls it."""

ENOUGH = 0.5
"""How near to the least sum another table has to be: any that differs will do."""


@dataclass(frozen=True, slots=True)
class Certain:
    """The least number of records of each combination that is shown.

    `decided`: whether all are; if not, time ran out, and more may be certain. `only`: whether it is
    shown that the tables admit these records and no others.
    """

    least: Integers
    decided: bool
    only: bool = False


def certain_records(asked: Program, found: Integers, seconds: float) -> Certain:
    """Return how many records of each combination every admitted table of people has.

    `found`: one of these tables. Of each combination, smallest numbers first, another table is
    asked for that has fewer records of it, and of all that are not decided as few as can be; each
    such table decides many. A number is shown to be the least where there is no such table: no
    numbers, whole or not, or else no whole ones. Of tables with noise everything is admitted, so
    nothing is certain.
    """
    if not asked.is_hard:
        return Certain(np.zeros(len(found), dtype=np.int64), True)
    if not asked.admits(found):
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
            if _at_least(asked, int(one), end - monotonic()) >= least[one]:
                sure[one] = True
                break
            other = _fewer(asked, int(one), least, ~sure & (least > 0), end - monotonic())
            if other is None:
                undecided += 1
                break
            sure[one] = not len(other)
            least = np.minimum(least, other) if len(other) else least
    least = np.where(sure, least, 0)
    only = not undecided and np.array_equal(least, found)
    return Certain(least, not undecided, only and not _can_be_more(asked, int(found.sum())))


def _solve_program(asked: Program, costs: Floats, most: Floats, **more: Any) -> Any:
    from scipy.optimize import Bounds, LinearConstraint, milp

    # Most combinations are ruled out by a cell without anybody: they are left out altogether.
    kept = np.flatnonzero(asked.most > 0)
    found = milp(
        costs[kept],
        bounds=Bounds(np.zeros(len(kept)), most[kept]),
        constraints=LinearConstraint(asked.matrix[:, kept], asked.lower, asked.upper),
        **more,
    )
    if found.x is not None:
        whole = np.zeros(len(costs))
        whole[kept] = found.x
        found.x = whole
    return found


def _at_least(asked: Program, one: int, seconds: float) -> int:
    """Return how many records of a combination there are in all that is admitted, whole or not."""
    costs = np.zeros(len(asked.most))
    costs[one] = 1.0
    limit = {"time_limit": max(0.1, seconds)}
    found = _solve_program(asked, costs, asked.most.astype(np.float64), options=limit)
    return 0 if found.status != 0 else math.ceil(found.fun - TOLERANCE)


def _fewer(
    asked: Program, one: int, least: Integers, open_: Any, seconds: float
) -> Integers | None:
    """Return an admitted table with fewer records of a combination than known.

    Empty if it is shown that there is none; None where time ran out.
    """
    most = asked.most.astype(np.float64)
    most[one] = least[one] - 1.0
    found = _solve_program(
        asked,
        open_.astype(np.float64),
        most,
        integrality=np.ones(int((asked.most > 0).sum()), dtype=np.int64),
        options={"time_limit": max(0.1, seconds), "mip_rel_gap": ENOUGH},
    )
    if found.status == INFEASIBLE:
        return least[:0]
    if found.x is None:
        return None
    records: Integers = np.rint(found.x).astype(np.int64)
    return records if asked.admits(records) else None


def _can_be_more(asked: Program, number: int) -> bool:
    """Return whether more records than a number may be admitted, not all of them being whole."""
    if not (asked.most > 0).any():
        return False
    found = _solve_program(asked, -np.ones(len(asked.most)), asked.most.astype(np.float64))
    return bool(found.status != 0 or -found.fun > number + 0.5)
