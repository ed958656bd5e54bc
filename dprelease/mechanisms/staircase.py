"""Staircase mechanism, rounded to whole steps: the optimum of a pure guarantee.

Release    q + round(Y), where the density of Y is constant on stairs: it is a for |y| < gamma D,
           and falls by the factor b = exp(-D / scale) on each further stair of D = `width` steps.
Guarantee  If one cell moves by at most D steps, its privacy loss is -D/scale, 0 or D/scale;
           rounding is post-processing.
Source     Geng and Viswanath 2012, arXiv 1212.1186v3: the density is (16) to (18) with Theorem 3;
           gamma = 1 / (1 + exp(epsilon / 2)) has the least mean absolute error, and the gamma of
           Theorem 7 has the least variance.
Rounding   If gamma D is r - 1/2 for an integer r, all stairs end halfway between integers, and the
           rounded noise is the discrete staircase of the paper's section on integers; `optimise`
           selects the best such r. For D = 1 only r = 1 is possible, which is discrete Laplace
           noise. Any other gamma is as private, but its noise is a mixture of two such noises.
Units      q, Y, scale and width in steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from flint import arb, ctx

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms.base import QUANTILE_ERROR, SymmetricQuantileMechanism
from dprelease.mechanisms.randomizer import LARGEST_SCALE, ONE_STEP, ShapeParameter
from dprelease.numerics.balls import ball, float_upper_bound
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, Pieces, PrivacyLoss, epsilon_lower_bound
from dprelease.privacy.unit import Sensitivity

LARGEST_RATIO = 500
"""Largest width / scale, for which exp(width / scale) and its inverse are finite floats."""

ROUNDING = 2.0**-48
"""Bound on the relative error of a distance that is computed in widths."""

ERROR_MEASURES = ("mae", "mse")


@dataclass(frozen=True)
class Staircase(SymmetricQuantileMechanism):
    """Staircase noise with stairs of `width` steps, of which the first ends at `gamma` widths."""

    name: ClassVar[str] = "staircase"
    summary: ClassVar[str] = "stairs of the shift's width, rounded; pure, exponential tails"
    use_case: ClassVar[str] = "delta 0 and shifts of several steps: the least error for one answer"
    pure: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 1
    shape_parameters: ClassVar[tuple[ShapeParameter, ...]] = (
        ShapeParameter(
            "optimise", "error that the first stair makes least", "mae or mse", ERROR_MEASURES
        ),
        ShapeParameter("gamma", "where the first stair ends, in widths", "0 to 1"),
    )
    example_shapes: ClassVar[tuple[Mapping[str, str | float], ...]] = (
        {},
        {"optimise": "mse"},
        {"gamma": 0.75},
    )
    parameter_ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "width": (1.0, LARGEST_SCALE),
        "gamma": (0.0, 1.0),
    }

    width: float
    gamma: float

    @classmethod
    def _require_admissible(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        """Raise BudgetError also if the width is no integer or too large for the scale."""
        super()._require_admissible(values, place)
        if values["width"] != math.floor(values["width"]):
            cls._refuse("width", "a whole number from 1 to 2^50", place)
        least = values["width"] / LARGEST_RATIO
        if values["scale"] < least:
            raise BudgetError(
                "DP-MECH-001", place=place, mechanism=cls.name, least=least, largest="2^50"
            )

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,
        place: Place | None = None,
        /,
        **shape: str | float,
    ) -> Self:
        """Return staircase noise whose stairs are as wide as the largest shift of `sensitivity`.

        Without a declared `gamma`, the noise has the least error of the measure `optimise`, which
        is the mean absolute error by default.
        """
        width = sensitivity.largest_shift
        if "gamma" in shape:
            if "optimise" in shape:
                cls._refuse("optimise", "left out where gamma is given", place)
            return cls.of(place, scale=scale, width=width, **shape)
        measure = shape.pop("optimise", "mae")
        if measure not in ERROR_MEASURES:
            cls._refuse("optimise", " or ".join(ERROR_MEASURES), place)
        start = cls.of(place, scale=scale, width=width, gamma=0.5, **shape)
        return min(
            start._candidate_mechanisms(), key=lambda mechanism: mechanism._error(str(measure))
        )

    def _candidate_mechanisms(self) -> list[Self]:
        """Return noises whose stairs end between integers, near the optimal continuous noise."""
        width = Fraction(self.width)
        best = (mae_gamma(self.width / self.scale), mse_gamma(self.width / self.scale))
        middle = [math.floor(Fraction(gamma) * width) for gamma in best]
        tried = {m + i for m in middle for i in range(-2, 4) if 0 <= m + i < width}
        # A float may miss the middle between two integers by an ulp. This mixes two such noises,
        # and is as private.
        gammas = [float((r + Fraction(1, 2)) / width) for r in sorted(tried)]
        return [type(self)(self.scale, self.width, gamma) for gamma in gammas]

    def _error(self, measure: str) -> float:
        """Return the mean absolute error for the measure "mae", else the standard deviation."""
        return self.mean_absolute_error if measure == "mae" else self.standard_deviation

    @property
    def _stair_ratio(self) -> float:
        """The ratio of the probabilities of neighbouring stairs."""
        return math.exp(-self.width / self.scale)

    @property
    def _stair_weight(self) -> float:
        """Return gamma + b (1 - gamma).

        This is the probability of one width of outputs, relative to a width on which the density
        does not fall.
        """
        return self.gamma + self._stair_ratio * (1.0 - self.gamma)

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 times width / (1 - exp(-width / scale)), which exceeds width and scale."""
        return self.width / -math.expm1(-self.width / self.scale) * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Return bounds of the relative drop of probabilities within a segment of integers.

        They follow from the number of stairs that end in each segment.
        """
        middle = np.abs(first + size / 2)
        far = (middle + (size / 2 + 1)) / self.width - self.gamma
        near = np.maximum(middle - (size / 2 + 1), 0.0) / self.width - self.gamma
        # Whether a stair ends in the segment must not be missed by rounding, so both ends are moved
        # outward.
        rounded = (far + 2.0) * ROUNDING
        ends = np.floor(far + rounded) - np.floor(near - rounded)
        return np.minimum(ends * (self.width / self.scale), 1.0)

    def upper_real_quantile(self, u: Floats) -> tuple[Floats, float]:
        """Return x + 1/2 for the quantile x = width (j + f), with j whole stairs and a fraction f.

        With t = -ln(2u) scale / width, j is the floor of t, and f follows from the remainder of t
        by one formula below gamma and another one above gamma. The derivative dx / d(ln u) is at
        most width / (1 - b), so the error of x is at most this times the error of ln u.
        """
        ratio = self.width / self.scale
        rise = -math.expm1(-ratio)
        position = np.log(u)
        position += math.log(2.0)
        position *= -1.0 / ratio
        steps = np.floor(position)
        position -= steps
        beyond = (position >= 1.0 + math.log(self._stair_weight) / ratio).astype(np.float64)
        np.subtract(beyond, position, out=position)
        position *= ratio
        np.expm1(position, out=position)
        position *= -self._stair_weight / rise
        position += beyond
        position += steps
        position *= self.width
        position += 0.5
        return position, self.typical_quantile_error

    def upper_tail(self, k: int) -> arb:
        """Return P(Y >= k - 1/2), the tail of the continuous noise."""
        return self._continuous_tail(Fraction(2 * k - 1, 2))

    def _continuous_tail(self, x: Fraction) -> arb:
        """Return P(Y >= x) for x >= 0.

        With j whole stairs below x, it is b^j / 2 times the remaining part of stair j and of all
        later stairs.
        """
        stairs = x / Fraction(self.width)
        steps = math.floor(stairs)
        gamma, part = Fraction(self.gamma), stairs - steps
        b = (-ball(self.width) / ball(self.scale)).exp()
        low, high = min(part, gamma), max(part - gamma, Fraction(0))
        # This is 1 - (1 - b) (low + b high) / weight, without the terms that cancel.
        left = ball(gamma - low) + b * (ball(1 - gamma + low - high) + b * ball(high))
        return b**steps / 2 * left / (ball(gamma) + b * ball(1 - gamma))

    def losses(self, shift: int) -> tuple[StaircaseLoss, ...]:
        """Return the loss of the continuous noise, which bounds the loss of the rounded noise."""
        return (StaircaseLoss(self, shift),)

    def _first_stair(self) -> tuple[Fraction, Fraction, int]:
        """Return the width, gamma times the width, and a number of integers.

        The last number counts the integers of a stair whose rounding intervals end before the
        density falls.
        """
        width = Fraction(self.width)
        edge = Fraction(self.gamma) * width
        # The rounding interval of k - 1/2 to k + 1/2 ends below the edge for k up to edge - 1/2,
        # counted from 0.
        return width, edge, min(int(width), math.floor(edge + Fraction(1, 2)))

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum over k >= 1 of 2 P(K >= k), as a sum of positive terms for each stair."""
        width, edge, n = self._first_stair()
        lost = n * (2 * edge - n) / (2 * width)
        b = self._stair_ratio
        total = float(lost) + b * float(width / 2 + edge - 2 * lost)
        total += b * b * float(width / 2 - edge + lost)
        return total / (self._stair_weight * -math.expm1(-self.width / self.scale))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum over k >= 1 of (2k - 1) 2 P(K >= k)."""
        width, edge, n = self._first_stair()
        b, rise = self._stair_ratio, -math.expm1(-self.width / self.scale)
        squares = width / 3 - 1 / (12 * width)
        # The sum of f min(f, gamma) over the lower ends f of the rounding intervals, in widths.
        flat_part = Fraction(4 * n**3 - n, 12) / width**2 + edge / 2 * (1 - n**2 / width**2)
        total = float(edge / 2 - flat_part) + b * float(
            (width - edge) / 2 - squares + 2 * flat_part
        )
        total += b * b * float(squares - flat_part)
        inner = 2.0 * self.width / rise * total / self._stair_weight
        return math.sqrt(inner + self.mean_absolute_error * 2.0 * self.width * b / rise)


def mae_gamma(epsilon: float) -> float:
    """Return the gamma with the least E |Y|, which is 1 / (1 + exp(epsilon / 2)) (Theorem 4)."""
    return 1.0 / (1.0 + math.exp(epsilon / 2))


def mse_gamma(epsilon: float) -> float:
    """Return the gamma with the least E Y^2 (Theorem 7).

    It is ((b (1 + b) / 2)^(1/3) - b) / (1 - b) with b = exp(-epsilon).
    """
    if epsilon < 1e-4:  # the next term of the series is of third order
        return 0.5 - epsilon / 12
    b = math.exp(-epsilon)
    return float((b * (1 + b) / 2) ** (1 / 3) - b) / -math.expm1(-epsilon)


@dataclass(frozen=True)
class StaircaseLoss(PrivacyLoss):
    """The loss of staircase noise against the same noise moved by up to `shift` steps.

    For a shift of at most one width, the loss has three values. With top = width / scale, it is
    top with P probability A, -top with P probability A exp(-top), and else 0. The noise is unimodal
    and symmetric, so its total variation A (1 - b) is the probability of [-shift/2, shift/2]. This
    probability, A and the whole curve grow with the shift, so the curve of a shift bounds the
    curves of smaller shifts. For a shift of more than one width, the class uses the worst loss that
    is bounded by ceil(shift / width) times top.
    """

    noise: Staircase
    shift: int

    @property
    def _largest_loss(self) -> Fraction:
        """The largest privacy loss of this shift."""
        # A longer move crosses so many stairs, each with a loss of at most width / scale.
        moves = math.ceil(self.shift / Fraction(self.noise.width))
        return moves * Fraction(self.noise.width) / Fraction(self.noise.scale)

    def _largest_loss_probability(self) -> arb:
        """Return the probability A of the largest loss under P."""
        one = (-ball(self._largest_loss)).exp()
        if self.shift > self.noise.width:
            return 1 / (1 + one)
        edge = Fraction(self.shift, 2) / Fraction(self.noise.width)
        gamma = Fraction(self.noise.gamma)
        inside = ball(min(edge, gamma)) + one * ball(max(edge - gamma, Fraction(0)))
        return inside / (ball(gamma) + one * ball(1 - gamma))

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss, rounded up."""
        return round_up(self._largest_loss)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return A (1 - exp(epsilon - top)), plus the terms of the other losses if epsilon < 0."""
        if epsilon >= self._largest_loss:
            return 0.0
        edge = epsilon_lower_bound(epsilon)

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            if edge <= -self._largest_loss:
                return -ball(edge).expm1()
            inside = (
                self._largest_loss_probability() * -ball(abs(edge) - self._largest_loss).expm1()
            )
            if edge >= 0:
                return inside
            return -ball(edge).expm1() + ball(edge).exp() * inside

        return min(1.0, float_upper_bound(delta_interval))

    @cached_property
    def _loss_probabilities(self) -> tuple[float, float, float]:
        """Return the probabilities of the losses top, 0 and -top under P."""
        with ctx.workprec(256):  # the middle may be as small as the rounding error of gamma
            share, b = self._largest_loss_probability(), (-ball(self._largest_loss)).exp()
            middle = max(0.0, float(1 - share * (1 + b)))
            return float(share), middle, float(share * b)

    def pieces(self, width: float) -> Pieces:
        """Return one piece of the outputs for each of the three losses."""
        top, middle, bottom = self._loss_probabilities
        loss = np.array([1.0, 0.0, -1.0]) * float(self._largest_loss)
        p, q = np.array([top, middle, bottom]), np.array([bottom, middle, top])
        return Pieces(p, q, loss, loss)

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order above 1, rounded up by at most 2**-50 of it."""

        def divergence_interval() -> arb:
            """Return an interval (ball) that contains the Rényi divergence."""
            share = self._largest_loss_probability()
            top = ball(self._largest_loss)
            more = ball(order) - 1
            # This is E exp(more loss) - 1, without cancellation at small losses.
            moment = share * ((more * top).expm1() + (-top).exp() * (-more * top).expm1())
            return moment.log1p() / more

        return float_upper_bound(divergence_interval)


MECHANISM = Staircase
