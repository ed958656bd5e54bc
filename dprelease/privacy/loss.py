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

SURELY = 1000
"""For epsilon below minus this number, 1 - delta is below the least float."""

LARGEST_LOSS = 600.0
"""Larger losses count as infinite, so that exp(loss) is a finite float."""


def strictly_below(epsilon: float | Fraction) -> Fraction:
    """Return a number that is below every decimal that reads to the float `epsilon`.

    Delta falls with epsilon, so delta at this number bounds delta at whatever decimal was declared.
    A Fraction is exact and is returned unchanged.
    """
    if isinstance(epsilon, Fraction):
        return epsilon
    return Fraction(math.nextafter(epsilon, -math.inf))


@dataclass(frozen=True, slots=True)
class Pieces:
    """A partition of the outputs into pieces; four arrays (n,).

    `p`, `q`: their probabilities under P and Q, with a relative error of at most `RELATIVE_ERROR`.
    `low`, `high`: every loss ln(P/Q) on the piece lies between them, up to `RELATIVE_ERROR`; they
    may be infinite.
    """

    p: Floats
    q: Floats
    low: Floats
    high: Floats


class PrivacyLoss(ABC):
    """The loss `ln P(o)/Q(o)` of an output o, P and Q the distributions for two neighbours.

    P is the distribution without the shift, Q the distribution moved by `shift` steps. For
    symmetric noise both directions of the shift, and both orders of P and Q, have the same curve.
    Defaults hold for all losses: no bound, not normal, no closed form.
    """

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss, rounded up; infinity if it has no bound."""
        return math.inf

    @property
    def normal_mu(self) -> float | None:
        """Return mu if the loss is exactly normal, N(mu^2/2, mu^2) under P; else None."""
        return None

    @property
    def rho(self) -> float | None:
        """Return the zero-concentrated guarantee, rounded up, if a closed form bounds D_a / a."""
        return None

    @property
    def by_curve(self) -> bool:
        """Return whether only its Rényi divergences are known."""
        return False

    @property
    def span(self) -> float:
        """Return a loss above which, on either side, P has a probability below 1e-40.

        Infinite losses, of outputs that only one of two neighbours can have, don't count.
        """
        return self.pure_epsilon

    @property
    def infinity_mass(self) -> float:
        """Return the probability of outputs with an infinite loss, rounded up."""
        return 0.0

    def delta(self, epsilon: float | Fraction) -> float:
        """Return an upper bound of sup over events E of P(E) - exp(epsilon) Q(E).

        Zero only where the true value is zero. A float epsilon stands for every decimal that reads
        to it, a Fraction for itself. `epsilon` may be any real number or infinity.

        Raises
        ------
        ValueError
            For a NaN.
        """
        if isinstance(epsilon, float) and math.isnan(epsilon):
            raise ValueError("epsilon is not a number")
        if epsilon == math.inf:
            return self.infinity_mass
        # Delta is at least 1 - exp(epsilon), which rounds to 1.
        return 1.0 if epsilon < -SURELY else self._delta(epsilon)

    @abstractmethod
    def _delta(self, epsilon: float | Fraction) -> float:
        """Return `delta` for a finite epsilon that is not far below 0."""

    @abstractmethod
    def renyi(self, order: float) -> float:
        """Return an upper bound of the Rényi divergence of an order above 1; it may be infinite."""

    def concentration_beyond(self, order: float) -> float:
        """Return a bound of D_a / a for every a >= `order`; infinity if none is known.

        By default it follows from the largest loss, which no divergence exceeds.
        """
        return self.pure_epsilon / order * (1.0 + 2.0**-50)

    @abstractmethod
    def pieces(self, width: float) -> Pieces:
        """Return pieces whose losses differ by about `width` or less, except in far tails."""


class MonotoneLoss(PrivacyLoss):
    """A loss with known probabilities of intervals of losses, which are its pieces."""

    @abstractmethod
    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the P probability and the Q probability of each interval of losses.

        `edges` (n,) ascending. Result: two arrays (n + 1,): losses in (-inf, e0], (e0, e1], ...,
        (e_{n-1}, inf), each with a relative error of at most `RELATIVE_ERROR`.
        """

    def pieces(self, width: float) -> Pieces:
        """Return the intervals between multiples of `width`, and the two tails."""
        reach = int(min(math.ceil(self.span / width) + 1, LARGEST_LOSS / width))
        edges: Floats = np.arange(-reach, reach + 1, dtype=np.float64)
        edges *= width
        p, q = self.masses(edges)
        ends = np.concatenate(([-np.inf], edges, [np.inf]))
        return Pieces(p, q, ends[:-1], ends[1:])


def renyi_bound(pieces: Pieces, order: float) -> float:
    """Return an upper bound of the Rényi divergence of an order above 1, from pieces.

    On a piece, (P/Q)^(order - 1) is convex in Q/P, whose mean under P is q / p: the chord between
    the piece's two ends lies above. Infinity if P has a positive probability of an infinite loss.
    """
    a = order - 1.0
    positive = pieces.p > 0
    p, q, low, high = (x[positive] for x in (pieces.p, pieces.q, pieces.low, pieces.high))
    if np.isinf(high).any():
        return math.inf
    low = np.maximum(low, -LARGEST_LOSS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (np.exp(-low) - q / p) / (np.exp(-low) - np.exp(-high))
    share = np.clip(np.nan_to_num(share, nan=1.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    top = float(np.max(high))
    terms = p * ((1 - share) * np.exp(a * (low - top)) + share * np.exp(a * (high - top)))
    total = float(np.sum(terms)) * (1.0 + 4 * RELATIVE_ERROR)
    return max(0.0, a * top + math.log(total)) / a + 4 * RELATIVE_ERROR
