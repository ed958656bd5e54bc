"""Staircase mechanism, rounded to the lattice: the optimum of a pure guarantee.

Release    q + round(Y); the density of Y is constant on stairs: a on |y| < gamma D, and lower by a
           factor b = exp(-D / scale) on each further stair of D steps, D = `width`.
Guarantee  One cell that moves by at most D steps has a privacy loss of -D/scale, 0 or D/scale;
           rounding is post-processing.
Source     Geng and Viswanath 2012, arXiv 1212.1186v3: density (16) to (18), Theorem 3; the least
           mean absolute error: gamma = 1 / (1 + exp(epsilon / 2)); the least power: Theorem 7.
Lattice    Where gamma D is r - 1/2 for a whole r, all stairs end between cells and the rounded
           noise is the discrete staircase of the paper's section on integers; `optimise` picks the
           best such r. D = 1 allows only r = 1: discrete Laplace noise. Any other gamma is as
           private, but its noise is a mixture of two of these.
Units      q, Y, scale and width in lattice steps.
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
from dprelease.mechanisms.base import QUANTILE_ERROR, SymmetricQuantile
from dprelease.mechanisms.common.shape import Shape
from dprelease.mechanisms.randomizer import LARGEST_SCALE, ONE_STEP
from dprelease.numerics.balls import ball, least_above
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, Pieces, PrivacyLoss, strictly_below
from dprelease.privacy.unit import Sensitivity

LARGEST_RATIO = 500
"""Largest width / scale: exp of it, and its inverse, stay within the floats."""

ROUNDING = 2.0**-48
"""Bound on the relative error of a position in widths."""

MEASURES = ("mae", "mse")


@dataclass(frozen=True)
class Staircase(SymmetricQuantile):
    """Staircase noise: steps of `width`, the first of them cut at `gamma` widths."""

    name: ClassVar[str] = "staircase"
    summary: ClassVar[str] = "stairs of the shift's width, rounded; pure, exponential tails"
    use: ClassVar[str] = "delta 0 and shifts of several steps: the least error for one answer"
    pure: ClassVar[bool] = True
    norm: ClassVar[int] = 1
    shapes: ClassVar[tuple[Shape, ...]] = (
        Shape("optimise", "error that the first stair makes least", "mae or mse", MEASURES),
        Shape("gamma", "where the first stair ends, in widths", "0 to 1"),
    )
    examples: ClassVar[tuple[Mapping[str, str | float], ...]] = (
        {},
        {"optimise": "mse"},
        {"gamma": 0.75},
    )
    domains: ClassVar[Mapping[str, tuple[float, float]]] = {
        "width": (1.0, LARGEST_SCALE),
        "gamma": (0.0, 1.0),
    }

    width: float
    gamma: float

    @classmethod
    def _certify(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        """Raise BudgetError also if the width is not whole, or has too many scales."""
        super()._certify(values, place)
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
        """Return stairs as wide as the largest shift; the least mean absolute error by default."""
        width = sensitivity.largest_shift
        if "gamma" in shape:
            if "optimise" in shape:
                cls._refuse("optimise", "left out where gamma is given", place)
            return cls.of(place, scale=scale, width=width, **shape)
        measure = shape.pop("optimise", "mae")
        if measure not in MEASURES:
            cls._refuse("optimise", " or ".join(MEASURES), place)
        start = cls.of(place, scale=scale, width=width, gamma=0.5, **shape)
        return min(start._candidates(), key=lambda mechanism: mechanism._error(str(measure)))

    def _candidates(self) -> list[Self]:
        """Return the stairs that end between cells, near the optima of continuous noise."""
        width = Fraction(self.width)
        best = (mae_gamma(self.width / self.scale), mse_gamma(self.width / self.scale))
        middle = [math.floor(Fraction(gamma) * width) for gamma in best]
        tried = {m + i for m in middle for i in range(-2, 4) if 0 <= m + i < width}
        gammas = [float((r + Fraction(1, 2)) / width) for r in sorted(tried)]
        return [type(self)(self.scale, self.width, gamma) for gamma in gammas]

    def _error(self, measure: str) -> float:
        return self.mean_absolute_error if measure == "mae" else self.standard_deviation

    @property
    def _b(self) -> float:
        return math.exp(-self.width / self.scale)

    @property
    def _gain(self) -> float:
        """Return gamma + b (1 - gamma): the probability of a stair over that of an uncut one."""
        return self.gamma + self._b * (1.0 - self.gamma)

    @property
    def position_error(self) -> float:
        """Return 2**-40 widths, or scales where these are larger, and a little more."""
        return self.width / -math.expm1(-self.width / self.scale) * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Bound the relative drop in a block, by a factor b for each end of a stair in it."""
        middle = np.abs(first + size / 2)
        far = (middle + (size / 2 + 1)) / self.width - self.gamma
        near = np.maximum(middle - (size / 2 + 1), 0.0) / self.width - self.gamma
        rounded = (far + 2.0) * ROUNDING
        ends = np.floor(far + rounded) - np.floor(near - rounded)
        return np.minimum(ends * (self.width / self.scale), 1.0)

    def upper_position(self, u: Floats) -> tuple[Floats, float]:
        """Return x + 1/2 for the quantile x = width (j + f), j whole stairs and a part f.

        With t = -ln(2u) scale / width, j is its floor, and f follows from the rest of t by one
        formula on either side of the cut. dx / d(ln u) is at most width / (1 - b): so is the error.
        """
        ratio = self.width / self.scale
        rise = -math.expm1(-ratio)
        position = np.log(u)
        position += math.log(2.0)
        position *= -1.0 / ratio
        steps = np.floor(position)
        position -= steps
        beyond = (position >= 1.0 + math.log(self._gain) / ratio).astype(np.float64)
        np.subtract(beyond, position, out=position)
        position *= ratio
        np.expm1(position, out=position)
        position *= -self._gain / rise
        position += beyond
        position += steps
        position *= self.width
        position += 0.5
        return position, self.position_error

    def upper_tail(self, k: int) -> arb:
        """Return the continuous tail at k - 1/2."""
        return self._beyond_point(Fraction(2 * k - 1, 2))

    def _beyond_point(self, x: Fraction) -> arb:
        """Return P(Y >= x) for x >= 0: b^j / 2 times the remaining part from stair j on."""
        stairs = x / Fraction(self.width)
        steps = math.floor(stairs)
        gamma, part = Fraction(self.gamma), stairs - steps
        b = (-ball(self.width) / ball(self.scale)).exp()
        low, high = min(part, gamma), max(part - gamma, Fraction(0))
        # 1 - (1 - b) (low + b high) / gain, with the terms that cancel taken out.
        left = ball(gamma - low) + b * (ball(1 - gamma + low - high) + b * ball(high))
        return b**steps / 2 * left / (ball(gamma) + b * ball(1 - gamma))

    def losses(self, shift: int) -> tuple[StaircaseLoss, ...]:
        """Return the loss of the continuous noise, which bounds that of the rounded noise."""
        return (StaircaseLoss(self, shift),)

    def _cut(self) -> tuple[Fraction, Fraction, int]:
        """Return width, gamma width, and how many cells of a stair end before its cut."""
        width = Fraction(self.width)
        edge = Fraction(self.gamma) * width
        return width, edge, min(int(width), math.floor(edge + Fraction(1, 2)))

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum over k >= 1 of 2 P(K >= k), stair by stair: all terms are positive."""
        width, edge, n = self._cut()
        lost = n * (2 * edge - n) / (2 * width)
        b = self._b
        total = float(lost) + b * float(width / 2 + edge - 2 * lost)
        total += b * b * float(width / 2 - edge + lost)
        return total / (self._gain * -math.expm1(-self.width / self.scale))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum over k >= 1 of (2k - 1) 2 P(K >= k)."""
        width, edge, n = self._cut()
        b, rise = self._b, -math.expm1(-self.width / self.scale)
        squares = width / 3 - 1 / (12 * width)
        # Sum over the cells' lower ends f of a stair of f min(f, gamma), with f in widths.
        flat_part = Fraction(4 * n**3 - n, 12) / width**2 + edge / 2 * (1 - n**2 / width**2)
        total = float(edge / 2 - flat_part) + b * float(
            (width - edge) / 2 - squares + 2 * flat_part
        )
        total += b * b * float(squares - flat_part)
        inner = 2.0 * self.width / rise * total / self._gain
        return math.sqrt(inner + self.mean_absolute_error * 2.0 * self.width * b / rise)


