"""Sum the tails of integer noise with weights exp(-(k / scale)^2 / 2 - offset |k| / scale).

Only the definition of the distribution is used. Every weight is a ball, and so is the bound of all
weights after the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property

from flint import arb, ctx

from dprelease.numerics.balls import ball

LARGEST_SCALE = 2**12
"""The largest scale for which all weights are summed: the number of weights is about 20 times the
scale."""


def falling_loss(scale: Fraction, offset: Fraction, shift: int) -> Callable[[int], arb]:
    """Return the function from an output k to its loss, ln(weight of k / weight of k - `shift`)."""
    square, slope = 1 / ball(2 * scale**2), ball(offset / scale)

    def loss(k: int) -> arb:
        """Return the loss of an output, in closed form."""
        return square * (shift * (shift - 2 * k)) + slope * (abs(k - shift) - abs(k))

    return loss


class SummedTails:
    """The tails of the noise, at the precision of the flint context when they are first computed.

    Weights are summed until they are below 2^-precision. A certificate sets a precision that is
    finer than its smallest delta.
    """

    def __init__(self, scale: Fraction, offset: Fraction) -> None:
        self.step, self.slope, self.bits = 1 / ball(scale), ball(offset / scale), ctx.prec

    @cached_property
    def sums(self) -> list[arb]:
        """Return the total weight of all integers >= 0, >= 1, and so on, until it is negligible."""
        with ctx.workprec(self.bits):
            step, slope = self.step, self.slope
            term = (-step * step / 2 - slope).exp()
            fall, change = (-step * step * 3 / 2 - slope).exp(), (-step * step).exp()
            weights, end = [arb(1)], arb(2) ** -self.bits
            while not term < end:
                weights.append(term)
                term *= fall
                fall *= change
            # The ratio of neighbouring weights decreases, so a geometric series bounds the rest.
            sums = [arb(0).union(term / (1 - fall))]
            for weight in reversed(weights):
                sums.append(weight + sums[-1])
            return sums[::-1]

    @cached_property
    def total(self) -> arb:
        """Return the total weight of all integers."""
        return 2 * self.sums[0] - 1

    def tail(self, k: int, upper: bool) -> arb:
        """Return an interval (ball) that contains P(K >= k) if `upper` is set, else P(K <= k)."""
        j = k if upper else -k
        if j < 1:
            return 1 - self.tail(1 - j, True)
        if j < len(self.sums):
            return self.sums[j] / self.total
        first = (-((j * self.step) ** 2) / 2 - j * self.slope).exp()
        fall = (-(2 * j + 1) * self.step**2 / 2 - self.slope).exp()
        return arb(0).union(first / (1 - fall)) / self.total
