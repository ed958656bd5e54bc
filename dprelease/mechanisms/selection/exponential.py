"""Exponential mechanism: each candidate has a probability proportional to exp(score / scale).

Guarantee  If a privacy unit moves the difference of any two scores by at most D, its privacy loss
           is at most D / scale. The losses of all outputs, for one pair of neighbouring tables, lie
           in an interval of this length.
Source     McSherry and Talwar 2007, "Mechanism design via differential privacy", Theorem 6. The
           interval of losses is the bounded range of Dong, Durfee and Rogers 2020, arXiv
           1909.13830v2, Definition 3.1.
"""

from __future__ import annotations

from itertools import accumulate
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.selection.selection import ScoreRuns, Selection, one_run_per_candidate
from dprelease.numerics.balls import ball
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Floats, Integers, LazyUniform

FLOAT_ERROR = 2.0**-43
"""Bound on the relative error of a float weight; its exponent, below 64, has an error of 2**-46."""

NEGLIGIBLE_EXPONENT = 64.0
"""Distance in exponents from the best score at which a weight is below 2**-92 of the best weight.

The weights of such candidates are part of the error bound."""


class Exponential(Selection):
    """The exponential mechanism, which inverts a uniform number whose bits are drawn as needed."""

    name: ClassVar[str] = "exponential"
    summary: ClassVar[str] = "a candidate with probability proportional to exp(rate score); pure"
    use_case: ClassVar[str] = "quantiles, and other choices among many candidates"

    @property
    def has_bounded_range(self) -> bool:
        """Return True, because the normalizing constants are the same for all candidates."""
        return True

    def _choose(self, scores: tuple[int, ...], bits: BitSource) -> int:
        """Return the index of the chosen candidate."""
        return LazyUniform(bits).interval_index(lambda: list(accumulate(self.weights(scores))))

    def _probabilities(self, scores: tuple[int, ...]) -> tuple[arb, ...]:
        """Return an interval (ball) of the probability of each candidate."""
        weights = self.weights(scores)
        total = sum(weights, arb(0))
        return tuple(weight / total for weight in weights)

    def choose_from_runs(self, runs: ScoreRuns, bits: BitSource) -> Integers:
        """Return (cells,) indices of selected candidates, with their exact probabilities.

        The method draws one word for each cell, with which floats with an error bound select the
        candidate. If the word is too close to a boundary, balls and further words decide.
        """
        words = bits.words(runs.cell_count)
        choices = np.empty(runs.cell_count, dtype=np.int64)
        for cell, (scores, lengths) in enumerate(runs):
            # The same word decides exactly: a fresh one, drawn only where floats fail, would favour
            # candidates away from boundaries.
            word = int(words[cell])
            candidate = self.choose_by_word(scores, lengths, word)
            if candidate is None:
                candidate = self.choose_exactly(scores, lengths, LazyUniform(bits, word))
            choices[cell] = candidate
        return choices

    def choose_allowed(self, scores: Integers, allowed: Flags, bits: BitSource) -> Integers:
        """Return (cells,) indices of selected candidates, with their exact probabilities.

        `scores` has the shape (cells, candidates). `allowed` marks the candidates that may be
        selected, at least one in each cell.
        """
        runs = one_run_per_candidate(scores)
        lengths: Integers = allowed.ravel().astype(np.int64)
        # Empty runs have no candidates.
        ranks = self.choose_from_runs(
            ScoreRuns(runs.starts, runs.scores, lengths).nonempty_runs(), bits
        )
        ranks_of_candidates: Integers = np.cumsum(allowed, axis=1) - 1
        choices: Integers = np.argmax(allowed & (ranks_of_candidates == ranks[:, None]), axis=1)
        return choices

    def choose_by_word(
        self, scores: Integers, lengths: Integers, word: int, outside: int = 0
    ) -> int | None:
        """Return the index of the candidate that a word selects, or None if floats can't decide.

        `scores` and `lengths` describe runs of candidates. `outside` is the number of omitted
        candidates, whose scores are at least `NEGLIGIBLE_EXPONENT` x scale below the best score.
        """
        exponents = (scores - scores.max()) * (1.0 / self.scale)
        relevant = np.flatnonzero(exponents > -NEGLIGIBLE_EXPONENT)
        weights: Floats = np.exp(exponents[relevant])
        sums = np.cumsum(weights * lengths[relevant])
        total = float(sums[-1])
        # Each omitted weight is below e^-64, and each term of a sum adds a rounding error.
        omitted_weight = 2.0**-92 * (float(lengths.sum()) + outside)
        # A bound on the distance between `target` and the exact position of the word among the
        # exact sums.
        error = total * (FLOAT_ERROR + len(relevant) * 2.0**-52) + omitted_weight
        target = word * 2.0**-64 * total
        low, high = target - error, target + total * 2.0**-64 + error
        i = int(np.searchsorted(sums, low, side="right"))
        if i >= len(relevant):
            return None
        before = float(sums[i - 1]) if i else 0.0
        if low < before or high >= float(sums[i]):
            return None
        # Candidates of one run have equal weights, so the position in the run decides.
        first, last = ((x - before) / float(weights[i]) for x in (low, high))
        if int(first) != int(last):
            return None
        index_in_run: int = min(int(first), int(lengths[relevant[i]]) - 1)
        return int(lengths[: relevant[i]].sum()) + index_in_run

    def choose_exactly(self, scores: Integers, lengths: Integers, uniform: LazyUniform) -> int:
        """Return the index of the selected candidate, decided by intervals (balls).

        They decide first in which run the candidate lies, and then its index in the run.
        """
        best = int(scores.max())
        points, counts = scores.tolist(), lengths.tolist()
        weight_of_score: dict[int, arb] = {}

        def cumulative_weights() -> list[arb]:
            """Return the cumulative weights of the runs of equal scores."""
            # Balls of the previous call have too few bits.
            weight_of_score.clear()
            weight_of_score.update((s, ball(self.rate * (s - best)).exp()) for s in set(points))
            return list(
                accumulate(weight_of_score[s] * n for s, n in zip(points, counts, strict=True))
            )

        i = uniform.interval_index(cumulative_weights)

        def probability_before() -> arb:
            """Return an interval (ball) of the probability of all runs before the selected run."""
            summed = cumulative_weights()
            return (summed[i - 1] if i else arb(0)) / summed[-1]

        def candidate_probability() -> arb:
            """Return an interval (ball) of the probability of one candidate of the selected run."""
            summed = cumulative_weights()
            return weight_of_score[points[i]] / summed[-1]

        candidates_before: int = sum(counts[:i])
        return candidates_before + uniform.part_index(
            probability_before, candidate_probability, counts[i]
        )


SELECTION = Exponential
