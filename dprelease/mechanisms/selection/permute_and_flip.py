"""Permute-and-flip mechanism, whose expected shortfall never exceeds the exponential mechanism's.

Guarantee  If a privacy unit moves the difference of any two scores by at most D, its privacy loss
           is at most D / scale.
Source     McKenna and Sheldon 2020, arXiv 2010.12603v1, Algorithm 1, Theorem 1 and Proposition 1,
           for scores that all rise by at most D. Adding a constant to all scores changes nothing.

The paper tosses a coin for each candidate in random order, and selects the first candidate whose
coin shows heads, which has the probability exp((score - best score) / scale). The order and the
coins are independent, so this is a uniform choice among all candidates with heads. This module
tosses all coins, so its running time does not reveal the number of tosses before the first heads.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.selection.selection import Selection
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Floats, Integers, LazyUniform

FLOAT_ERROR = 2.0**-40
"""Conservative bound on the relative error of a computed probability above 2**-62."""


class PermuteAndFlip(Selection):
    """The permute-and-flip mechanism, a uniform choice among candidates whose coins show heads."""

    name: ClassVar[str] = "permute_and_flip"
    summary: ClassVar[str] = "the first candidate, in random order, whose coin shows heads; pure"
    use_case: ClassVar[str] = "the choice among declared candidates: never worse than exponential"

    @property
    def has_bounded_range(self) -> bool:
        """Return False, because no such interval of losses is known."""
        return False

    def _choose(self, scores: tuple[int, ...], bits: BitSource) -> int:
        """Return the index of a candidate, drawn from the candidates whose coins show heads."""
        best = max(scores)
        heads = [i for i, score in enumerate(scores) if self._flip(score, best, bits)]
        return heads[_uniform_index(LazyUniform(bits), len(heads))]

    def _flip(self, score: int, best: int, bits: BitSource, word: int | None = None) -> bool:
        """Return True with probability exp(rate (score - best)), which is 1 for the best score."""

        def cumulative_probabilities() -> list[arb]:
            """Return the probability of heads, and the whole probability of 1."""
            return [self.weights((score, best))[0], arb(1)]

        return LazyUniform(bits, word).interval_index(cumulative_probabilities) == 0

    def choose_allowed(self, scores: Integers, allowed: Flags, bits: BitSource) -> Integers:
        """Return (cells,) indices of selected candidates, with their exact probabilities.

        `scores` has the shape (cells, candidates). `allowed` marks the candidates that may be
        selected, at least one in each cell. The method draws one word for every coin and one word
        for every cell. If floats can't decide, balls and further words decide.
        """
        cells, candidates = scores.shape
        # Candidates that are not allowed may have the best score, and must not lower the chances of
        # the others.
        least = np.iinfo(np.int64).min
        best = np.where(allowed, scores, least).max(axis=1, keepdims=True)
        gap: Floats = np.maximum(best - scores, 0).astype(np.float64)
        p = np.exp(-gap / self.scale)
        words = bits.words(cells * candidates).reshape(cells, candidates)
        u = words.astype(np.float64) * 2.0**-64
        heads = u < p
        close = np.abs(u - p) <= np.maximum(p * FLOAT_ERROR, 2.0**-62)
        for cell, i in np.argwhere(close & (gap > 0) & allowed).tolist():
            word = int(words[cell, i])
            heads[cell, i] = self._flip(int(scores[cell, i]), int(best[cell, 0]), bits, word)
        heads |= gap == 0
        heads &= allowed
        return self._choose_head(heads, bits)

    def _choose_head(self, heads: Flags, bits: BitSource) -> Integers:
        """Return one candidate with heads for each cell, each with the same probability."""
        counts = heads.sum(axis=1)
        # One word for each cell, even with a single head, so that the number of words tells nothing
        # of the coins.
        words = bits.words(len(heads))
        position = words.astype(np.float64) * 2.0**-64 * counts
        choices = np.floor(position).astype(np.int64)
        # This includes a position equal to `counts`, to which a word near 2^64 is rounded.
        unsure = np.abs(position - np.round(position)) <= counts * FLOAT_ERROR
        for cell in np.flatnonzero(unsure & (counts > 1)).tolist():
            choices[cell] = _uniform_index(LazyUniform(bits, int(words[cell])), int(counts[cell]))
        choices[counts == 1] = 0
        ranks = np.cumsum(heads, axis=1) - 1
        heads_at: Integers = np.argmax(heads & (ranks == choices[:, None]), axis=1)
        return heads_at

    def _probabilities(self, scores: tuple[int, ...]) -> tuple[arb, ...]:
        """Return p_i E 1 / (1 + H_i) for each i, where H_i counts the heads of other candidates."""
        weights = self.weights(scores)
        return tuple(
            weight * _mean_reciprocal(weights[:i] + weights[i + 1 :])
            for i, weight in enumerate(weights)
        )


def _uniform_index(uniform: LazyUniform, n: int) -> int:
    """Return one of the integers 0..n - 1, each with the same probability."""
    sums = [arb(i + 1) for i in range(n)]
    return uniform.interval_index(lambda: sums)


def _mean_reciprocal(others: list[arb]) -> arb:
    """Return E 1 / (1 + H), where H is the number of heads among independent coins."""
    heads = [arb(1)]  # the probabilities P(H = 0), P(H = 1), ...
    for p in others:
        shifted = [arb(0), *heads]
        heads = [
            (1 - p) * stay + p * up for stay, up in zip([*heads, arb(0)], shifted, strict=True)
        ]
    return sum((mass / (n + 1) for n, mass in enumerate(heads)), arb(0))


SELECTION = PermuteAndFlip
