"""Exponential mechanism: a candidate with a probability proportional to exp(rate score).

Guarantee  epsilon with rate = epsilon / (2 sensitivity), or epsilon / sensitivity for scores that
           all move in one direction.
Source     McSherry and Talwar 2007, "Mechanism design via differential privacy", Theorem 6; scores
           that move in one direction: Dwork and Roth 2014, section 3.4.
"""

from __future__ import annotations

from itertools import accumulate
from typing import ClassVar

from flint import arb

from dprelease.mechanisms.selection.base import Selection
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lazy_uniform import LazyUniform


class Exponential(Selection):
    """A choice by inversion of one lazily refined uniform number."""

    name: ClassVar[str] = "exponential"
    summary: ClassVar[str] = "a candidate with probability proportional to exp(rate score); pure"
    use: ClassVar[str] = "few candidates, or a law that is easy to write down"

    def _chosen(self, scores: tuple[int, ...], bits: BitSource) -> int:
        return LazyUniform(bits).place(lambda: list(accumulate(self.weights(scores))))

    def _law(self, scores: tuple[int, ...]) -> tuple[arb, ...]:
        weights = self.weights(scores)
        total = sum(weights, arb(0))
        return tuple(weight / total for weight in weights)


SELECTION = Exponential
