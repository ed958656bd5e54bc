"""Permute-and-flip: never a larger expected loss of score than the exponential mechanism.

Guarantee  epsilon with rate = epsilon / (2 sensitivity), or epsilon / sensitivity for scores that
           all move in one direction.
Source     McKenna and Sheldon 2020, arXiv 2010.12603v1, Algorithm 1, Theorem 1 and Proposition 1.

The paper goes through a random permutation and takes the first candidate whose coin, of probability
exp(rate (score - best score)), shows heads. Permutation and coins are independent, so that is a
uniform choice among all heads. This way all coins are flipped, and time does not tell how many the
first heads took.
"""

from __future__ import annotations

from typing import ClassVar

from flint import arb

from dprelease.mechanisms.selection.base import Selection
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lazy_uniform import LazyUniform


class PermuteAndFlip(Selection):
    """A uniform choice among the candidates whose coins show heads."""

    name: ClassVar[str] = "permute_and_flip"
    summary: ClassVar[str] = "the first candidate, in random order, whose coin shows heads; pure"
    use: ClassVar[str] = "the choice among declared candidates: never worse than exponential"

    def _chosen(self, scores: tuple[int, ...], bits: BitSource) -> int:
        best = max(scores)
        heads = [i for i, score in enumerate(scores) if self._flip(score, best, bits)]
        sums = [arb(n + 1) for n in range(len(heads))]
        return heads[LazyUniform(bits).place(lambda: sums)]

    def _flip(self, score: int, best: int, bits: BitSource) -> bool:
        """Return True with probability exp(rate (score - best)), for the best score as well."""

        def sums() -> list[arb]:
            return [self.weights((score, best))[0], arb(1)]

        return LazyUniform(bits).place(sums) == 0

    def _law(self, scores: tuple[int, ...]) -> tuple[arb, ...]:
        """Return p_i E 1 / (1 + heads among the others): an integral of a product over [0, 1]."""
        weights = self.weights(scores)
        return tuple(
            weight * _mean_share(weights[:i] + weights[i + 1 :]) for i, weight in enumerate(weights)
        )


def _mean_share(others: list[arb]) -> arb:
    """Return E 1 / (1 + H), H the number of heads of independent coins."""
    heads = [arb(1)]  # P(H = 0), P(H = 1), ...
    for p in others:
        shifted = [arb(0), *heads]
        heads = [
            (1 - p) * stay + p * up for stay, up in zip([*heads, arb(0)], shifted, strict=True)
        ]
    return sum((mass / (n + 1) for n, mass in enumerate(heads)), arb(0))


SELECTION = PermuteAndFlip
