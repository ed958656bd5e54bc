"""Tails of integer noise with weights exp(-(k / scale)^2 / 2 - offset |k| / scale), added up.

From the definition of the law alone: every weight is a ball, and so is what lies beyond the last.
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from dprelease.numerics.balls import ball

LARGEST_SCALE = 2**10
"""Scales up to which all weights are added up; some 40 scales of them are looked at."""

UNSEEN = 1200
"""Bits below 1 at which weights end: below the least delta that a budget may have."""


class SummedTails:
    """The law, at the precision of the flint context it was made in."""

    def __init__(self, scale: Fraction, offset: Fraction) -> None:
        step, slope = 1 / ball(scale), ball(offset / scale)
        term = (-step * step / 2 - slope).exp()
        fall, change = (-step * step * 3 / 2 - slope).exp(), (-step * step).exp()
        weights, end = [arb(1)], arb(2) ** -UNSEEN
        while not term < end:
            weights.append(term)
            term *= fall
            fall *= change
        # Ratios of neighbours only fall: a geometric series bounds the rest.
        sums = [arb(0).union(term / (1 - fall))]
        for weight in reversed(weights):
            sums.append(weight + sums[-1])
        self.step, self.slope = step, slope
        self.sums = sums[::-1]
        self.total = 2 * self.sums[0] - 1

    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k), or P(K <= k)."""
        j = k if upper else -k
        if j < 1:
            return 1 - self.tail(1 - j, True)
        if j < len(self.sums):
            return self.sums[j] / self.total
        first = (-((j * self.step) ** 2) / 2 - j * self.slope).exp()
        fall = (-(2 * j + 1) * self.step**2 / 2 - self.slope).exp()
        return arb(0).union(first / (1 - fall)) / self.total
