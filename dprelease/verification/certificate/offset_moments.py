"""Moments of the losses of offset-symmetric Gaussian noise, in balls: rounded, and on integers.

All lengths are in multiples of the scale: d = shift / scale, r is the offset, and k = d (d / 2 +
r). The loss at z is k + d |z| below zero, k - (d + 2 r) z from there to d, and d (d - z) - k above
d. So exp((a - 1) loss) times the weights exp(-z^2 / 2 - r |z|) are weights of the same form on each
of the three intervals, with other slopes. See Sadeghi and Korki, "Offset-symmetric Gaussians for
differential privacy", eq. (56); derived independently here.
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
