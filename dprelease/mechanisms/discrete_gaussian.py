"""Discrete Gaussian mechanism.

Release    q + K, P(K = k) proportional to exp(-k^2 / (2 scale^2)), independently for every cell.
Guarantee  The curve delta(epsilon) of the integers themselves; also (D / scale)^2 / 2 - zCDP.
Source     Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5, Theorems 4 and 7.
Units      q, K and scale in lattice steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.base import QUANTILE_ERROR, Symmetric, certain
from dprelease.mechanisms.gaussian import FAR, normal_mass
from dprelease.numerics import theta
from dprelease.numerics.balls import LEAST_FLOAT, ball, least_above
from dprelease.numerics.lattice import Flags, Integers
from dprelease.privacy.loss import Floats, MonotoneLoss, below

BEYOND_FLOATS = 39.0
"""Scales beyond which a tail is below the least float; the law is sub-Gaussian (ibid.)."""

TABLE_ERROR = 2.0**-36
"""Bound on the relative error of a tabulated tail, with the width of one word's interval."""


@dataclass(frozen=True)
class DiscreteGaussian(Symmetric):
    """Noise on the integers, proportional to exp(-k^2 / (2 scale^2))."""

    name: ClassVar[str] = "discrete_gaussian"
    summary: ClassVar[str] = "Gaussian noise on the integers; approximate, thin tails"
    use: ClassVar[str] = "many answers under an (epsilon, delta) budget: the plain choice"
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 2

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return the largest k with u < P(K >= k), from a table or from the normal quantile."""
        if self.scale >= theta.TABLE_BELOW:
            # |next Euler-Maclaurin term| < 8 / scale^3 steps for tails above 2**-20.
            error = self.scale * QUANTILE_ERROR + 8.0 * self.scale**-3
            return certain(theta.large_scale_quantile(self.scale, u), error)
        tails = theta.tails(self.scale)
        ascending = tails[::-1]
        k = len(tails) - 1 - np.searchsorted(ascending, u, side="right")
        at, beyond = tails[k], tails[np.minimum(k + 1, len(tails) - 1)]
        sure = (u < at * (1 - TABLE_ERROR)) & (u > beyond * (1 + TABLE_ERROR))
        return k.astype(np.float64), sure

    def upper_tail(self, k: int) -> arb:
        """Return the sum of the weights from k on over the sum of all."""
        return theta.upper_tail(self.scale, k)

    def losses(self, shift: int) -> tuple[SmallLoss | LargeLoss, ...]:
        """Return the exact loss, from the weights or, at large scales, from their sums."""
        kind = SmallLoss if self.scale < theta.TABLE_BELOW else LargeLoss
        return (kind(self.scale, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum of |k| P(K = k); the Euler-Maclaurin value at large scales."""
        if self.scale >= theta.TABLE_BELOW:
            return self.scale * math.sqrt(2 / math.pi) - 1 / (
                6 * self.scale * math.sqrt(2 * math.pi)
            )
        mass = theta.weights(self.scale)
        return 2 * float(np.sum(np.arange(len(mass)) * mass))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum of k^2 P(K = k), which is at most scale."""
        if self.scale >= theta.TABLE_BELOW:
            return self.scale
        mass = theta.weights(self.scale)
        return math.sqrt(2 * float(np.sum(np.arange(len(mass)) ** 2.0 * mass)))


@dataclass(frozen=True)
class _Loss(MonotoneLoss):
    """The loss at k is shift (shift - 2k) / (2 scale^2)."""

    scale: float
    shift: int

    @property
    def pure_epsilon(self) -> float:
        """Return infinity."""
        return math.inf

    @property
    def normal_mu(self) -> None:
        """Return None: the loss lives on a lattice."""
        return None

    @property
    def span(self) -> float:
        """Return the loss at 13.5 scales, and at a step beyond: no more than 1e-40 lies there."""
        mu = self.shift / self.scale
        return mu**2 / 2 + (FAR + 1.0 / self.scale) * mu

    def delta(self, epsilon: float | Fraction) -> float:
        """Return P(K >= low) - exp(epsilon) P(K >= low + shift), rounded up: Theorem 7."""
        law, edge = DiscreteGaussian(self.scale), below(epsilon)
        cut = edge * Fraction(self.scale) ** 2 / self.shift - Fraction(self.shift, 2)
        low = math.floor(cut) + 1
        far = low / self.scale
        if far > BEYOND_FLOATS:  # P(K >= low) <= exp(-far^2 / 2)
            return LEAST_FLOAT

        def value() -> arb:
            return law.tail(low, True) - ball(edge).exp() * law.tail(low + self.shift, True)

        return min(1.0, least_above(value, 96 + int(0.75 * max(far, 0.0) ** 2)))

    def _first_at_most(self, edges: Floats) -> Floats:
        """Return the least k whose loss is at most each edge."""
        cut = self.shift / 2 - self.scale * (self.scale / self.shift) * edges
        return np.ceil(cut)


class SmallLoss(_Loss):
    """The loss at scales below 1024: every integer is an atom."""

    def _atoms(self) -> tuple[Floats, Floats, Floats]:
        """Return loss, P mass and Q mass of the integers where either is above 1e-365."""
        mass = theta.weights(self.scale)
        reach = len(mass) - 1
        k = np.arange(-reach, reach + min(self.shift, 2 * reach) + 1, dtype=np.int64)
        if self.shift > 2 * reach:  # nothing lies between the two laws
            k = np.concatenate((k[: 2 * reach + 1], k[: 2 * reach + 1] + self.shift))
        p = np.where(np.abs(k) <= reach, mass[np.minimum(np.abs(k), reach)], 0.0)
        away = np.abs(k - self.shift)
        q = np.where(away <= reach, mass[np.minimum(away, reach)], 0.0)
        loss = (self.shift * (self.shift - 2.0 * k) / (2.0 * self.scale**2)).astype(np.float64)
        return loss, p, q

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the atoms' masses, added up by interval."""
        loss, p, q = self._atoms()
        place = np.searchsorted(edges, loss)
        bins = len(edges) + 1
        return _added(place, p, bins), _added(place, q, bins)


def _added(place: Integers, mass: Floats, bins: int) -> Floats:
    return np.bincount(place, mass, bins).astype(np.float64)


class LargeLoss(_Loss):
    """The loss at scales of 1024 and more: sums of atoms by the Euler-Maclaurin formula."""

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return masses of ranges of integers: normal masses with the first correction."""
        ends = np.concatenate(([np.inf], self._first_at_most(edges), [-np.inf]))
        return self._between(ends), self._between(ends - self.shift)

    def _between(self, ends: Floats) -> Floats:
        """Return P(ends[i + 1] <= K < ends[i]), ends descending."""
        a = (ends - 0.5) / self.scale
        with np.errstate(invalid="ignore"):
            slope = np.where(np.isfinite(a), a * np.exp(-(a**2) / 2), 0.0) / math.sqrt(2 * math.pi)
        correction = (slope[:-1] - slope[1:]) / (24.0 * self.scale**2)
        return np.maximum(normal_mass(a[1:], a[:-1]) + correction, 0.0)


MECHANISM = DiscreteGaussian
