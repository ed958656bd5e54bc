"""Base classes for the privacy loss of one noisy cell that moves by whole lattice steps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RELATIVE_ERROR = 2.0**-30
"""Bound on the relative error of every probability in `Pieces`, and of a likelihood ratio."""

CERTAIN_DELTA_EPSILON = 1000
"""For an epsilon below minus this number, delta rounds to 1."""

LARGEST_LOSS = 600.0
"""Larger losses count as infinite, so that exp(loss) is a finite float."""


def strictly_below(epsilon: float | Fraction) -> Fraction:
    """Return a number below every decimal that Python would read as the float `epsilon`.

    Delta falls as epsilon grows, so delta at this number bounds delta at the declared decimal. A
    Fraction is exact, and is returned unchanged.
    """
    if isinstance(epsilon, Fraction):
        return epsilon
    return Fraction(math.nextafter(epsilon, -math.inf))


@dataclass(frozen=True, slots=True)
class Pieces:
    """A partition of the outputs into n pieces, as four arrays (n,).

    `p` and `q` are the probabilities of the pieces under P and Q, with relative errors of at most
    `RELATIVE_ERROR`. Every loss ln(P/Q) on a piece lies between `low` and `high`, up to
    `RELATIVE_ERROR`. Both bounds may be infinite.
    """

    p: Floats
    q: Floats
    low: Floats
    high: Floats


class PrivacyLoss(ABC):
    """The loss `ln P(o)/Q(o)` of an output o, for the distributions P and Q of two neighbours.

    P is the distribution without the shift, and Q the distribution moved by `shift` steps. For
    symmetric noise, both directions of the shift, and both orders of P and Q, have the same curve.
    The default properties of this class are valid for every loss.
    """

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss, rounded up; infinity if losses have no bound."""
        return math.inf

    @property
    def normal_mu(self) -> float | None:
        """Return mu if the loss is exactly normal, N(mu^2/2, mu^2) under P; else None."""
        return None

    @property
    def rho(self) -> float | None:
        """Return the rho of zCDP, rounded up, if a closed form bounds D_a / a; else None."""
        return None

    @property
    def by_curve(self) -> bool:
        """Return whether only the Rényi divergences of the loss are known, not its distribution."""
        return False

    @property
    def span(self) -> float:
        """Return a number s such that losses above s, and below -s, have P probabilities < 1e-40.

        Outputs that only one of the two neighbours can have are excluded: their losses are
        infinite.
        """
        return self.pure_epsilon

    @property
    def infinity_mass(self) -> float:
        """Return the probability of outputs with an infinite loss, rounded up."""
        return 0.0

    def delta(self, epsilon: float | Fraction) -> float:
        """Return an upper bound of sup over events E of P(E) - exp(epsilon) Q(E).

        The bound is zero only if the true value is zero. A float `epsilon` stands for every decimal
        that Python would read as this float; a Fraction is exact. `epsilon` may be any real number
        or infinity.

        Raises
        ------
        ValueError
            For a NaN.
        """
        if isinstance(epsilon, float) and math.isnan(epsilon):
            raise ValueError("epsilon is not a number")
        if epsilon == math.inf:
            return self.infinity_mass
        # Delta is at least 1 - exp(epsilon), which rounds to 1 for such an epsilon.
        return 1.0 if epsilon < -CERTAIN_DELTA_EPSILON else self._delta(epsilon)

    @abstractmethod
    def _delta(self, epsilon: float | Fraction) -> float:
        """Return the result of `delta` for a finite epsilon that is not far below 0."""

    @abstractmethod
    def renyi(self, order: float) -> float:
        """Return an upper bound of the Rényi divergence of an order above 1, perhaps infinite."""

    def concentration_beyond(self, order: float) -> float:
        """Return a bound of D_a / a for every order a >= `order`; infinity if no bound is known.

        The default bound follows from the largest loss, which no divergence exceeds.
        """
        return self.pure_epsilon / order * (1.0 + 2.0**-50)

    @abstractmethod
    def pieces(self, width: float) -> Pieces:
        """Return pieces on which losses differ by at most about `width`, except in far tails."""


class MonotoneLoss(PrivacyLoss):
    """A loss for which the probabilities of intervals of losses are known."""

    @abstractmethod
    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the P probability and the Q probability of each interval of losses.

        `edges` (n,) are the sorted ends e0, e1, ... of intervals. The result is two arrays
        (n + 1,), for losses in (-inf, e0], (e0, e1], ..., (e_{n-1}, inf), with relative errors of
        at most `RELATIVE_ERROR`.
        """

    def pieces(self, width: float) -> Pieces:
        """Return the intervals between multiples of `width`, and the two tails."""
        last_multiple = int(min(math.ceil(self.span / width) + 1, LARGEST_LOSS / width))
        edges: Floats = np.arange(-last_multiple, last_multiple + 1, dtype=np.float64)
        edges *= width
        p, q = self.masses(edges)
        ends = np.concatenate(([-np.inf], edges, [np.inf]))
        return Pieces(p, q, ends[:-1], ends[1:])


def renyi_bound(pieces: Pieces, order: float) -> float:
    """Return an upper bound of the Rényi divergence of an order above 1, from pieces.

    On a piece, (P/Q)^(order - 1) is a convex function of Q/P, whose mean under P is q / p, so the
    chord between the two ends of the piece bounds its mean. The result is infinite if P has a
    positive probability of an infinite loss.
    """
    power = order - 1.0
    positive = pieces.p > 0
    p, q, low, high = (x[positive] for x in (pieces.p, pieces.q, pieces.low, pieces.high))
    if np.isinf(high).any():
        return math.inf
    low = np.maximum(low, -LARGEST_LOSS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        part = (np.exp(-low) - q / p) / (np.exp(-low) - np.exp(-high))
    part = np.clip(np.nan_to_num(part, nan=1.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    top = float(np.max(high))
    terms = p * ((1 - part) * np.exp(power * (low - top)) + part * np.exp(power * (high - top)))
    total = float(np.sum(terms)) * (1.0 + 4 * RELATIVE_ERROR)
    return max(0.0, power * top + math.log(total)) / power + 4 * RELATIVE_ERROR
