"""The privacy loss of a mechanism that is only known to be rho-zCDP."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from dprelease.privacy.loss import PrivacyLoss, epsilon_lower_bound

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
