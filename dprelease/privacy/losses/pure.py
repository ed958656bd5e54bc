"""Privacy losses of mechanisms that are only known to be epsilon-DP or (epsilon, delta)-DP."""

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
class PureLoss(MonotoneLoss):
    """The loss of one bit that is reported truthfully with probability e^epsilon / (1 + e^epsilon).

    This loss dominates the losses of every epsilon-DP mechanism (Kairouz, Oh and Viswanath 2015,
    arXiv 1311.0776v4, Theorem 10). `has_bounded_range` means that all losses of each pair of
    neighbours lie in an interval of length epsilon, as for the exponential mechanism. Then the
    Rényi divergence D_a is at most a epsilon^2 / 8.

    Proof. Let K(a) = ln E_Q (P/Q)^a, so K(0) = K(1) = 0. The second derivative of K is the variance
    of a variable in an interval of length epsilon, which is at most epsilon^2 / 4. So the function
    epsilon^2 a (a - 1) / 8 - K(a) is convex, zero at 0 and at 1, and not negative above 1. With
    D_a = K(a) / (a - 1), the bound follows. Cesar and Rogers 2021, arXiv 2004.07223v4, have the
    same bound.
    """

    epsilon: Fraction
    has_bounded_range: bool = False

    @property
    def pure_epsilon(self) -> float:
        """Return epsilon, rounded up."""
        return round_up(self.epsilon)

    @property
    def rho(self) -> float:
        """Return epsilon^2 / 8 for losses with a bounded range, else epsilon^2 / 2, rounded up.

        The second bound is Bun and Steinke 2016, arXiv 1605.02065v1, Proposition 1.4.
        """
        # From the exact epsilon: the square of a float that was rounded up would be rounded twice.
        return round_up(self.epsilon**2 / (8 if self.has_bounded_range else 2))

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return (e^E - e^epsilon) / (1 + e^E), where E is the largest loss."""
        if epsilon >= self.epsilon:
            return 0.0
        epsilon_below = epsilon_lower_bound(epsilon)
        if epsilon_below <= -self.epsilon:
            return min(1.0, float_upper_bound(lambda: -ball(epsilon_below).expm1()))

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            return (1 - ball(epsilon_below - self.epsilon).exp()) / (1 + ball(-self.epsilon).exp())

        return min(1.0, float_upper_bound(delta_interval))

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals, from the two losses epsilon and -epsilon."""
        largest = self.pure_epsilon
        p, q = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        first, last = np.searchsorted(edges, [largest, -largest])
        true_bit = 1.0 / (1.0 + math.exp(-largest))
        p[first] += true_bit
        q[last] += true_bit
        p[last] += true_bit * math.exp(-largest)
        q[first] += true_bit * math.exp(-largest)
        return p, q

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order above 1, rounded up."""
        a = Fraction(order) - 1

        def divergence_interval() -> arb:
            """Return an interval (ball) that contains the Rényi divergence."""
            # The mean E_P exp(a L) is divided by exp(a epsilon), so that it can't overflow. The
            # result is a small difference of nearly equal numbers, in which floats lose all digits.
            last = (-ball((1 + 2 * a) * self.epsilon)).exp()
            total = (1 + last) / (1 + (-ball(self.epsilon)).exp())
            return ball(self.epsilon) + total.log() / ball(a)

        divergence = min(self.pure_epsilon, float_upper_bound(divergence_interval, 256))
        if not self.has_bounded_range:
            return divergence
        return min(divergence, round_up(Fraction(order) * self.epsilon**2 / 8))


@dataclass(frozen=True)
class ApproximateLoss(MonotoneLoss):
    """The loss of a mechanism that is only known to be (epsilon, delta)-DP.

    With probability delta the mechanism reveals everything, and otherwise one bit with a loss of
    epsilon. Such a mechanism dominates every (epsilon, delta)-DP mechanism (Kairouz, Oh and
    Viswanath 2015, Theorem 10).
    """

    epsilon: Fraction
    reveal_probability: Fraction
    """The probability delta with which the mechanism reveals everything."""

    @property
    def largest_relevant_loss(self) -> float:
        """Return epsilon, the largest finite loss."""
        return round_up(self.epsilon)

    @property
    def exempt_probability(self) -> Fraction:
        """Return the probability that the mechanism reveals everything."""
        return self.reveal_probability

    @property
    def without_exempt_outputs(self) -> PureLoss:
        """Return the loss of one bit, if the mechanism does not reveal everything."""
        return PureLoss(self.epsilon)

    @property
    def infinite_loss_probability(self) -> float:
        """Return the probability that the mechanism reveals everything, rounded up."""
        return round_up(self.reveal_probability)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return delta, from the delta of one bit and the probability of revealing everything."""
        bit = PureLoss(self.epsilon).delta(epsilon)
        return min(
            1.0,
            # Rises with both, and both are rounded up.
            round_up(self.reveal_probability + (1 - self.reveal_probability) * Fraction(bit)),
        )

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals, from the losses +-epsilon and +-infinity."""
        p, q = PureLoss(self.epsilon).interval_probabilities(edges)
        reveal_probability = round_up(self.reveal_probability)
        # A probability that is rounded up moves more to the infinite loss, so delta does not fall.
        p, q = p * (1.0 - reveal_probability), q * (1.0 - reveal_probability)
        p[-1] += reveal_probability
        q[0] += reveal_probability
        return p, q

    def renyi(self, order: float) -> float:
        """Return infinity, because some outputs have an infinite loss."""
        return math.inf
