"""The privacy loss of symmetric alpha-stable noise, which is bounded but not monotone.

With p the density, x an output and d the shift, both in scales: on x = -y <= 0 the loss is
L(y) = ln p(y) - ln p(y + d); between 0 and d it falls through zero at d / 2; above d it is the
negative of its mirror image. p is symmetric and unimodal, so that L(y) grows with d for every y,
and so does every part of the hockey-stick divergence for epsilon >= 0: a claim for one shift covers
all smaller ones.

L is evaluated in floats with a known error; between two points it is bounded by its curvature:
|L''| <= min(d THIRD, 2 SECOND), with bounds of the second and third derivative of ln p. From
`SETTLED` on ln p is in its power tail, where L falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from dprelease.numerics import stable
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.quadrature import cells_between
from dprelease.privacy.loss import Pieces, PrivacyLoss, renyi_bound

SECOND, THIRD = 16.0, 64.0
"""Bounds of |(ln p)''| and |(ln p)'''| for every alpha; the tests compare on dense grids."""

SETTLED = 30.0
LEAST_SHIFT = 2.0**-12
"""Below this shift the loss uses the slope of ln p, because differences would lose digits."""

LOG_ERROR = 2.0 * stable.RELATIVE_ERROR
"""Error of one difference of two logarithms."""

STEP, FINER, PARTS = 1 / 256, 64, 256
SAFE = 1.0 + 2.0**-36


@lru_cache(maxsize=1024)
def largest_loss(alpha: float, shift: float) -> float:
    """Return an upper bound, within about 1e-7 of it, of the largest loss; shift in scales.

    alpha 1: 2 asinh(shift / 2) (Zawacki and Abed, eq. 73). Otherwise the largest value on a grid,
    refined where the bound between two points exceeds it.
    """
    if alpha == 1.0:
        return 2 * math.asinh(shift / 2) * (1 + 2.0**-50)
    if shift < LEAST_SHIFT:
        # With s the steepest slope of ln p at y0, the mean slope on [y0 - h/2, y0 + h/2] is at
        # least s - THIRD h^2 / 24; and the loss is at most shift times s.
        h = LEAST_SHIFT
        return shift * (largest_loss(alpha, h) / h + THIRD * h * h / 24) * (1 + 2.0**-50)
    y = np.arange(0.0, SETTLED, STEP)
    loss = _on_grid(alpha) - stable.log_pdf(alpha, y + shift)
    doubt = _between(shift, STEP)
    best = float(loss.max())
    near = y[loss >= best - doubt]
    fine = (near[:, None] + STEP / FINER * np.arange(-FINER, FINER + 1)).ravel()
    best = float(_loss(alpha, np.maximum(fine, 0.0), shift).max())
    return (best + _between(shift, STEP / FINER) + LOG_ERROR) * (1 + 2.0**-50)


@lru_cache(maxsize=16)
def _on_grid(alpha: float) -> Floats:
    return stable.log_pdf(alpha, np.arange(0.0, SETTLED, STEP))


def _between(shift: float, step: float) -> float:
    """Return the most by which L may exceed the chord between two points `step` apart."""
    return step * step / 8 * min(shift * THIRD, 2 * SECOND)


def _loss(alpha: float, y: Floats, shift: float) -> Floats:
    return np.asarray(stable.log_pdf(alpha, y) - stable.log_pdf(alpha, y + shift))


@dataclass(frozen=True)
class StableLoss(PrivacyLoss):
    """The loss of stable noise of `alpha` moved by `shift` scales (rounded up)."""

    alpha: float
    shift: float

    @property
    def pure_epsilon(self) -> float:
        """Return an upper bound of the largest loss."""
        return largest_loss(self.alpha, self.shift)

    @cached_property
    def _half(self) -> _Half:
        return _Half.of(self.alpha, self.shift)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return an upper bound of delta; cells whose losses include epsilon are refined.

        For epsilon < 0: 1 - exp(epsilon) + exp(epsilon) delta(-epsilon), as both directions agree.
        """
        if epsilon >= self.pure_epsilon:
            return 0.0
        edge = math.nextafter(float(epsilon), -math.inf)
        if edge < 0:
            rest = self.delta(-edge)
            return min(1.0, (-math.expm1(edge) + math.exp(edge) * rest) * SAFE)
        return min(1.0, self._half.gain(edge))

    def pieces(self, width: float) -> Pieces:
        """Return cells of both halves; ignores `width`, because the cells are narrow enough."""
        half = self._half
        p, q = half.masses
        return Pieces(
            np.concatenate((p, q)),
            np.concatenate((q, p)),
            np.concatenate((half.low, -half.high)),
            np.concatenate((half.high, -half.low)),
        )

    def renyi(self, order: float) -> float:
        """Return an upper bound of the Rényi divergence of an order above 1."""
        return min(self.pure_epsilon, renyi_bound(self.pieces(0.0), order))


@dataclass(frozen=True)
class _Half:
    """Cells [left, right] of outputs x <= shift / 2, where the loss is not negative.

    The first cell reaches to minus infinity. `low` and `high` bound the loss on each cell.
    """

    alpha: float
    shift: float
    left: Floats
    right: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, alpha: float, shift: float) -> _Half:
        """Return the cells for an alpha and a shift."""
        x = _edges(shift)
        loss = np.asarray(stable.log_pdf(alpha, x) - stable.log_pdf(alpha, x - shift))
        left, right = x[:-1], x[1:]
        bent = (left >= -SETTLED) & (right <= 0)
        margin = LOG_ERROR + np.where(bent, 1.0, 0.0) * _between(shift, 1.0) * (right - left) ** 2
        low = np.maximum(np.minimum(loss[:-1], loss[1:]) - margin, 0.0)
        high = np.minimum(np.maximum(loss[:-1], loss[1:]) + margin, largest_loss(alpha, shift))
        # Left of the first edge the loss falls to zero.
        low, high = np.concatenate(([0.0], low)), np.concatenate(([loss[0] + LOG_ERROR], high))
        left, right = np.concatenate(([-np.inf], left)), np.concatenate(([x[0]], right))
        return cls(alpha, shift, left, right, low, high)

    @cached_property
    def masses(self) -> tuple[Floats, Floats]:
        """Return the P and Q probabilities of the cells."""
        return self._masses(self.left, self.right)

    def _masses(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        alpha, shift = self.alpha, self.shift

        def density(x: Floats) -> Floats:
            return stable.pdf(alpha, x.ravel()).reshape(x.shape)

        endless = np.isinf(left)
        start = np.where(endless, right - 1.0, left)
        p = cells_between(start, right, density)
        q = cells_between(start - shift, right - shift, density)
        p[endless] = stable.sf(alpha, -right[endless])
        q[endless] = stable.sf(alpha, shift - right[endless])
        return p, q

    def gain(self, epsilon: float) -> float:
        """Return the integral of p - exp(epsilon) q over the outputs of a loss above epsilon."""
        p, q = self.masses
        above_epsilon = self.low >= epsilon
        total = _gain(p[above_epsilon], q[above_epsilon], epsilon)
        cut = np.flatnonzero((self.high > epsilon) & ~above_epsilon)
        endless = cut[np.isinf(self.left[cut])]
        total += float(np.sum(p[endless] * -np.expm1(epsilon - self.high[endless])))
        return (total + self._cut(cut[~np.isinf(self.left[cut])], epsilon)) * SAFE

    def _cut(self, cells: Integers, epsilon: float) -> float:
        """Return an upper bound of the gain of cells that contain epsilon, by parts."""
        if not len(cells):
            return 0.0
        left, width = self.left[cells, None], (self.right - self.left)[cells, None] / PARTS
        ends = left + width * np.arange(PARTS + 1)
        log_p, log_q = (
            stable.log_pdf(self.alpha, x.ravel()).reshape(ends.shape)
            for x in (ends, ends - self.shift)
        )
        loss = log_p - log_q
        bent = (left >= -SETTLED) & (left < 0)
        high = np.maximum(loss[:, 1:], loss[:, :-1]) + LOG_ERROR
        high = high + np.where(bent, _between(self.shift, 1.0), 0.0) * width**2
        density = np.exp(np.maximum(log_p[:, 1:], log_p[:, :-1]))
        return float(np.sum(density * width * -np.expm1(-np.maximum(high - epsilon, 0.0))))


def _gain(p: Floats, q: Floats, epsilon: float) -> float:
    """Return the sum of p - exp(epsilon) q, plus the digits that the difference may lose."""
    difference = p - math.exp(epsilon) * q
    return float(np.sum(np.maximum(difference, 0.0)) + np.sum(p) * 2.0**-38)


def _edges(shift: float) -> Floats:
    """Return ascending cell edges up to shift / 2: narrow near 0, geometric far out."""
    near = np.arange(0.0, SETTLED, 1 / 64)
    far = np.geomspace(SETTLED, 1e7 * max(1.0, shift), 400)
    outer = -np.concatenate((near, far))[::-1]
    middle = shift / 2
    if middle <= 2 * SETTLED:
        inner = np.linspace(0.0, middle, 2 + int(middle * 64))
    else:
        grown = np.geomspace(SETTLED, middle, 2 + int(64 * math.log(middle / SETTLED)))
        inner = np.concatenate((near, grown))
    return np.concatenate((outer, inner[1:]))
