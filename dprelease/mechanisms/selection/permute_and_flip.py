"""Permute-and-flip: expected loss of score never above that of the exponential mechanism.

Guarantee  A privacy unit that moves the difference of any two scores by at most D loses at most
           D / scale.
Source     McKenna and Sheldon 2020, arXiv 2010.12603v1, Algorithm 1, Theorem 1 and Proposition 1:
           scores that all rise, by at most D; a constant added to all scores changes nothing.

The paper goes through a random permutation and takes the first candidate whose coin, of probability
exp((score - best score) / scale), shows heads. Permutation and coins are independent, so that is a
uniform choice among all heads. All coins are flipped, so the time does not reveal the number of
flips before the first heads.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.selection.selection import Selection
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.numerics.lazy_uniform import LazyUniform

FLOAT_ERROR = 2.0**-40
"""Conservative bound on the relative error of a float probability above 2**-62."""


class PermuteAndFlip(Selection):
    """Permute-and-flip, as a uniform choice among the candidates whose coins show heads."""

    name: ClassVar[str] = "permute_and_flip"
    summary: ClassVar[str] = "the first candidate, in random order, whose coin shows heads; pure"
    use: ClassVar[str] = "the choice among declared candidates: never worse than exponential"

    @property
    def in_range(self) -> bool:
        """Return False, because no such bound is known."""
        return False

    def _choose(self, scores: tuple[int, ...], bits: BitSource) -> int:
        best = max(scores)
        heads = [i for i, score in enumerate(scores) if self._flip(score, best, bits)]
        return heads[_uniform_index(LazyUniform(bits), len(heads))]

    def _flip(self, score: int, best: int, bits: BitSource, word: int | None = None) -> bool:
        """Return True with probability exp(rate (score - best)), which is 1 for the best score."""

        def sums() -> list[arb]:
            return [self.weights((score, best))[0], arb(1)]

        return LazyUniform(bits, word).place(sums) == 0

    def choose_open(self, scores: Integers, allowed: Flags, bits: BitSource) -> Integers:
        """Return (cells,) selected indices for (cells, candidates) scores, exactly distributed.

        `allowed` marks the candidates that may be selected, at least one in each cell. One word is
        drawn for every coin and every cell. If floats can't decide, balls and further words do.
        """
        cells, candidates = scores.shape
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
        """Return the index of one of the heads of each cell, all with the same probability."""
        counts = heads.sum(axis=1)
        words = bits.words(len(heads))
        position = words.astype(np.float64) * 2.0**-64 * counts
        choices = np.floor(position).astype(np.int64)
        unsure = np.abs(position - np.round(position)) <= counts * FLOAT_ERROR
        for cell in np.flatnonzero(unsure & (counts > 1)).tolist():
            choices[cell] = _uniform_index(LazyUniform(bits, int(words[cell])), int(counts[cell]))
        choices[counts == 1] = 0
        ranks = np.cumsum(heads, axis=1) - 1
        heads_at: Integers = np.argmax(heads & (ranks == choices[:, None]), axis=1)
        return heads_at

    def _probabilities(self, scores: tuple[int, ...]) -> tuple[arb, ...]:
        """Return p_i E 1 / (1 + H_i) for each i, with H_i the number of heads of the others."""
        weights = self.weights(scores)
        return tuple(
            weight * _mean_reciprocal(weights[:i] + weights[i + 1 :])
            for i, weight in enumerate(weights)
        )


def _uniform_index(uniform: LazyUniform, n: int) -> int:
    """Return one of 0..n - 1, all with the same probability."""
    sums = [arb(i + 1) for i in range(n)]
    return uniform.place(lambda: sums)


def _mean_reciprocal(others: list[arb]) -> arb:
    """Return E 1 / (1 + H), where H is the number of heads of independent coins."""
    heads = [arb(1)]  # P(H = 0), P(H = 1), ...
    for p in others:
        shifted = [arb(0), *heads]
        heads = [
            (1 - p) * stay + p * up for stay, up in zip([*heads, arb(0)], shifted, strict=True)
        ]
    return sum((mass / (n + 1) for n, mass in enumerate(heads)), arb(0))


SELECTION = PermuteAndFlip
