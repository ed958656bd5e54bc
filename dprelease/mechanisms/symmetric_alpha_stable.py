"""Symmetric alpha-stable mechanism, rounded to the lattice.

Release    q + round(Y), Y with characteristic function exp(-|scale t|^alpha), drawn independently
           for every cell.
Guarantee  Pure: one cell that moves by at most D steps loses at most the largest value over x of ln
           p(x - D / scale) / p(x), which depends on D / scale alone; rounding is post-processing.
           Approximate and Renyi guarantees use the full privacy-loss distribution.
Source     Zawacki and Abed, "The symmetric alpha-stable privacy mechanism": Theorems 21 and 24;
           eq. (73) at alpha 1. Its eq. (25) lacks 1/k! in its terms, and Corollary 27's limit is
           2 ln(D / scale).
Sums       Unrounded noise is closed under convolution: n parties that each add scale n^(-1/alpha)
           make the declared noise together; `privacy/rounded_shares.py` bounds the cost of
           rounding.
Units      q, Y and scale in lattice steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from flint import arb, ctx

from dprelease.mechanisms.base import SymmetricQuantile, rounded_up
from dprelease.mechanisms.common.shape import Shape
from dprelease.mechanisms.randomizer import PlaceInAuto
from dprelease.numerics import stable
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats
from dprelease.numerics.rounding import round_up
from dprelease.privacy.losses.stable import StableLoss

SUMMED_BELOW = 64.0
"""Moments are summed step by step for smaller scales, and computed by the Euler-Maclaurin formula
for larger ones."""

SUMMED_SCALES = 80.0
"""Number of scales up to which small scales are summed; the rest integrates the tail series."""

ALPHAS = (1.75, 1.7, 1.8, 1.65, 1.85, 1.6, 1.9, 1.95, 1.5, 1.98, 1.99, 1.4, 1.995, 1.999, 1.25, 1.0)


@dataclass(frozen=True)
class SymmetricAlphaStable(SymmetricQuantile):
    """Stable noise of scale `scale` steps, rounded to the nearest step."""

    name: ClassVar[str] = "symmetric_alpha_stable"
    summary: ClassVar[str] = "stable noise rounded to the lattice; pure, power tails"
    use: ClassVar[str] = "many answers that must stay pure, or noise that several parties add up"
    auto = PlaceInAuto(composed=True, within=1.5)  # each shape needs new tables
    pure: ClassVar[bool] = True
    norm: ClassVar[int] = 1
    shapes = (Shape("alpha", "stability: 1 is Cauchy, towards 2 normal", "1 to 2 - 2^-20"),)
    examples = ({"alpha": 1.0}, {"alpha": 1.5}, {"alpha": 1.95})
    search: ClassVar[tuple[Mapping[str, float], ...]] = tuple({"alpha": a} for a in ALPHAS)
    domains = {"alpha": (1.0, stable.LARGEST_ALPHA)}  # noqa: RUF012

    alpha: float

    @property
    def position_error(self) -> float:
        """Return the error of a position at three scales; half of all draws lie within one."""
        return 4.0 * self.scale * stable.QUANTILE_RELATIVE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> float:
        """Bound the relative drop in a block by the steepest slope of the log density."""
        return stable.steepest(self.alpha) * size / self.scale

    def upper_position(self, u: Floats) -> tuple[Floats, Floats]:
        """Return x + 1/2 for the quantile x, which is scale times the standard quantile."""
        position = stable.quantile(self.alpha, u)
        error = (position + 1.0) * (self.scale * stable.QUANTILE_RELATIVE_ERROR)
        position = position * self.scale
        position += 0.5
        return position, error

    def upper_tail(self, k: int) -> arb:
        """Return P(Y >= k - 1/2)."""
        return _tail(self.alpha, self.scale, k, ctx.prec)

    def losses(self, shift: int) -> tuple[StableLoss, ...]:
        """Return the loss of the continuous noise, which bounds that of the rounded noise."""
        ratio = round_up(Fraction(shift) / Fraction(self.scale))
        # Rounded to 40 bits, so that columns with equal scales in different steps share one cached
        # loss.
        mantissa, exponent = math.frexp(ratio)
        return (_loss(self.alpha, math.ldexp(math.ceil(math.ldexp(mantissa, 40)), exponent - 40)),)

    def federated(self, parties: int) -> Self:
        """Return the noise that each of `parties` adds; the sum has at least this scale.

        This holds exactly for noise that is not rounded, with the scale of a share rounded up to a
        float.

        Raises
        ------
        ValueError
            If `parties` is below 1.
        BudgetError
            DP-MECH-001 if the scale of a share can't be certified.
        """
        if parties < 1:
            raise ValueError("at least one party adds noise")
        with ctx.workprec(128):
            share = ball(self.scale) * arb(parties) ** (-1 / ball(self.alpha))
            scale = rounded_up(share)
        return type(self)(scale, self.alpha)

    @property
    def mean_absolute_error(self) -> float:
        """Return twice the sum over k >= 1 of P(Y >= k - 1/2): infinite at alpha 1.

        The continuous distribution has (2 scale / pi) Gamma(1 - 1 / alpha).
        """
        if self.alpha == 1.0:
            return math.inf
        if self.scale >= SUMMED_BELOW:
            # Euler-Maclaurin at midpoints: the next term is below 1e-3 / scale^3.
            height = float(stable.pdf(self.alpha, np.zeros(1))[0])
            unbounded_error = 2 * self.scale / math.pi * math.gamma(1 - 1 / self.alpha)
            return unbounded_error - height / (12 * self.scale)
        last = math.ceil(SUMMED_SCALES * self.scale)
        steps = np.arange(1, last + 1, dtype=np.float64)
        near = stable.sf(self.alpha, (steps - 0.5) / self.scale)
        return 2 * (
            float(np.sum(near)) + self.scale * _tail_integral(self.alpha, last / self.scale)
        )

    @property
    def standard_deviation(self) -> float:
        """Return infinity."""
        return math.inf

    @property
    def root_mean_square_error(self) -> float:
        """Return infinity."""
        return math.inf


@lru_cache(maxsize=256)
def _loss(alpha: float, shift: float) -> StableLoss:
    """Return the loss; cached, because its cells are slow to compute."""
    return StableLoss(alpha, shift)


@lru_cache(maxsize=8192)
def _tail(alpha: float, scale: float, k: int, precision: int) -> arb:  # noqa: ARG001
    # `precision` is only a cache key; a ball of any precision encloses the tail.
    return stable.sf_ball(alpha, ball(Fraction(2 * k - 1, 2) / Fraction(scale)))


def _tail_integral(alpha: float, x: float) -> float:
    """Return the integral of sf from x to infinity, by the asymptotic series."""
    terms = stable.tail_series(alpha)
    return math.fsum(
        a * float(x ** (1 - alpha * k)) / (alpha * k - 1) for k, a in enumerate(terms, start=1)
    )


MECHANISM = SymmetricAlphaStable
