"""Prove which records occur in every set of records that is compatible with the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from dprelease.documents.attack_outcome import (
    WORDS,
    Baseline,
    Form,
    FormOutcome,
    SizeClass,
)
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.reconstruction.cell_likelihoods import ObservedCells
from dprelease.reconstruction.guesses import BaselineGuesses
from dprelease.reconstruction.programs import Program, Solution

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
    # Without an optimum nothing is proved, so the bound is 0.
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
    # Only this status is a proof. A search that ran out of time is none.
    if found.status == INFEASIBLE:
        return least[:0]
    if found.x is None:
        return None
    records: Integers = np.rint(found.x).astype(np.int64)
    # The solver's tolerance may let rounded numbers violate a cell.
    return records if problem.admits(records) else None


def _may_have_more_records(problem: Program, number: int) -> bool:
    """Return whether a compatible set, in fractions, may have more than `number` records."""
    if not (problem.most > 0).any():
        return False
    found = _solve_program(problem, -np.ones(len(problem.most)), problem.most.astype(np.float64))
    # Numbers are whole, so a fractional maximum below one more record is enough.
    return bool(found.status != 0 or -found.fun > number + 0.5)


# Score an attack by its number of correct records, compared with the number for guesses.

SIZES = ((1, 1, "1"), (2, 9, "2 to 9"), (10, None, "10 or more"))
"""The size classes of records, by the number of people with the same combination."""

DEVIATIONS = 2.576
"""The half-width of a 99 % interval in standard deviations."""


@dataclass(frozen=True, slots=True)
class SolvedBlock:
    """A solved block: its solution, its certain records, the true records, and the guesses.

    All arrays have one item for each combination of the block. `complete` says which combinations
    are complete, and `records` has the true number of records of each.
    """

    solved: Solution
    certain: CertainRecords
    complete: Flags
    records: Integers
    guess: BaselineGuesses


def guess_baseline(guesses: Sequence[BaselineGuesses], records: Sequence[Integers]) -> Baseline:
    """Return the numbers of correctly guessed records, over all blocks."""
    apportioned = [
        int(np.minimum(one.apportioned, true).sum())
        for one, true in zip(guesses, records, strict=True)
    ]
    return Baseline(
        drawn=math.fsum(float(one.right.sum()) for one in guesses),
        deviation=math.sqrt(max(0.0, math.fsum(float(one.variance.sum()) for one in guesses))),
        apportioned=sum(apportioned),
        alone=math.fsum(
            float(one.drawn_probability[true == 1].sum())
            for one, true in zip(guesses, records, strict=True)
        ),
    )


def form_outcome(
    form: Form, blocks: Sequence[SolvedBlock], guessed: Baseline, error: tuple[float | None, float]
) -> FormOutcome:
    """Return the outcome of the attack on one form of the tables.

    `error` has the mean absolute error of the published counts, and the share of suppressed cells.
    """
    named = np.concatenate([one.solved.records[one.complete] for one in blocks])
    true = np.concatenate([one.records[one.complete] for one in blocks])
    certain = np.concatenate([one.certain.least[one.complete] for one in blocks])
    guess = np.concatenate([one.guess.right[one.complete] for one in blocks])
    right = int(np.minimum(named, true).sum())
    spread = DEVIATIONS * guessed.deviation
    return FormOutcome(
        form=form,
        words=WORDS[form],
        error=error[0],
        withheld=error[1],
        records=int(named.sum()),
        right=right,
        beyond=right - max(guessed.drawn, guessed.apportioned),
        interval=(right - guessed.drawn - spread, right - guessed.drawn + spread),
        alone_named=int((named == 1).sum()),
        alone_right=int(((named == 1) & (true == 1)).sum()),
        alone_found=int(((named >= 1) & (true == 1)).sum()),
        certain=int(certain.sum()),
        certain_right=int(np.minimum(certain, true).sum()),
        certain_alone=int(((certain >= 1) & (true == 1)).sum()),
        decided=all(one.certain.decided for one in blocks),
        blocks=len(blocks),
        likeliest=sum(one.solved.proved for one in blocks),
        admitted=sum(one.solved.admitted for one in blocks),
        only=sum(one.certain.only for one in blocks),
        classes=_size_classes(named, true, guess),
    )


def _size_classes(named: Integers, true: Integers, guess: Floats) -> list[SizeClass]:
    """Return the number of right and of guessed records in each size class of combinations."""
    found = []
    for low, high, description in SIZES:
        inside = (true >= low) & (true <= (np.inf if high is None else high))
        found.append(
            SizeClass(
                people=description,
                records=int(true[inside].sum()),
                right=int(np.minimum(named, true)[inside].sum()),
                guessed=math.fsum(guess[inside].tolist()),
            )
        )
    return found


def mean_error(
    observed: Sequence[ObservedCells], true: Sequence[Integers]
) -> tuple[float | None, float]:
    """Return the mean absolute error of published cells, and the share of suppressed cells."""
    shown = np.concatenate([one.middle for one in observed])
    errors = np.abs(shown - np.concatenate(true))
    known = ~np.isnan(errors)
    mean = math.fsum(errors[known].tolist()) / int(known.sum()) if known.any() else None
    return mean, 1.0 - float(known.mean()) if len(known) else 0.0
