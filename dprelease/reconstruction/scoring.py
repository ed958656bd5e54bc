"""Score an attack by its number of correct records, compared with the number for guesses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
from dprelease.reconstruction.certain_records import CertainRecords
from dprelease.reconstruction.guesses import BaselineGuesses
from dprelease.reconstruction.programs import Solution

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
