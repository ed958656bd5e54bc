"""The privacy loss of a mechanism that is only known to be rho-zCDP."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from dprelease.privacy.loss import PrivacyLoss, strictly_below

FLOAT_MARGIN = 1.0 + 2.0**-50


@dataclass(frozen=True)
class ConcentratedLoss(PrivacyLoss):
    """A loss with D_a <= a rho for every order a > 1; an infinite rho stands for no bound.

    The definition is Bun and Steinke 2016, arXiv 1605.02065v1, Definition 1.1.
    """

    known_rho: float

    @property
    def rho(self) -> float:
        """Return rho."""
        return self.known_rho

    @property
    def by_curve(self) -> bool:
        """Return True: only Rényi divergences are known."""
        return True

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return the delta of rho-zCDP at epsilon."""
        from dprelease.privacy.renyi import zcdp_delta  # avoids an import cycle

        return zcdp_delta(self.known_rho, float(strictly_below(epsilon)) - 2.0**-40)

    def renyi(self, order: float) -> float:
        """Return order * rho, rounded up."""
        return order * self.known_rho * FLOAT_MARGIN

    def concentration_beyond(self, order: float) -> float:
        """Return rho."""
        return self.known_rho

    def pieces(self, width: float) -> NoReturn:
        """Raise OverflowError: no privacy-loss distribution is known."""
        raise OverflowError("only Rényi divergences are known")