def mae_gamma(epsilon: float) -> float:
    """Return the gamma of the least E |Y|: 1 / (1 + exp(epsilon / 2)) (Theorem 4)."""
    return 1.0 / (1.0 + math.exp(epsilon / 2))


def mse_gamma(epsilon: float) -> float:
    """Return the gamma of the least E Y^2: ((b (1 + b) / 2)^(1/3) - b) / (1 - b) (Theorem 7)."""
    if epsilon < 1e-4:  # the next term of the series is of third order
        return 0.5 - epsilon / 12
    b = math.exp(-epsilon)
    return float((b * (1 + b) / 2) ** (1 / 3) - b) / -math.expm1(-epsilon)


@dataclass(frozen=True)
class StaircaseLoss(PrivacyLoss):
    """The loss of staircase noise, moved by up to `shift` steps, which has three values.

    Up to a width, the loss is top = width/scale with P probability A, -top with A exp(-top), else
    0. The noise is unimodal and symmetric, so its total variation A (1 - b) is the probability of
    [-shift/2, shift/2]: it grows with the shift, and with A the whole curve, so smaller shifts are
    covered. The cost of moves of more than a width is the worst of all losses that are bounded by
    that of ceil(shift / width) moves.
    """

    law: Staircase
    shift: int

    @property
    def _top(self) -> Fraction:
        moves = math.ceil(self.shift / Fraction(self.law.width))
        return moves * Fraction(self.law.width) / Fraction(self.law.scale)

    def _share(self) -> arb:
        """Return A, the P probability of the largest loss."""
        one = (-ball(self._top)).exp()
        if self.shift > self.law.width:
            return 1 / (1 + one)
        edge = Fraction(self.shift, 2) / Fraction(self.law.width)
        gamma = Fraction(self.law.gamma)
        inside = ball(min(edge, gamma)) + one * ball(max(edge - gamma, Fraction(0)))
        return inside / (ball(gamma) + one * ball(1 - gamma))

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss, rounded up."""
        return round_up(self._top)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return A (1 - exp(epsilon - top)), for epsilon < 0 also the other two."""
        if epsilon >= self._top:
            return 0.0
        edge = strictly_below(epsilon)

        def value() -> arb:
            if edge <= -self._top:
                return -ball(edge).expm1()
            inside = self._share() * -ball(abs(edge) - self._top).expm1()
            if edge >= 0:
                return inside
            return -ball(edge).expm1() + ball(edge).exp() * inside

        return min(1.0, least_above(value))

    @cached_property
    def _masses(self) -> tuple[float, float, float]:
        """Return the P probabilities of the losses top, 0 and -top."""
        with ctx.workprec(256):  # the middle may be as small as the rounding error of gamma
            share, b = self._share(), (-ball(self._top)).exp()
            middle = max(0.0, float(1 - share * (1 + b)))
            return float(share), middle, float(share * b)

    def pieces(self, width: float) -> Pieces:
        """Return one piece for each of the three losses."""
        top, middle, bottom = self._masses
        loss = np.array([1.0, 0.0, -1.0]) * float(self._top)
        p, q = np.array([top, middle, bottom]), np.array([bottom, middle, top])
        return Pieces(p, q, loss, loss)

    def renyi(self, order: float) -> float:
        """Return the divergence of an order > 1, rounded up (relative error 2**-50)."""

        def value() -> arb:
            share, top, more = self._share(), ball(self._top), ball(order) - 1
            # E exp(more loss) - 1, without cancellation at small losses.
            moment = share * ((more * top).expm1() + (-top).exp() * (-more * top).expm1())
            return moment.log1p() / more

        return least_above(value)


MECHANISM = Staircase
