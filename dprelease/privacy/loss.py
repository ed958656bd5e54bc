"""Base classes for the privacy loss of one noisy cell whose true value moves by whole steps."""

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
"""Number x for which delta rounds to 1 at every epsilon below -x."""

LARGEST_LOSS = 600.0
"""Loss above which losses count as infinite, so that exp(loss) is a finite float."""


def epsilon_lower_bound(epsilon: float | Fraction) -> Fraction:
    """Return a number below every decimal that Python would read as the float `epsilon`.

    Delta falls as epsilon grows, so delta at this number bounds delta at the declared decimal. If
    epsilon is a Fraction, it is exact, and the result is this Fraction.
    """
    if isinstance(epsilon, Fraction):
        return epsilon
    # The nearest float may lie above the declared decimal, by less than one float.
    return Fraction(math.nextafter(epsilon, -math.inf))


@dataclass(frozen=True, slots=True)
class Pieces:
    """A partition of all outputs into n sets, called pieces, as four arrays (n,).

    `p` and `q` are the probabilities of the pieces under P and Q, with relative errors of at most
    `RELATIVE_ERROR`. The losses ln(P/Q) of all outputs in a piece lie between `low` and `high`, up
    to `RELATIVE_ERROR`. Both bounds may be infinite.
    """

    p: Floats
    q: Floats
    low: Floats
    high: Floats


class PrivacyLoss(ABC):
    """The loss ln(P(o) / Q(o)) of an output o, for its distributions P and Q at two neighbours.

    P is the distribution without the shift, and Q is P moved by `shift` steps. For symmetric noise,
    both directions of the shift, and both orders of P and Q, have the same curve delta(epsilon).
    The default properties of this class are valid for every loss.
    """

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss, rounded up, or infinity if losses have no bound."""
        return math.inf

    @property
    def normal_mu(self) -> float | None:
        """Return mu if the loss has exactly the distribution N(mu^2/2, mu^2) under P, else None."""
        return None

    @property
    def rho(self) -> float | None:
        """Return the rho of zCDP, rounded up, or None if no closed formula is known.

        The rho bounds D_a / a for every order a, where D_a is the Rényi divergence of order a.
        """
        return None

    @property
    def exempt_probability(self) -> Fraction:
        """Return the probability of outputs that approximate zCDP leaves out, as a delta.

        The other outputs have the loss `without_exempt_outputs`. So the cell is delta-approximately
        rho-zCDP with this delta and the rho of that loss (Bun and Steinke 2016, arXiv 1605.02065v1,
        Definition 8.1).
        """
        return Fraction(0)

    @property
    def without_exempt_outputs(self) -> PrivacyLoss:
        """Return the loss of the outputs that `exempt_probability` does not leave out."""
        return self

    @property
    def has_only_renyi(self) -> bool:
        """Return whether only the Rényi divergences of the loss are known, not its distribution."""
        return False

    @property
    def largest_relevant_loss(self) -> float:
        """Return a number s such that losses above s, and losses below -s, are negligible.

        Each of both tails has a probability below 1e-40 under P. Infinite losses, of outputs that
        only one of the two neighbours can have, do not count.
        """
        return self.pure_epsilon

    @property
    def infinite_loss_probability(self) -> float:
        """Return the probability of outputs with an infinite loss, rounded up."""
        return 0.0

    def delta(self, epsilon: float | Fraction) -> float:
        """Return an upper bound of delta(epsilon) = sup over events E of P(E) - exp(epsilon) Q(E).

        The bound is zero only if the true value is zero. A float `epsilon` stands for every decimal
        that Python would read as this float, and a Fraction is exact. `epsilon` may be any real
        number or infinity.

        Raises ValueError if epsilon is NaN.
        """
        if isinstance(epsilon, float) and math.isnan(epsilon):
            raise ValueError("epsilon is not a number")
        if epsilon == math.inf:
            return self.infinite_loss_probability
        # Delta is at least 1 - exp(epsilon), which rounds to 1 for such an epsilon.
        return 1.0 if epsilon < -CERTAIN_DELTA_EPSILON else self._delta(epsilon)

    @abstractmethod
    def _delta(self, epsilon: float | Fraction) -> float:
        """Return the result of `delta` for a finite epsilon of at least -CERTAIN_DELTA_EPSILON."""

    @abstractmethod
    def renyi(self, order: float) -> float:
        """Return an upper bound of the Rényi divergence of an order above 1.

        The bound may be infinite.
        """

    def renyi_ratio_bound(self, order: float) -> float:
        """Return a bound of D_a / a for every order a >= `order`, or infinity if none is known.

        D_a is the Rényi divergence of order a. The default bound follows from the largest loss,
        which no divergence exceeds.
        """
        # It falls with the order, so its value at `order` bounds all higher orders.
        return self.pure_epsilon / order * (1.0 + 2.0**-50)

    @abstractmethod
    def pieces(self, width: float) -> Pieces:
        """Return pieces whose outputs have losses within about `width`, except in far tails."""


class MonotoneLoss(PrivacyLoss):
    """A loss for which the probabilities of intervals of losses are known."""

    @abstractmethod
    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the P probability and the Q probability of each interval of losses.

        `edges` (n,) are the sorted ends e0, e1, ... of intervals. The result is two arrays
        (n + 1,), for losses in (-inf, e0], (e0, e1], ..., (e_{n-1}, inf), with relative errors of
        at most `RELATIVE_ERROR`.
        """

    def pieces(self, width: float) -> Pieces:
        """Return one piece for each interval between multiples of `width`, and for both tails."""
        last_multiple = int(
            min(math.ceil(self.largest_relevant_loss / width) + 1, LARGEST_LOSS / width)
        )
        edges: Floats = np.arange(-last_multiple, last_multiple + 1, dtype=np.float64)
        edges *= width
        p, q = self.interval_probabilities(edges)
        ends = np.concatenate(([-np.inf], edges, [np.inf]))
        return Pieces(p, q, ends[:-1], ends[1:])


