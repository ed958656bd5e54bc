"""Base class of mechanisms that select a candidate: their exact distribution and privacy loss."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.errors import BudgetError
from dprelease.mechanisms.randomizer import Randomizer, ShapeParameter
from dprelease.numerics.balls import ball
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers
from dprelease.privacy.losses.pure import PureLoss

# Candidates of many cells, encoded as runs of equal scores.


@dataclass(frozen=True, slots=True)
class ScoreRuns:
    """Candidates of many cells, as runs of equal scores.

    Cell c has the runs from `starts[c]` to `starts[c + 1]` - 1, and run i has `lengths[i]`
    candidates of the score `scores[i]`. `starts` has the shape (cells + 1,), `scores` and `lengths`
    have the shape (runs,). Every cell has a run, and every run has a candidate. The candidates of a
    cell are numbered from 0 through its runs in order.
    """

    starts: Integers
    scores: Integers
    lengths: Integers

    @property
    def cell_count(self) -> int:
        """Return the number of cells."""
        return len(self.starts) - 1

    def nonempty_runs(self) -> ScoreRuns:
        """Return only the runs that have at least one candidate."""
        is_nonempty = self.lengths > 0
        new_numbers = np.concatenate(([0], np.cumsum(is_nonempty)))
        return ScoreRuns(
            new_numbers[self.starts], self.scores[is_nonempty], self.lengths[is_nonempty]
        )

    def __iter__(self) -> Iterator[tuple[Integers, Integers]]:
        for first, last in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            yield self.scores[first:last], self.lengths[first:last]


def one_run_per_candidate(scores: Integers) -> ScoreRuns:
    """Return the runs of (cells, candidates) scores, with one run per candidate."""
    cells, candidates = scores.shape
    starts: Integers = np.arange(cells + 1, dtype=np.int64) * candidates
    return ScoreRuns(starts, scores.ravel(), np.ones(scores.size, dtype=np.int64))


MOST_CANDIDATES = 2**20

CANDIDATES = ShapeParameter(
    "candidates", "how many candidates there are; the plan fills it in", "1 to 2^20"
)


@dataclass(frozen=True)
class Selection(Randomizer):
    """A random selection of one candidate, where each further point weighs exp(1 / scale).

    If a privacy unit moves the difference of any two scores by at most D points, its privacy loss
    is at most D / scale. Adding a constant to all scores changes nothing.

    The candidates and their number are public, and scores are integers of any size. The number of
    drawn words, and so the running time, depends on the number of candidates. It depends on the
    scores only if a word is close to a boundary, which has a probability of about 2**-40 for each
    candidate.

    The error of a selection is its shortfall, which is the best score minus the selected score, in
    points. The properties for errors return bounds for any scores. With n candidates,
    P(shortfall >= scale (ln n + t)) <= exp(-t) (McSherry and Talwar 2007, Theorem 6, for the
    exponential mechanism; McKenna and Sheldon 2020, Theorem 2, for permute-and-flip).
    """

    pure: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 1
    costs_most_in_few_cells: ClassVar[bool] = True
    shape_parameters: ClassVar[tuple[ShapeParameter, ...]] = (CANDIDATES,)
    parameter_ranges = {"candidates": (1.0, float(MOST_CANDIDATES))}  # noqa: RUF012 - a ClassVar of the base

    candidates: float = 2.0

    @property
    def rate(self) -> Fraction:
        """Return 1 / scale, the factor of scores in the exponents of weights."""
        return 1 / Fraction(self.scale)

    @property
    @abstractmethod
    def has_bounded_range(self) -> bool:
        """Return whether all losses of two neighbouring tables lie in an interval.

        The interval has the length D / scale. This property is called bounded range.
        """

    def losses(self, shift: int) -> tuple[PureLoss, ...]:
        """Return the loss of a selection if differences of scores move by up to `shift` points."""
        return (PureLoss(shift * self.rate, self.has_bounded_range),)

    @property
    def mean_absolute_error(self) -> float:
        """Return scale (ln n + 1), a bound of the mean shortfall."""
        return self.scale * (math.log(self.candidates) + 1.0)

    @property
    def standard_deviation(self) -> float:
        """Return a bound of the root mean square shortfall.

        It is the root mean square of scale (ln n + X), where X has the distribution Exp(1).
        """
        log = math.log(self.candidates)
        return self.scale * math.sqrt(log**2 + 2 * log + 2)

    def half_width(self, confidence: float) -> int:
        """Return a number of points w with P(shortfall <= w) >= confidence."""
        tail_exponent = math.log(self.candidates) - math.log(1.0 - confidence)
        # Rounded up, because a wider margin is still true.
        return math.ceil(self.scale * tail_exponent * (1 + 2**-40))

    def choose(self, scores: Sequence[int], bits: BitSource) -> int:
        """Return the index of a random candidate, selected with its exact probability.

        Raises BudgetError: DP-MECH-005 if there is no candidate, if there are more than 2^20
        candidates, or if a score is no integer.
        """
        return self._choose(self._to_integers(scores), bits)

    def probabilities(self, scores: Sequence[int]) -> tuple[arb, ...]:
        """Return intervals (balls) around the probabilities of all candidates.

        The intervals have the precision of the flint context.
        """
        return self._probabilities(self._to_integers(scores))

    def _to_integers(self, scores: Sequence[int]) -> tuple[int, ...]:
        """Return the scores as integers; refuse scores that are too many or not whole."""
        try:
            # `index` refuses floats, which would be rounded to other scores, and accepts the
            # integers of NumPy.
            integers = tuple(index(score) for score in scores)
        except TypeError:
            integers = ()
        if not 1 <= len(integers) <= MOST_CANDIDATES:
            name, admissible = "scores", "a list of 1 to 2^20 whole numbers"
            raise BudgetError("DP-MECH-005", mechanism=self.name, name=name, admissible=admissible)
        return integers

    def weights(self, scores: Sequence[int]) -> list[arb]:
        """Return exp(rate (score - best score)) of every candidate; it is 1 for the best score."""
        best = max(scores)
        return [ball(self.rate * (score - best)).exp() for score in scores]

    @abstractmethod
    def _choose(self, scores: tuple[int, ...], bits: BitSource) -> int:
        """Return the index of a random candidate, for scores that have been checked."""

    @abstractmethod
    def _probabilities(self, scores: tuple[int, ...]) -> tuple[arb, ...]:
        """Return intervals (balls) around the probabilities, for scores that have been checked."""
