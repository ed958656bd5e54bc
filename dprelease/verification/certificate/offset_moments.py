"""Moments of the losses of offset-symmetric Gaussian tails, in balls: continuous, and on integers.

In scales, with d = shift / scale and r the offset, the loss is k + d |z| below zero, k - (d + 2 r)
z from there to d, and d (d - z) - k beyond, k = d (d / 2 + r). So exp((a - 1) loss) times the
weights exp(-z^2 / 2 - r |z|) are again such weights on each of the three, with other slopes. After
Sadeghi and Korki, "Offset-symmetric Gaussians for differential privacy", eq. (56); derived anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dprelease.numerics import theta
from dprelease.numerics.balls import ball
from dprelease.numerics.normal_tail import mills_ratio


@dataclass(frozen=True, slots=True)
class OffsetMoments:
    """Noise of a scale and an offset; on the integers, or rounded (post-processing)."""

    scale: Fraction
    offset: Fraction
    integers: bool

    def ln_moment(self, shift: int, order: Fraction) -> arb:
        """Return ln E exp((order - 1) loss): order - 1 times the Renyi divergence."""
        a, r, d = order - 1, self.offset, shift / self.scale
        kink = d * (d / 2 + r)
        slopes = (r - a * d, r + a * (d + 2 * r), r + a * d)
        tilt = ball(a * (d * d - 2 * kink)).exp()
        sums = self._on_integers if self.integers else self._continuous
        return ball(a * kink) + sums(shift, slopes, tilt).log()

    def _on_integers(self, shift: int, slopes: tuple[Fraction, ...], tilt: arb) -> arb:
        scale = float(self.scale)
        below, between, beyond = slopes
        total = 1 + theta.weight_from(scale, below, 1)
        total += theta.weight_from(scale, between, 1) - theta.weight_from(scale, between, shift)
        total += tilt * theta.weight_from(scale, beyond, shift)
        return total / theta.total(scale, float(self.offset))

    def _continuous(self, shift: int, slopes: tuple[Fraction, ...], tilt: arb) -> arb:
        d = ball(shift / self.scale)
        below, between, beyond = (ball(slope) for slope in slopes)

        def up_from_d(slope: arb) -> arb:
            return (-d * (d / 2 + slope)).exp() * mills_ratio(slope + d)

        total = mills_ratio(below) + mills_ratio(between) - up_from_d(between)
        return (total + tilt * up_from_d(beyond)) / (2 * mills_ratio(ball(self.offset)))

    def beyond(self, shift: int, order: Fraction) -> arb:
        """Return a bound of D_a / a for all a >= `order` > 1: d^2 / 2 + c / (a (a - 1)).

        The tilted weights below zero are at most exp(m^2 / 2), m = (a - 1) d - r, times normal ones
        around m, whose integral is sqrt(2 pi), and whose sum in steps of 1 / scale is at most that
        and a step; the losses of the others are at most k. So c = r^2 / 2 + ln(w + 1), w this
        integral over that of all weights.
        """
        most = (2 * arb.pi()).sqrt()
        if self.integers:
            most += 1 / ball(self.scale)
            share = most * ball(self.scale) / theta.total(float(self.scale), float(self.offset))
        else:
            share = most / (2 * mills_ratio(ball(self.offset)))
        rest = ball(self.offset) ** 2 / 2 + (share + 1).log()
        return ball(Fraction(shift**2) / self.scale**2 / 2) + rest / ball(order * (order - 1))