def renyi_bound(pieces: Pieces, order: float) -> float:
    """Return an upper bound of the Rényi divergence of an order above 1, from pieces.

    On a piece, (P/Q)^(order - 1) is a convex function of Q/P. The mean of Q/P under P is q / p, so
    the chord between the two ends of the piece bounds the mean of the function. The result is
    infinite if an infinite loss has a positive probability under P.
    """
    power = order - 1.0
    positive = pieces.p > 0
    p, q, low, high = (x[positive] for x in (pieces.p, pieces.q, pieces.low, pieces.high))
    if np.isinf(high).any():
        return math.inf
    # A larger loss is assumed than these outputs have, which does not lower the result. The ends
    # are moved outwards by twice their error, and q / p downwards by twice its error. Both raise
    # the chord's value, also where almost all probability of a piece is at one end; what is left
    # covers the rounding of the numerator below.
    low, high = np.maximum(low, -LARGEST_LOSS) - 2 * RELATIVE_ERROR, high + 2 * RELATIVE_ERROR
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = q / p * (1.0 - 4 * RELATIVE_ERROR)
        part = (np.exp(-low) - mean) / (np.exp(-low) - np.exp(-high))
    part = np.clip(np.nan_to_num(part, nan=1.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    top = float(np.max(high))
    # Divided by the largest of them, so that no term overflows at an order of 1e6.
    terms = p * ((1 - part) * np.exp(power * (low - top)) + part * np.exp(power * (high - top)))
    # Covers the error of p, and the rounding of the divisor: a part of 2^-52 / width of `part`,
    # which changes the mean by at most a part of 2^-52 / width * min(1, 2 (order - 1) width). That
    # is below 2^-31 for orders up to 2^20.
    total = float(np.sum(terms)) * (1.0 + 4 * RELATIVE_ERROR)
    return max(0.0, power * top + math.log(total)) / power + RELATIVE_ERROR
