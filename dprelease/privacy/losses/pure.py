"""Privacy losses of mechanisms of which only epsilon, or epsilon and delta, are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from dprelease.numerics.balls import ball, least_above
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, strictly_below

SAFE = 1.0 + 2.0**-40
"""Bound on the float error of a few dozen operations."""


@dataclass(frozen=True)
class PureLoss(MonotoneLoss):
    """The loss of one bit, reported truly with probability e^epsilon / (1 + e^epsilon).

    It dominates every epsilon-DP mechanism (Kairouz, Oh and Viswanath 2015, arXiv 1311.0776v4,
    Theorem 10). `in_range`: the losses of one pair of neighbours lie in an interval of length
    epsilon, as those of the exponential mechanism do; then D_a <= a epsilon^2 / 8.

    Proof. K(a) = ln E_Q (P/Q)^a has K(0) = K(1) = 0, and its second derivative is the variance of a
    variable in an interval of length epsilon, at most epsilon^2 / 4. So epsilon^2 a (a - 1) / 8 - K
    is convex, zero at 0 and at 1, and not negative above 1: D_a = K(a) / (a - 1). The same bound as
    in Cesar and Rogers 2021, arXiv 2004.07223v4.
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

        The latter: Bun and Steinke 2016, arXiv 1605.02065v1, Proposition 1.4.
        """
        return round_up(self.epsilon**2 / (8 if self.in_range else 2))

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return (e^epsilon0 - e^epsilon) / (1 + e^epsilon0)."""
        if epsilon >= self.epsilon:
            return 0.0
        edge = strictly_below(epsilon)
        if edge <= -self.epsilon:
            return min(1.0, least_above(lambda: -ball(edge).expm1()))

        def value() -> arb:
            return (1 - ball(edge - self.epsilon).exp()) / (1 + ball(-self.epsilon).exp())

        return min(1.0, least_above(value))

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of the losses epsilon and -epsilon."""
        top = self.pure_epsilon
        p, q = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        first, last = np.searchsorted(edges, [top, -top])
        likely = 1.0 / (1.0 + math.exp(-top))
        p[first] += likely
        q[last] += likely
        p[last] += likely * math.exp(-top)
        q[first] += likely * math.exp(-top)
        return p, q

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order above 1, rounded up."""
        top, a = self.pure_epsilon, order - 1.0
        # E_P exp(a L), over exp(a top), so that it can't overflow.
        total = (1.0 + math.exp(-top * (1.0 + 2 * a))) / (1.0 + math.exp(-top))
        divergence = min(top, (a * top + math.log(total)) / a) * SAFE
        return min(divergence, order * self.rho) if self.in_range else divergence


@dataclass(frozen=True)
class ApproximateLoss(MonotoneLoss):
    """The loss of a mechanism of which only (epsilon, delta)-DP is known.

    With probability delta the mechanism reveals everything, otherwise one bit with a loss of
    epsilon. This dominates every (epsilon, delta)-DP mechanism (Kairouz, Oh and Viswanath 2015,
    Theorem 10).
    """

    epsilon: Fraction
    chance: Fraction
    """delta, the probability that the mechanism reveals everything."""

    @property
    def span(self) -> float:
        """Return epsilon: finite losses end there."""
        return round_up(self.epsilon)

    @property
    def infinity_mass(self) -> float:
        """Return the probability that everything is revealed, rounded up."""
        return round_up(self.chance)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return this probability plus the remaining part of the delta of the bit."""
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
