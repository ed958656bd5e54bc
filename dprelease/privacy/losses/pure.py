"""Privacy losses of mechanisms that are only known to be epsilon-DP or (epsilon, delta)-DP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from dprelease.numerics.balls import ball, least_above
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, strictly_below

FLOAT_MARGIN = 1.0 + 2.0**-40
"""Bound on the float error of a few dozen operations."""


@dataclass(frozen=True)
class PureLoss(MonotoneLoss):
    """The loss of one bit that is reported truthfully with probability e^epsilon / (1 + e^epsilon).

    It dominates every epsilon-DP mechanism (Kairouz, Oh and Viswanath 2015, arXiv 1311.0776v4,
    Theorem 10). `in_range` means that the losses of each pair of neighbours lie in an interval of
    length epsilon, as the losses of the exponential mechanism do. Then D_a <= a epsilon^2 / 8.

    Proof. K(a) = ln E_Q (P/Q)^a has K(0) = K(1) = 0. Its second derivative is the variance of a
    variable in an interval of length epsilon, which is at most epsilon^2 / 4. So
    epsilon^2 a (a - 1) / 8 - K(a) is convex, zero at 0 and at 1, and not negative above 1. With
    D_a = K(a) / (a - 1) the bound follows. Cesar and Rogers 2021, arXiv 2004.07223v4, have the same
    bound.
    """

    epsilon: Fraction
    in_range: bool = False

    @property
    def pure_epsilon(self) -> float:
        """Return epsilon, rounded up."""
        return round_up(self.epsilon)

    @property
    def rho(self) -> float:
        """Return epsilon^2 / 8 for losses in a range, else epsilon^2 / 2, rounded up.

        The second bound is Bun and Steinke 2016, arXiv 1605.02065v1, Proposition 1.4.
        """
        return round_up(self.epsilon**2 / (8 if self.in_range else 2))

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return (e^epsilon0 - e^epsilon) / (1 + e^epsilon0)."""
        if epsilon >= self.epsilon:
            return 0.0
        epsilon_below = strictly_below(epsilon)
        if epsilon_below <= -self.epsilon:
            return min(1.0, least_above(lambda: -ball(epsilon_below).expm1()))

        def value() -> arb:
            return (1 - ball(epsilon_below - self.epsilon).exp()) / (1 + ball(-self.epsilon).exp())

        return min(1.0, least_above(value))

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of the losses epsilon and -epsilon."""
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
        largest, a = self.pure_epsilon, order - 1.0
        # E_P exp(a L) is divided by exp(a largest), so that it can't overflow.
        total = (1.0 + math.exp(-largest * (1.0 + 2 * a))) / (1.0 + math.exp(-largest))
        divergence = min(largest, (a * largest + math.log(total)) / a) * FLOAT_MARGIN
        return min(divergence, order * self.rho) if self.in_range else divergence


@dataclass(frozen=True)
class ApproximateLoss(MonotoneLoss):
    """The loss of a mechanism that is only known to be (epsilon, delta)-DP.

    With probability delta the mechanism reveals everything, and otherwise one bit with a loss of
    epsilon. Such a mechanism dominates every (epsilon, delta)-DP mechanism (Kairouz, Oh and
    Viswanath 2015, Theorem 10).
    """

    epsilon: Fraction
    chance: Fraction
    """The probability delta with which the mechanism reveals everything."""

    @property
    def span(self) -> float:
        """Return epsilon, the largest finite loss."""
        return round_up(self.epsilon)

    @property
    def infinity_mass(self) -> float:
        """Return the probability that the mechanism reveals everything, rounded up."""
        return round_up(self.chance)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return the probability of revealing everything, plus the rest times the bit's delta."""
        bit = PureLoss(self.epsilon).delta(epsilon)
        return min(1.0, round_up(self.chance + (1 - self.chance) * Fraction(bit)))

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of the losses +-epsilon and +-infinity."""
        p, q = PureLoss(self.epsilon).masses(edges)
        chance = round_up(self.chance)
        p, q = p * (1.0 - chance), q * (1.0 - chance)
        p[-1] += chance
        q[0] += chance
        return p, q

    def renyi(self, order: float) -> float:
        """Return infinity: no divergence has a bound."""
        return math.inf
