"""Records that are in every table of people that what was published admits: proven, not guessed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, hstack, vstack

from dprelease.numerics.lattice import Floats, Integers
from dprelease.reconstruction.fixed_counts import fixed_counts
from dprelease.reconstruction.programs import Program

AT_ONCE = 64
"""Combinations of which it is asked at once whether one of them can have fewer records."""


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

    `found`: one of these tables. What linear algebra fixes is fixed. Of the rest, another table is
    looked for that has fewer records of some combination, until it is shown that there is none.
    Small numbers come first. Of tables with noise everything is admitted, so nothing is certain.
    """
    end = monotonic() + seconds
    nothing = np.zeros(len(found), dtype=np.int64)
    if not asked.is_hard:
        return Certain(nothing, True)
    if not asked.admits(found):
        return Certain(nothing, False)
    least = found.copy()
    fixed = fixed_counts(asked, end - monotonic())
    sure = fixed & (found > 0)
    open_ = np.flatnonzero((found > 0) & ~fixed)
    open_ = open_[np.argsort(found[open_], kind="stable")]
    size = AT_ONCE
    while len(open_) and size and monotonic() < end:
        asked_for = open_[:size]
        other = _other(asked, asked_for, least, end - monotonic())
        if other is None:
            size //= 2
        elif len(other):
            least = np.minimum(least, other)
            open_ = open_[least[open_] > 0]
        else:
            sure[asked_for] = True
            open_ = open_[size:]
    least = np.where(sure, least, 0)
    only = bool(fixed.all()) or (
        np.array_equal(least, found) and not _can_be_more(asked, int(found.sum()))
    )
    return Certain(least, not len(open_), only)


def _other(asked: Program, open_: Integers, least: Integers, seconds: float) -> Integers | None:
    """Return an admitted table in which many of some combinations have fewer records than known.

    Empty if it is shown that none has fewer; None where time ran out.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    n, k = len(least), len(open_)
    most: Floats = asked.most.astype(np.float64)
    # Where a switch is on, its combination has fewer records than `least`; where it is off, any.
    places, switches = np.arange(k), n + np.arange(k)
    entries = np.concatenate([np.ones(k), most[open_] - least[open_] + 1.0])
    at = (np.concatenate([places, places]), np.concatenate([open_, switches]))
    fewer = coo_matrix((entries, at), shape=(k, n + k)).tocsr()
    cells = hstack([asked.matrix, csr_matrix((len(asked.lower), k))], format="csr")
    found = milp(
        np.concatenate([np.zeros(n), -np.ones(k)]),
        integrality=np.ones(n + k, dtype=np.int64),
        bounds=Bounds(np.zeros(n + k), np.concatenate([most, np.ones(k)])),
        constraints=LinearConstraint(
            vstack([cells, fewer], format="csr"),
            np.concatenate([asked.lower, np.full(k, -math.inf)]),
            np.concatenate([asked.upper, most[open_]]),
        ),
        options={"time_limit": max(0.1, seconds), "mip_rel_gap": 0.5},
    )
    if found.x is None:
        return None
    records: Integers = np.rint(found.x[:n]).astype(np.int64)
    if (records[open_] < least[open_]).any():
        return records if asked.admits(records) else None
    return records[:0] if found.status == 0 else None


def _can_be_more(asked: Program, number: int) -> bool:
    """Return whether more records than a number may be admitted, not all of them being whole."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    n = len(asked.most)
    found = milp(
        -np.ones(n),
        bounds=Bounds(np.zeros(n), asked.most.astype(np.float64)),
        constraints=LinearConstraint(asked.matrix, asked.lower, asked.upper),
    )
    return found.status != 0 or -float(found.fun) > number + 0.5
