"""The privacy loss of two-sided exponential noise, whose sides may have different scales.

The density is continuous. It is proportional to exp(x / left) below zero, and to exp(-x / right)
above zero. Compared with the same noise moved up by `shift`, the loss of an output below zero is
shift / left. Between zero and `shift` the loss falls linearly, and above `shift` it is
-shift / right. The distribution is log-concave, so the divergence grows with the shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from dprelease.numerics.balls import ball, float_upper_bound
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, epsilon_lower_bound


@dataclass(frozen=True)
class ExponentialLoss(MonotoneLoss):
    """The loss of noise with two exact scales against the same noise moved up by `shift` steps.

    `left` and `right` are the scales below and above zero, in steps. The loss of a move down is the
    loss of noise with exchanged scales that moves up.
    """

    left: Fraction
    right: Fraction
    shift: int

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss, shift / left, rounded up."""
        return round_up(self.shift / self.left)

    @property
    def largest_relevant_loss(self) -> float:
        """Return the largest absolute value of a loss."""
        return round_up(self.shift / min(self.left, self.right))

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(Y < x) - exp(epsilon) P(Y + shift < x) for the output x with loss epsilon."""
        left, right, shift = self.left, self.right, self.shift
        if epsilon >= shift / left:
            return 0.0
        edge = epsilon_lower_bound(epsilon)
        if edge <= -shift / right:
            return min(1.0, float_upper_bound(lambda: -ball(edge).expm1()))
        x = (shift / left - edge) * left * right / (left + right)

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            above = ball(right / (left + right)) * ball(-x / right).exp()
            moved = ball(left / (left + right)) * ball((x - shift) / left + edge).exp()
            return 1 - above - moved

        return min(1.0, float_upper_bound(delta_interval))

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals.

        The loss has a positive probability at each end, and a density between the ends.
        """
        left, right, shift = float(self.left), float(self.right), float(self.shift)
        top, bottom = shift / left, -shift / right
        inside = np.clip(edges, bottom, top)
        ends = np.concatenate(([bottom], inside, [top]))
        # The output with a loss l is x = (top - l) left right / (left + right).
        # Rounding may place the last output slightly outside of its range.
        x = np.clip((top - ends) * (left / (left + right) * right), 0.0, shift)
        width = np.diff(ends) * (left / (left + right) * right)
        below_zero, above_zero = left / (left + right), right / (left + right)
        p = above_zero * np.exp(-x[1:] / right) * -np.expm1(-width / right)
        q = below_zero * np.exp((x[:-1] - shift) / left) * -np.expm1(-width / left)
        first, last = np.searchsorted(edges, [top, bottom])
        p[first] += below_zero
        q[first] += below_zero * math.exp(-shift / left)
        p[last] += above_zero * math.exp(-shift / right)
        q[last] += above_zero
        return p, q

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order above 1, rounded up."""
        left, right, shift, a = self.left, self.right, self.shift, Fraction(order) - 1
        top, slope = shift / left, 1 / left + 1 / right
        rate = 1 / right + a * slope

        def divergence_interval() -> arb:
            """Return an interval (ball) that contains the Rényi divergence."""
            # All terms are divided by exp(a top), so that none overflows.
            between = ball(1 / rate / (left + right)) * -ball(-shift * rate).expm1()
            beyond = ball(right / (left + right)) * ball(-shift / right - a * shift * slope).exp()
            total = ball(left / (left + right)) + between + beyond
            # Both terms are near a top, and the divergence is near a (1 + a) top^2 / 2. Floats
            # would lose all digits of it at an order near 1 and a top of 1e-6.
            return ball(top) + total.log() / ball(a)

        return min(self.pure_epsilon, float_upper_bound(divergence_interval, 256))
