"""Moments and tails of noise with weights exp(-z^2 / 2 - r |z|), in balls; r is the offset.

Only the definition of the distribution is used. Every weight is a ball, and so is the bound of all
weights after the last one that is summed.

All lengths are in multiples of the scale: d = shift / scale, and k = d (d / 2 + r). The loss at z
is k + d |z| below zero, k - (d + 2 r) z from there to d, and d (d - z) - k above d. So
exp((a - 1) loss) times the weights are weights of the same form on each of the three intervals,
with other slopes. See Sadeghi and Korki, "Offset-symmetric Gaussians for differential privacy",
eq. (56); derived independently here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb, ctx

from dprelease.numerics import theta
from dprelease.numerics.balls import ball
from dprelease.numerics.normal_tail import mills_ratio


@dataclass(frozen=True, slots=True)
class OffsetMoments:
    """The moments of noise with a scale and an offset: on integers, or continuous and rounded."""

    scale: Fraction
    offset: Fraction
    integers: bool

    def ln_moment(self, shift: int, order: Fraction) -> arb:
        """Return ln E exp((order - 1) loss), which is order - 1 times the Rényi divergence."""
        a, r, d = order - 1, self.offset, shift / self.scale
        kink = d * (d / 2 + r)
        slopes = (r - a * d, r + a * (d + 2 * r), r + a * d)
        tilt = ball(a * (d * d - 2 * kink)).exp()
        sums = self._on_integers if self.integers else self._continuous
        return ball(a * kink) + sums(shift, slopes, tilt).log()

    def _on_integers(self, shift: int, slopes: tuple[Fraction, ...], tilt: arb) -> arb:
        """Return the moment of noise on integers, as a quotient of weights."""
        scale = float(self.scale)
        below, between, above = slopes
        total = 1 + theta.weight_from(scale, below, 1)
        total += theta.weight_from(scale, between, 1) - theta.weight_from(scale, between, shift)
        total += tilt * theta.weight_from(scale, above, shift)
        return total / theta.total_weight(scale, float(self.offset))

    def _continuous(self, shift: int, slopes: tuple[Fraction, ...], tilt: arb) -> arb:
        """Return the moment of continuous noise, as a quotient of integrals."""
        d = ball(shift / self.scale)
        below, between, above = (ball(slope) for slope in slopes)

        def up_from_d(slope: arb) -> arb:
            """Return the integral from d upwards, for a slope of the exponent."""
            return (-d * (d / 2 + slope)).exp() * mills_ratio(slope + d)

        total = mills_ratio(below) + mills_ratio(between) - up_from_d(between)
        return (total + tilt * up_from_d(above)) / (2 * mills_ratio(ball(self.offset)))

    def bound_from_order(self, shift: int, order: Fraction) -> arb:
        """Return a bound of D_a / a for all a >= `order` > 1: d^2 / 2 + c / (a (a - 1)).

        The tilted weights below zero are at most exp(m^2 / 2), m = (a - 1) d - r, times the weights
        of a normal distribution around m. The integral of the latter is sqrt(2 pi), and their sum
        in steps of 1 / scale is at most this integral plus a step. The losses at all other outputs
        are at most k. So c = r^2 / 2 + ln(w + 1), where w is this integral (or sum) divided by that
        of all weights.
        """
        most = (2 * arb.pi()).sqrt()
        if self.integers:
            most += 1 / ball(self.scale)
            share = (
                most * ball(self.scale) / theta.total_weight(float(self.scale), float(self.offset))
            )
        else:
            share = most / (2 * mills_ratio(ball(self.offset)))
        rest = ball(self.offset) ** 2 / 2 + (share + 1).log()
        return ball(Fraction(shift**2) / self.scale**2 / 2) + rest / ball(order * (order - 1))


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
        return 2 * self.sums[0] - 1  # 0 has weight 1, in both halves

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
