"""The privacy loss of symmetric alpha-stable noise, which is bounded but not monotone.

With p the density, x an output and d the shift, both in scales: on x = -y <= 0 the loss is
L(y) = ln p(y) - ln p(y + d); between 0 and d it falls through zero at d / 2; above d it is the
negative of its mirror image. p is symmetric and unimodal, so that L(y) grows with d for every y,
and so does every part of the hockey-stick divergence for epsilon >= 0: a claim for one shift covers
all smaller ones.

L is evaluated in floats with a known error; between two points it is bounded by its curvature:
|L''| <= min(d THIRD, 2 SECOND), with bounds of the second and third derivative of ln p. From
`TAIL_START` on ln p is in its power tail, where L falls.
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

SECOND_DERIVATIVE, THIRD_DERIVATIVE = 16.0, 64.0
"""Bounds of |(ln p)''| and |(ln p)'''| for every alpha, which tests compare on dense grids."""

TAIL_START = 30.0
LEAST_SHIFT = 2.0**-12
"""Below this shift the loss uses the slope of ln p, because differences would lose digits."""

LOG_ERROR = 2.0 * stable.RELATIVE_ERROR
"""Error of one difference of two logarithms."""

STEP, FINE_STEPS, CELL_PARTS = 1 / 256, 64, 256
FLOAT_MARGIN = 1.0 + 2.0**-36


@lru_cache(maxsize=1024)
def largest_loss(alpha: float, shift: float) -> float:
    """Return an upper bound of the largest loss, about 1e-7 above it; `shift` is in scales.

    For alpha 1 the largest loss is 2 asinh(shift / 2) (Zawacki and Abed, eq. 73). For other alphas,
    the bound is the largest value on a grid, refined near its maximum, plus the largest possible
    excess between two points.
    """
    if alpha == 1.0:
        return 2 * math.asinh(shift / 2) * (1 + 2.0**-50)
    if shift < LEAST_SHIFT:
        # If s is the steepest slope of ln p, at y0, the mean slope on [y0 - h/2, y0 + h/2] is at
        # least s - THIRD_DERIVATIVE h^2 / 24, and the loss is at most shift times s.
        h = LEAST_SHIFT
        return shift * (largest_loss(alpha, h) / h + THIRD_DERIVATIVE * h * h / 24) * (1 + 2.0**-50)
    y = np.arange(0.0, TAIL_START, STEP)
    loss = _grid_log_density(alpha) - stable.log_pdf(alpha, y + shift)
    chord_error = _chord_error(shift, STEP)
    best = float(loss.max())
    near_maximum = y[loss >= best - chord_error]
    fine = (
        near_maximum[:, None] + STEP / FINE_STEPS * np.arange(-FINE_STEPS, FINE_STEPS + 1)
    ).ravel()
    best = float(_loss(alpha, np.maximum(fine, 0.0), shift).max())
    return (best + _chord_error(shift, STEP / FINE_STEPS) + LOG_ERROR) * (1 + 2.0**-50)


@lru_cache(maxsize=16)
def _grid_log_density(alpha: float) -> Floats:
    return stable.log_pdf(alpha, np.arange(0.0, TAIL_START, STEP))


def _chord_error(shift: float, step: float) -> float:
    """Return the largest excess of L over the chord between two points at a distance of `step`."""
    return step * step / 8 * min(shift * THIRD_DERIVATIVE, 2 * SECOND_DERIVATIVE)


def _loss(alpha: float, y: Floats, shift: float) -> Floats:
    return np.asarray(stable.log_pdf(alpha, y) - stable.log_pdf(alpha, y + shift))


@dataclass(frozen=True)
class StableLoss(PrivacyLoss):
    """The loss of stable noise of `alpha` that moves by `shift` scales (rounded up)."""

    alpha: float
    shift: float

    @property
    def pure_epsilon(self) -> float:
        """Return an upper bound of the largest loss."""
        return largest_loss(self.alpha, self.shift)

    @cached_property
    def _half(self) -> _PositiveHalf:
        return _PositiveHalf.of(self.alpha, self.shift)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return an upper bound of delta, with finer cells where losses are near epsilon.

        For epsilon < 0 it is 1 - exp(epsilon) + exp(epsilon) delta(-epsilon), because both
        directions of the shift have the same curve.
        """
        if epsilon >= self.pure_epsilon:
            return 0.0
        edge = math.nextafter(float(epsilon), -math.inf)
        if edge < 0:
            rest = self.delta(-edge)
            return min(1.0, (-math.expm1(edge) + math.exp(edge) * rest) * FLOAT_MARGIN)
        return min(1.0, self._half.gain(edge))

    def pieces(self, width: float) -> Pieces:
        """Return the cells of both halves, which are narrow enough for every `width`."""
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
class _PositiveHalf:
    """Cells [left, right] that cover the outputs x <= shift / 2, where the loss is not negative.

    The first cell extends to minus infinity. `low` and `high` bound the loss on each cell.
    """

    alpha: float
    shift: float
    left: Floats
    right: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, alpha: float, shift: float) -> _PositiveHalf:
        """Return the cells for an alpha and a shift."""
        x = _cell_edges(shift)
        loss = np.asarray(stable.log_pdf(alpha, x) - stable.log_pdf(alpha, x - shift))
        left, right = x[:-1], x[1:]
        may_curve = (left >= -TAIL_START) & (right <= 0)
        margin = (
            LOG_ERROR
            + np.where(may_curve, 1.0, 0.0) * _chord_error(shift, 1.0) * (right - left) ** 2
        )
        low = np.maximum(np.minimum(loss[:-1], loss[1:]) - margin, 0.0)
        high = np.minimum(np.maximum(loss[:-1], loss[1:]) + margin, largest_loss(alpha, shift))
        # Below the first edge, the loss falls to zero.
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

        is_unbounded = np.isinf(left)
        start = np.where(is_unbounded, right - 1.0, left)
        p = cells_between(start, right, density)
        q = cells_between(start - shift, right - shift, density)
        p[is_unbounded] = stable.sf(alpha, -right[is_unbounded])
        q[is_unbounded] = stable.sf(alpha, shift - right[is_unbounded])
        return p, q

    def gain(self, epsilon: float) -> float:
        """Return the integral of p - exp(epsilon) q over all outputs with a loss above epsilon."""
        p, q = self.masses
        above_epsilon = self.low >= epsilon
        total = _sum_of_gains(p[above_epsilon], q[above_epsilon], epsilon)
        cut_cells = np.flatnonzero((self.high > epsilon) & ~above_epsilon)
        is_unbounded = cut_cells[np.isinf(self.left[cut_cells])]
        total += float(np.sum(p[is_unbounded] * -np.expm1(epsilon - self.high[is_unbounded])))
        return (
            total + self._gain_of_cut_cells(cut_cells[~np.isinf(self.left[cut_cells])], epsilon)
        ) * FLOAT_MARGIN

    def _gain_of_cut_cells(self, cells: Integers, epsilon: float) -> float:
        """Return an upper bound of the gain of cells with losses on both sides of epsilon.

        Each cell is divided into `CELL_PARTS` parts.
        """
        if not len(cells):
            return 0.0
        left, width = self.left[cells, None], (self.right - self.left)[cells, None] / CELL_PARTS
        ends = left + width * np.arange(CELL_PARTS + 1)
        log_p, log_q = (
            stable.log_pdf(self.alpha, x.ravel()).reshape(ends.shape)
            for x in (ends, ends - self.shift)
        )
        loss = log_p - log_q
        may_curve = (left >= -TAIL_START) & (left < 0)
        high = np.maximum(loss[:, 1:], loss[:, :-1]) + LOG_ERROR
        high = high + np.where(may_curve, _chord_error(self.shift, 1.0), 0.0) * width**2
        density = np.exp(np.maximum(log_p[:, 1:], log_p[:, :-1]))
        return float(np.sum(density * width * -np.expm1(-np.maximum(high - epsilon, 0.0))))


def _sum_of_gains(p: Floats, q: Floats, epsilon: float) -> float:
    """Return the sum of p - exp(epsilon) q, plus a bound of the rounding error of differences."""
    difference = p - math.exp(epsilon) * q
    return float(np.sum(np.maximum(difference, 0.0)) + np.sum(p) * 2.0**-38)


def _cell_edges(shift: float) -> Floats:
    """Return sorted cell edges up to shift / 2, at equal distances near 0, geometric far out."""
    near_maximum = np.arange(0.0, TAIL_START, 1 / 64)
    far = np.geomspace(TAIL_START, 1e7 * max(1.0, shift), 400)
    outer = -np.concatenate((near_maximum, far))[::-1]
    middle = shift / 2
    if middle <= 2 * TAIL_START:
        inner = np.linspace(0.0, middle, 2 + int(middle * 64))
    else:
        grown = np.geomspace(TAIL_START, middle, 2 + int(64 * math.log(middle / TAIL_START)))
        inner = np.concatenate((near_maximum, grown))
    return np.concatenate((outer, inner[1:]))
