"""Symmetric alpha-stable mechanism, rounded to whole steps.

Release    q + round(Y), where Y has the characteristic function exp(-|scale t|^alpha) and is drawn
           independently for every cell.
Guarantee  Pure: if one cell moves by at most D steps, its privacy loss is at most the maximum over
           x of ln(p(x - D / scale) / p(x)), which depends only on D / scale; rounding is
           post-processing. Approximate and Rényi guarantees use the full privacy-loss distribution.
Source     Zawacki and Abed, "The symmetric alpha-stable privacy mechanism": Theorems 21 and 24;
           eq. (73) for alpha 1. The terms of eq. (25) lack the factor 1/k!, and the limit in
           Corollary 27 is 2 ln(D / scale).
Sums       Before rounding, sums of stable noise are stable noise: if n parties each add noise with
           the scale `scale` n^(-1/alpha), the sum is the declared noise.
           `privacy/losses/stable.py` bounds the privacy cost of rounding every share.
Units      q, Y and scale in steps.
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

from dprelease.mechanisms.base import SymmetricQuantileMechanism, interval_upper_float
from dprelease.mechanisms.randomizer import AutoRule, ShapeParameter
from dprelease.numerics import stable
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats
from dprelease.numerics.rounding import round_up
from dprelease.privacy.losses.stable import StableLoss

SUMMED_BELOW = 64.0
"""Scale below which moments are sums over steps. From this scale on, the Euler-Maclaurin formula
replaces the sums."""

SUMMED_SCALES = 80.0
"""Number of scales up to which moments are summed. An integral of the tail series adds the rest."""

ALPHAS = (1.75, 1.7, 1.8, 1.65, 1.85, 1.6, 1.9, 1.95, 1.5, 1.98, 1.99, 1.4, 1.995, 1.999, 1.25, 1.0)


@dataclass(frozen=True)
class SymmetricAlphaStable(SymmetricQuantileMechanism):
    """Symmetric alpha-stable noise of scale `scale` steps, rounded to the nearest step."""

    name: ClassVar[str] = "symmetric_alpha_stable"
    summary: ClassVar[str] = "stable noise rounded to the lattice; pure, power tails"
    use_case: ClassVar[str] = (
        "many answers that must stay pure, or noise that several parties add up"
    )
    auto_rule = AutoRule(
        only_with_delta=True, largest_error_ratio=1.5
    )  # each shape needs new tables
    pure: ClassVar[bool] = True
    has_variance: ClassVar[bool] = False
    sensitivity_norm: ClassVar[int] = 1
    shape_parameters = (
        ShapeParameter("alpha", "stability: 1 is Cauchy, towards 2 normal", "1 to 2 - 2^-20"),
    )
    example_shapes = ({"alpha": 1.0}, {"alpha": 1.5}, {"alpha": 1.95})
    searched_shapes: ClassVar[tuple[Mapping[str, float], ...]] = tuple({"alpha": a} for a in ALPHAS)
    parameter_ranges = {"alpha": (1.0, stable.LARGEST_ALPHA)}  # noqa: RUF012

    alpha: float

    @property
    def typical_quantile_error(self) -> float:
        """Return the error of a quantile of three scales; half of all draws are below one scale."""
        return 4.0 * self.scale * stable.QUANTILE_RELATIVE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> float:
        """Return a bound of the relative drop of probabilities within a segment of integers.

        It follows from the steepest slope of the log density.
        """
        return stable.central_log_slope_bound(self.alpha) * size / self.scale

    def upper_real_quantile(self, u: Floats) -> tuple[Floats, Floats]:
        """Return x + 1/2 for the quantile x, which is scale times the standard quantile."""
        position = stable.quantile(self.alpha, u)
        error = (position + 1.0) * (self.scale * stable.QUANTILE_RELATIVE_ERROR)
        position = position * self.scale
        position += 0.5
        return position, error

    def upper_tail(self, k: int) -> arb:
        """Return P(Y >= k - 1/2), the tail of the continuous noise."""
        return _tail(self.alpha, self.scale, k, ctx.prec)

    def losses(self, shift: int) -> tuple[StableLoss, ...]:
        """Return the loss of the continuous noise, which bounds the loss of the rounded noise."""
        ratio = round_up(Fraction(shift) / Fraction(self.scale))
        # Rounded to 40 bits, so that columns with equal scales in different steps share one cached
        # loss.
        mantissa, exponent = math.frexp(ratio)
        # Upward, because the loss grows with the shift.
        return (_loss(self.alpha, math.ldexp(math.ceil(math.ldexp(mantissa, 40)), exponent - 40)),)

    def federated(self, parties: int) -> Self:
        """Return the noise that each of `parties` parties adds, so that their sum has this scale.

        The scale of a share is rounded up to a float, so the sum has at least this scale. The sum
        of shares has this distribution only before rounding.

        Raises ValueError if `parties` is below 1. Raises BudgetError: DP-MECH-001 if the scale of a
        share can't be certified.
        """
        if parties < 1:
            raise ValueError("at least one party adds noise")
        with ctx.workprec(128):
            # The sum of n shares has n^(1/alpha) times the scale of one.
            share = ball(self.scale) * arb(parties) ** (-1 / ball(self.alpha))
            scale = interval_upper_float(share)
        return type(self)(scale, self.alpha)

    @property
    def mean_absolute_error(self) -> float:
        """Return twice the sum over k >= 1 of P(Y >= k - 1/2), which is infinite for alpha 1.

        The continuous noise has the mean absolute error (2 scale / pi) Gamma(1 - 1 / alpha).
        """
        if self.alpha == 1.0:
            return math.inf
        if self.scale >= SUMMED_BELOW:
            # The first omitted term of the Euler-Maclaurin formula is below 1e-3 / scale^3.
            height = float(stable.pdf(self.alpha, np.zeros(1))[0])
            continuous_error = 2 * self.scale / math.pi * math.gamma(1 - 1 / self.alpha)
            return continuous_error - height / (12 * self.scale)
        last = math.ceil(SUMMED_SCALES * self.scale)
        steps = np.arange(1, last + 1, dtype=np.float64)
        near = stable.sf(self.alpha, (steps - 0.5) / self.scale)
        return 2 * (
            float(np.sum(near)) + self.scale * _tail_integral(self.alpha, last / self.scale)
        )

    @property
    def standard_deviation(self) -> float:
        """Return infinity, because stable noise has no variance."""
        return math.inf

    @property
    def root_mean_square_error(self) -> float:
        """Return infinity, because stable noise has no variance."""
        return math.inf


@lru_cache(maxsize=256)
def _loss(alpha: float, shift: float) -> StableLoss:
    """Return the loss for a shift in scales; cached, because its intervals are slow to compute."""
    return StableLoss(alpha, shift)


@lru_cache(maxsize=8192)
def _tail(alpha: float, scale: float, k: int, precision: int) -> arb:  # noqa: ARG001
    """Return an interval (ball) of the probability of noise of k or more steps."""
    # `precision` is only a cache key; a ball of any precision encloses the tail.
    return stable.sf_ball(alpha, ball(Fraction(2 * k - 1, 2) / Fraction(scale)))


def _tail_integral(alpha: float, x: float) -> float:
    """Return the integral of the survival function from x to infinity, by its series."""
    terms = stable.tail_series(alpha)
    return math.fsum(
        a * float(x ** (1 - alpha * k)) / (alpha * k - 1) for k, a in enumerate(terms, start=1)
    )


MECHANISM = SymmetricAlphaStable
