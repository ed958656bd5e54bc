"""The delta of normal noise, computed from a closed formula."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from flint import arb

from dprelease.numerics.balls import LEAST_FLOAT, ball, float_upper_bound
from dprelease.numerics.normal_tail import ASYMPTOTIC, mills_ratio
from dprelease.privacy.loss import CERTAIN_DELTA_EPSILON, PrivacyLoss, epsilon_lower_bound

# The privacy loss of a mechanism that is only known to be rho-zCDP.

FLOAT_MARGIN = 1.0 + 2.0**-50


@dataclass(frozen=True)
class ConcentratedLoss(PrivacyLoss):
    """A loss whose Rényi divergence D_a is at most a rho for every order a > 1.

    This is Definition 1.1 of Bun and Steinke 2016, arXiv 1605.02065v1. An infinite rho means that
    no bound is known.
    """

    known_rho: float

    @property
    def rho(self) -> float:
        """Return the known rho."""
        return self.known_rho

    @property
    def has_only_renyi(self) -> bool:
        """Return True: only Rényi divergences are known."""
        return True

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return a delta that every rho-zCDP mechanism has at epsilon."""
        from dprelease.privacy.renyi import zcdp_delta  # avoids an import cycle

        # A conversion to the nearest float may round a fraction up. Delta falls with epsilon, so a
        # smaller epsilon is safe.
        return zcdp_delta(self.known_rho, float(epsilon_lower_bound(epsilon)) - 2.0**-40)

    def renyi(self, order: float) -> float:
        """Return order * rho, rounded up, which bounds the divergence."""
        return order * self.known_rho * FLOAT_MARGIN

    def renyi_ratio_bound(self, order: float) -> float:
        """Return the known rho, which bounds D_a / a for every order a."""
        return self.known_rho

    def pieces(self, width: float) -> NoReturn:
        """Raise OverflowError: no privacy-loss distribution is known."""
        raise OverflowError("only Rényi divergences are known")


UNDERFLOW_DEVIATIONS = 39
"""Number of standard deviations at which a normal tail falls below the least float."""


def normal_delta(mu: float, epsilon: float | Fraction) -> float:
    """Return Q(a) - exp(epsilon) Q(a + mu), rounded up, with a = epsilon/mu - mu/2 and mu > 0.

    This is the delta of a normal loss (Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8).
    """
    if epsilon == math.inf:
        return 0.0
    if epsilon < -CERTAIN_DELTA_EPSILON or mu == math.inf:
        return 1.0
    shift, epsilon_below = Fraction(mu), epsilon_lower_bound(epsilon)
    a_exact = epsilon_below / shift - shift / 2
    # The tail Q(39) is below 1e-332, and delta is at most this tail.
    if a_exact > UNDERFLOW_DEVIATIONS:
        return LEAST_FLOAT
    if epsilon_below >= 0 and a_exact < -UNDERFLOW_DEVIATIONS:
        return 1.0

    def delta_interval() -> arb:
        """Return an interval (ball) that contains delta."""
        a = ball(a_exact)
        root = arb(2).sqrt()
        upper_tail = (a / root).erfc() / 2
        # exp(epsilon) times the normal density at a + mu is the normal density at a.
        if a_exact + shift > ASYMPTOTIC:
            density = (-a * a / 2).exp() / (2 * arb.pi()).sqrt()
            return upper_tail - density * mills_ratio(ball(a_exact + shift))
        return upper_tail - ball(epsilon_below).exp() * ((a + ball(shift)) / root).erfc() / 2

    return min(1.0, float_upper_bound(delta_interval))
