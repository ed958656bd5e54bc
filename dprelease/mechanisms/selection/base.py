"""What a choice among declared candidates is: an exact law on their indices, and its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

from flint import arb

from dprelease.errors import BudgetError
from dprelease.numerics.balls import ball
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.rounding import round_up

LEAST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**9), Fraction(100)
MOST_CANDIDATES = 2**20


@dataclass(frozen=True)
class Selection(ABC):
    """A random index that favors high scores.

    `epsilon`: the exact guarantee. `sensitivity`: how far one unit can move any one score, a whole
    number. `monotonic`: whether one unit moves all scores in the same direction, as counts under
    add_remove; then the same guarantee allows twice the rate.

    Candidates and their number are public; scores are whole numbers of any size. The words that are
    drawn, and so the work, depend on the number of candidates, and on the scores only with a chance
    of about 2**-64 for each candidate, when a word falls onto a boundary. What remains: arithmetic
    on whole numbers and balls takes longer for longer scores.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    use: ClassVar[str]
    """When to use it, in a line."""

    epsilon: Fraction
    sensitivity: int = 1
    monotonic: bool = False

    def __post_init__(self) -> None:
        """Raise BudgetError DP-MECH-005 unless the parameters can be certified."""
        given: object = self.epsilon
        if not isinstance(given, Fraction):  # a float would not be the number that was declared
            self._refuse("epsilon", "an exact fraction")
        if not LEAST_EPSILON <= self.epsilon <= LARGEST_EPSILON:
            self._refuse("epsilon", "1e-9 to 100")
        if type(self.sensitivity) is not int or not 1 <= self.sensitivity <= 2**62:
            self._refuse("sensitivity", "a whole number from 1 to 2^62")

    def _refuse(self, name: str, admissible: str) -> None:
        raise BudgetError("DP-MECH-005", mechanism=self.name, name=name, admissible=admissible)

    @property
    def pure_epsilon(self) -> float:
        """Return epsilon, rounded up: the largest loss of one choice."""
        return round_up(self.epsilon)

    @property
    def rate(self) -> Fraction:
        """Return what a score counts in exponents: epsilon / sensitivity, or half of it."""
        return self.epsilon / (self.sensitivity * (1 if self.monotonic else 2))

    def choose(self, scores: Sequence[int], bits: BitSource) -> int:
        """Return an index with exactly the probability that `law` encloses.

        Raises
        ------
        BudgetError
            DP-MECH-005 for no candidate, more than 2^20, or scores that are no whole numbers.
        """
        return self._chosen(self._checked(scores), bits)

    def law(self, scores: Sequence[int]) -> tuple[arb, ...]:
        """Return balls around the probabilities, at the precision of the flint context."""
        return self._law(self._checked(scores))

    def _checked(self, scores: Sequence[int]) -> tuple[int, ...]:
        if not 1 <= len(scores) <= MOST_CANDIDATES:
            self._refuse("scores", "a list of 1 to 2^20 whole numbers")
        try:
            return tuple(index(score) for score in scores)
        except TypeError:
            self._refuse("scores", "a list of 1 to 2^20 whole numbers")
            raise

    def weights(self, scores: Sequence[int]) -> list[arb]:
        """Return exp(rate (score - best score)) of every candidate, the best ones exactly 1."""
        best = max(scores)
        return [ball(self.rate * (score - best)).exp() for score in scores]

    @abstractmethod
    def _chosen(self, scores: tuple[int, ...], bits: BitSource) -> int:
        """Return an index."""

    @abstractmethod
    def _law(self, scores: tuple[int, ...]) -> tuple[arb, ...]:
        """Return the probability of every index."""
