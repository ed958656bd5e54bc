"""Which numbers of records follow from the tables by linear algebra: without being whole, even."""

from __future__ import annotations

import math
from time import monotonic

import numpy as np
from scipy.sparse import csr_matrix, eye, hstack, vstack

from dprelease.numerics.lattice import Flags, Floats
from dprelease.reconstruction.programs import Program

TOLERANCE = 1e-6
"""Of HiGHS and of the decomposition: what is less counts as nothing."""

MOST_UNKNOWN = 3_000
"""Numbers whose equations are decomposed; of more, nothing is said."""


def fixed_counts(asked: Program, seconds: float) -> Flags:
    """Return which combinations have one number of records in all that is admitted; maybe not all.

    Numbers that are 0 in all of it, and bounds that are reached in all of it, are found first: the
    mean of several admitted solutions leaves every bound that one of them leaves, so few linear
    programs find them all. What is left is open in all directions that the equations have, and a
    number is fixed where none of these directions changes it.
    """
    n = len(asked.most)
    nothing = np.zeros(n, dtype=np.bool_)
    loose = _loose(asked, monotonic() + seconds)
    if loose is None:
        return nothing
    free, below, above = loose[:n], loose[n : n + len(asked.lower)], loose[n + len(asked.lower) :]
    unknown = np.flatnonzero(free)
    if len(unknown) > MOST_UNKNOWN:
        return nothing
    equal = ~(below & above)
    rows = asked.matrix[np.flatnonzero(equal)][:, unknown].toarray()
    changed = np.zeros(n, dtype=np.bool_)
    changed[unknown] = _directions(rows) > TOLERANCE
    fixed: Flags = ~changed
    return fixed


def _directions(rows: Floats) -> Floats:
    """Return how far each unknown is changed by directions that change no row: 0 to 1."""
    _, sizes, right = np.linalg.svd(rows, full_matrices=False)
    rank = int((sizes > TOLERANCE * max(1.0, sizes.max(initial=0.0))).sum())
    # A unit vector is as long as its part in the rows, where nothing is left for the directions.
    held: Floats = 1.0 - (right[:rank] ** 2).sum(axis=0)
    return np.sqrt(np.maximum(held, 0.0))


def _loose(asked: Program, end: float) -> Flags | None:
    """Return which numbers can be above 0, and cells above their lower and below their upper bound.

    None where time runs out. `most` of a combination is no bound of its own.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    n, m = len(asked.most), len(asked.lower)
    open_ = np.concatenate([np.ones(n, bool), asked.upper > asked.lower, asked.upper > asked.lower])
    slack = vstack([eye(n), asked.matrix, -asked.matrix], format="csr")
    bound = np.concatenate([np.zeros(n), asked.lower, -asked.upper])
    loose: Flags = ~np.isfinite(bound)
    open_ &= np.isfinite(bound)
    while open_.any():
        if monotonic() > end:
            return None
        places = np.flatnonzero(open_)
        k = len(places)
        above = hstack([slack[places], -eye(k)], format="csr")
        inside = hstack([asked.matrix, csr_matrix((m, k))], format="csr")
        found = milp(
            np.concatenate([np.zeros(n), -np.ones(k)]),
            bounds=Bounds(np.zeros(n + k), np.concatenate([np.full(n, math.inf), np.ones(k)])),
            constraints=[
                LinearConstraint(inside, asked.lower, asked.upper),
                LinearConstraint(above, bound[places], math.inf),
            ],
            options={"time_limit": max(0.1, end - monotonic())},
        )
        if found.x is None or found.status != 0:
            return None
        moved = places[found.x[n:] > TOLERANCE]
        if not len(moved):
            break
        loose[moved] = True
        open_[moved] = False
    return loose
