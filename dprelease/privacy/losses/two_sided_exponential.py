"""Privacy losses of two-sided exponential noise, with unbounded and with truncated sides.

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


@dataclass(frozen=True)
class EndSearch:
    """The parameters of a search for the two ends of truncated Laplace noise.

    With the ends that the search finds, noise with `scale` has at most `delta` at
    epsilon = shift / scale. Scale and shift are in steps.
    """

    scale: Fraction
    shift: int
    delta: Fraction

    @property
    def growth_over_delta(self) -> float:
        """Return (exp(epsilon) - 1) / delta, with the accuracy of floats."""
        epsilon = float(self.shift / self.scale)
        return math.expm1(min(epsilon, 700.0)) / float(self.delta)


def symmetric_length(ends: EndSearch) -> float:
    """Return the length of each side of symmetric noise, slightly above the exact length.

    The exact length is scale ln(1 + (e^epsilon - 1) / (2 delta)) (Geng et al. 2018, arXiv
    1810.00877v3, Theorem 1).
    """
    length = float(ends.scale) * math.log1p(ends.growth_over_delta / 2)
    return _certify_length(ends, length, None)


def short_side_bounds(ends: EndSearch) -> tuple[float, float]:
    """Return approximate bounds of the length of a short side.

    The length must be above the lower bound, and may be equal to the upper bound. With
    b = exp(-length / scale), the other end has a = 2 - b - b (e^epsilon - 1) / delta, which lies in
    (0, b] if and only if the length is between these bounds. The paper wrongly admits any length.
    """
    scale, growth = float(ends.scale), ends.growth_over_delta
    return scale * math.log(max((growth + 1) / 2, 1.0)), scale * math.log1p(growth / 2)


def other_length(ends: EndSearch, length: float) -> float:
    """Return the length of the other side, slightly above the exact length.

    Raises ValueError if no length of the other side has this delta, or if one side is shorter than
    the shift.
    """
    return _certify_length(ends, approximate_other_length(ends, length), length)


def approximate_other_length(ends: EndSearch, length: float) -> float:
    """Return the length of the other side with the accuracy of floats, for comparisons only.

    Raises ValueError: the errors of `other_length`.
    """
    # With a side shorter than the shift, no output would be possible for both neighbours on that
    # side.
    if length < ends.shift:
        raise ValueError("a side is shorter than the shift")
    scale, b = float(ends.scale), math.exp(-length / float(ends.scale))
    if length <= short_side_bounds(ends)[1]:
        a = 2 - b - b * ends.growth_over_delta
        # Near the lower bound a cancels to zero: reject values that may be rounding errors.
        if a <= 2.0**-40:
            raise ValueError("the side is too short for this delta")
    else:
        a = (2 - b) / (1 + ends.growth_over_delta)
    other = -scale * math.log(a)
    if other < ends.shift:
        raise ValueError("the other side is shorter than the shift")
    return other


def _certify_length(ends: EndSearch, length: float, fixed: float | None) -> float:
    """Return a length, at least `length`, for which balls prove the declared delta.

    The other side has the length `fixed`, or the same length if `fixed` is None.

    Raises ValueError if no length near `length` can be certified.
    """
    for i in range(24):
        # If the exact length is the logarithm of a small difference, several bits are lost.
        length *= 1.0 + 2.0 ** (2 * i - 50)
        sides = (Fraction(length), Fraction(length if fixed is None else fixed))
        loss = TruncatedLoss(ends.scale, *sides, ends.shift)
        mirrored = TruncatedLoss(ends.scale, *sides[::-1], ends.shift)
        # Both directions, because a unit may move the cell up or down.
        if max(loss.infinite_loss_probability, mirrored.infinite_loss_probability) <= ends.delta:
            return length
    raise ValueError("no length near the exact one can be certified")


@dataclass(frozen=True)
class TruncatedLoss(MonotoneLoss):
    """The loss of truncated Laplace noise against the same noise moved up by `shift` steps.

    The density is proportional to exp(-|x| / scale) on [-low, high]. Outputs below -low + shift
    have an infinite loss. For a shift that is longer than one of the sides, the class uses the loss
    of a mechanism that reveals everything, which is an upper bound. No noise is designed for such
    shifts.
    """

    scale: Fraction
    low: Fraction
    high: Fraction
    shift: int

    @property
    def _reveals_everything(self) -> bool:
        """Whether the shift exceeds a bound of the noise, so that no loss is finite."""
        return self.shift > min(self.low, self.high)

    @property
    def largest_relevant_loss(self) -> float:
        """Return the largest finite loss."""
        return round_up(self.shift / self.scale)

    @property
    def infinite_loss_probability(self) -> float:
        """Return the probability of an infinite loss, rounded up."""
        # At the largest finite loss, only the outputs with an infinite loss are left.
        return self.delta(self.shift / self.scale)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(Y < x) - exp(epsilon) P(Y + shift < x) for the output x with loss epsilon."""
        if self._reveals_everything:
            return 1.0
        ratio = self.shift / self.scale
        edge = epsilon_lower_bound(epsilon)
        cut = min(self.high, max(self.shift - self.low, (self.shift - edge * self.scale) / 2))
        if edge >= ratio:
            cut = self.shift - self.low
        elif edge <= -ratio:
            cut = self.high

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            moved = self._probability_below(cut - self.shift)
            # An infinite ball times an exact 0 would be undefined.
            return self._probability_below(cut) - (ball(edge).exp() * moved if moved != 0 else 0)

        return min(1.0, float_upper_bound(delta_interval))

    def _probability_below(self, x: Fraction) -> arb:
        """Return an interval (ball) around P(Y < x) for -low <= x <= high."""
        a, b = (ball(-side / self.scale).exp() for side in (self.low, self.high))
        if x <= 0:
            if x <= -self.low:
                return arb(0)
            return a * ball((x + self.low) / self.scale).expm1() / (2 - a - b)
        return 1 - b * ball((self.high - x) / self.scale).expm1() / (2 - a - b)

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals.

        The losses +-shift / scale and +-infinity have positive probabilities.
        """
        p, q = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        if self._reveals_everything:
            p[-1] = q[0] = 1.0
            return p, q
        scale, shift = float(self.scale), float(self.shift)
        low, high, ratio = float(self.low), float(self.high), shift / scale
        total = -math.expm1(-low / scale) - math.expm1(-high / scale)
        inside = np.clip(edges, -ratio, ratio)
        ends = np.concatenate(([-ratio], inside, [ratio]))
        x = (ratio - ends) * (scale / 2)
        width = -np.expm1(-np.diff(ends) / 2)
        # Between 0 and shift, each density falls as the distance from its peak grows.
        p += np.exp(-x[1:] / scale) * width / total
        q += np.exp((x[:-1] - shift) / scale) * width / total
        first, last = np.searchsorted(edges, [ratio, -ratio])
        top, bottom = -math.expm1((shift - low) / scale), -math.expm1((shift - high) / scale)
        far = math.exp(-ratio)
        p[first] += top / total
        q[first] += far * top / total
        p[last] += far * bottom / total
        q[last] += bottom / total
        p[-1] += math.exp(-low / scale) * math.expm1(ratio) / total
        q[0] += math.exp(-high / scale) * math.expm1(ratio) / total
        return p, q

    def renyi(self, order: float) -> float:
        """Return infinity, because some outputs have an infinite loss."""
        return math.inf
