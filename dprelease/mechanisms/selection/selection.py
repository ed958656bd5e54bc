"""The base class of mechanisms that select a candidate: exact distribution and privacy loss."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

from flint import arb

from dprelease.errors import BudgetError
from dprelease.mechanisms.common.shape import Shape
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.balls import ball
from dprelease.numerics.entropy import BitSource
from dprelease.privacy.losses.pure import PureLoss

MOST_CANDIDATES = 2**20

CANDIDATES = Shape("candidates", "how many candidates there are; the plan fills it in", "1 to 2^20")


@dataclass(frozen=True)
class Selection(Randomizer):
    """A random selection of a candidate, which prefers high scores by exp(1 / scale) per point.

    If a privacy unit moves the difference of any two scores by at most D, its privacy loss is at
    most D / scale; adding a constant to all scores changes nothing.

    The candidates and their number are public, and scores are integers of any size. The number of
    drawn words, and so the time, depends on the number of candidates. It depends on the scores only
    with a probability of about 2**-40 for each candidate, if a word is close to a boundary.

    The error is the shortfall, which is the best score minus the selected score, in points. The
    reported errors are bounds for any scores: with n candidates, P(shortfall >= scale (ln n + t))
    <= exp(-t) (McSherry and Talwar 2007, Theorem 6, for the exponential mechanism; McKenna and
    Sheldon 2020, Theorem 2, for permute-and-flip).
    """

    pure: ClassVar[bool] = True
    norm: ClassVar[int] = 1
    shapes: ClassVar[tuple[Shape, ...]] = (CANDIDATES,)
    domains = {"candidates": (1.0, float(MOST_CANDIDATES))}  # noqa: RUF012 - a ClassVar of the base

    candidates: float = 2.0

    @property
    def rate(self) -> Fraction:
        """Return the factor 1 / scale of scores in exponents."""
        return 1 / Fraction(self.scale)

    @property
    @abstractmethod
    def in_range(self) -> bool:
        """Return whether losses of a pair of neighbours lie in an interval of length D / scale."""

    def losses(self, shift: int) -> tuple[PureLoss, ...]:
        """Return the loss of a selection whose score differences move by up to `shift`."""
        return (PureLoss(shift * self.rate, self.in_range),)

    @property
    def mean_absolute_error(self) -> float:
        """Return the bound scale (ln n + 1) of the mean shortfall."""
        return self.scale * (math.log(self.candidates) + 1.0)

    @property
    def standard_deviation(self) -> float:
        """Return a bound of the root mean square shortfall, from scale (ln n + Exp(1))."""
        log = math.log(self.candidates)
        return self.scale * math.sqrt(log**2 + 2 * log + 2)

    def half_width(self, confidence: float) -> int:
        """Return a w with P(shortfall <= w) >= confidence."""
        miss = 1.0 - confidence
        return math.ceil(self.scale * (math.log(self.candidates) - math.log(miss)) * (1 + 2**-40))

    def choose(self, scores: Sequence[int], bits: BitSource) -> int:
        """Return a selected index, with exactly the probability that `law` encloses.

        Raises
        ------
        BudgetError
            DP-MECH-005 without candidates, for more than 2^20 candidates, or for scores that are
            not integers.
        """
        return self._choose(self._check_scores(scores), bits)

    def law(self, scores: Sequence[int]) -> tuple[arb, ...]:
        """Return balls around all probabilities, at the precision of the flint context."""
        return self._probabilities(self._check_scores(scores))

    def _check_scores(self, scores: Sequence[int]) -> tuple[int, ...]:
        try:
            integers = tuple(index(score) for score in scores)
        except TypeError:
            integers = ()
        if not 1 <= len(integers) <= MOST_CANDIDATES:
            name, admissible = "scores", "a list of 1 to 2^20 whole numbers"
            raise BudgetError("DP-MECH-005", mechanism=self.name, name=name, admissible=admissible)
        return integers

    def weights(self, scores: Sequence[int]) -> list[arb]:
        """Return exp(rate (score - best score)) of every candidate; exactly 1 for the best ones."""
        best = max(scores)
        return [ball(self.rate * (score - best)).exp() for score in scores]

    @abstractmethod
    def _choose(self, scores: tuple[int, ...], bits: BitSource) -> int:
        """Return a selected index for valid scores."""

    @abstractmethod
    def _probabilities(self, scores: tuple[int, ...]) -> tuple[arb, ...]:
        """Return balls around the probabilities of all indices for valid scores."""
