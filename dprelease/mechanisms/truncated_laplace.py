"""Generalized truncated Laplace mechanism, rounded to whole steps.

Release    q + round(Y) - center, where Y is drawn independently for every cell, with a density
           proportional to exp(-|x| / scale) on [lower, upper], lower < 0 < upper.
Guarantee  If one cell moves by at most D <= min(-lower, upper) steps, its privacy loss is at most
           D / scale, except for outputs that only one of the two neighbouring tables can give. The
           probability of these outputs is max(a, b) (exp(D / scale) - 1) / (2 - a - b), with
           a = exp(lower / scale) and b = exp(-upper / scale). Rounding and centring are
           post-processing.
Source     Mugunthan, Xiao and Kagal (generalized truncated Laplace); symmetric: Geng, Ding, Guo and
           Kumar 2018, arXiv 1810.00877v3, Theorem 1. The first paper says that the short side may
           have any length, but its length must lie between the two `short_side_bounds`. The paper
           also says that the noise has the mean zero, but only symmetric noise has; `design`
           subtracts the integer nearest to the mean.
Units      q, Y, scale, lower, upper and center in steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from flint import arb

from dprelease.errors import Place
from dprelease.mechanisms.base import (
    LARGEST_CENTER,
    QUANTILE_ERROR,
    RealQuantileMechanism,
    parse_shape_number,
)
from dprelease.mechanisms.randomizer import (
    DEBIAS,
    LARGEST_SCALE,
    LEAST_SCALE,
    ONE_STEP,
    ShapeParameter,
)
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats
from dprelease.numerics.quadrature import Moments, moments_of_density, moments_of_tails
from dprelease.privacy.losses.two_sided_exponential import (
    EndSearch,
    TruncatedLoss,
    approximate_other_length,
    other_length,
    short_side_bounds,
    symmetric_length,
)
from dprelease.privacy.unit import Sensitivity

LARGEST_SUMMED_SUPPORT = 2**20
"""Largest support, in steps, whose moments are summed step by step."""

TRIED_LENGTHS = 25
MOST_EPSILON = 100.0


LENGTH_CONDITION = "longer than a unit's largest change, and than delta asks for"


@dataclass(frozen=True)
class TruncatedLaplace(RealQuantileMechanism):
    """Laplace noise that is truncated on both sides; `design` computes both ends for a delta."""

    name: ClassVar[str] = "truncated_laplace"
    summary: ClassVar[str] = "Laplace noise within fixed bounds; approximate, no tails"
    use_case: ClassVar[str] = "an error bound that always holds, for a delta"
    has_bounded_noise: ClassVar[bool] = True
    pure: ClassVar[bool] = False
    sensitivity_norm: ClassVar[int] = 1
    shape_parameters = (
        ShapeParameter(
            "delta", "chance that one cell's output gives a unit away", "above 0, below 1/2"
        ),
        ShapeParameter(
            "short_side",
            "the side that is cut nearer; auto: the least mean absolute error",
            "upper, lower, none or auto",
            choices=("upper", "lower", "none", "auto"),
        ),
        ShapeParameter("upper", "where the noise ends above", LENGTH_CONDITION, in_units=True),
        ShapeParameter("lower", "where it ends below, a length", LENGTH_CONDITION, in_units=True),
        DEBIAS,
    )
    example_shapes = (
        {"delta": "1e-6"},
        {"delta": "1e-3", "short_side": "upper"},
        {"delta": "0.01", "short_side": "lower", "debias": "false"},
    )
    parameter_ranges = {"center": (-LARGEST_CENTER, LARGEST_CENTER)}  # noqa: RUF012

    lower: float
    upper: float
    center: float = 0.0

    @classmethod
    def _require_admissible(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        """Refuse inadmissible parameters, such as bounds on one side of zero."""
        super()._require_admissible(values, place)
        if values["center"] != math.floor(values["center"]):
            cls._refuse("center", "a whole number", place)
        if not -LARGEST_CENTER <= values["lower"] <= -values["scale"] / 2**20:
            cls._refuse("lower", "below 0, by more than scale / 2^20", place)
        if not values["scale"] / 2**20 <= values["upper"] <= LARGEST_CENTER:
            cls._refuse("upper", "above 0, by more than scale / 2^20", place)
        # Such noise is rounded to 0 always.
        if values["lower"] >= -0.5 and values["upper"] < 0.5:
            short = "half a step or more, or `lower`: noise that is always 0 publishes the truth"
            cls._refuse("upper", short, place)

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,
        place: Place | None = None,
        /,
        *,
        debias: str | float = "true",
        **shape: str | float,
    ) -> Self:
        """Return the noise with a scale that has the declared delta at epsilon = shift / scale.

        The shift is the largest shift of `sensitivity`. `shape` has `delta` and at most one of the
        keys `upper`, `lower` (both lengths in steps) and `short_side`.

        Raises BudgetError: DP-MECH-005, with the admissible range, for a scale, a delta or a length
        out of range.
        """
        least = sensitivity.largest_shift / MOST_EPSILON
        if not scale >= least:
            cls._refuse("scale", f"at least {least!r} for this shift", place)
        wide = max(scale, 1.0)  # these ends are always valid, so `of` checks only the scale
        cls.of(place, scale=scale, lower=-wide, upper=wide)
        delta = parse_shape_number(cls, shape.pop("delta", None), "delta", place)
        if not 0 < delta < Fraction(1, 2):
            cls._refuse("delta", "above 0, below 1/2", place)
        ends = EndSearch(Fraction(scale), sensitivity.largest_shift, delta)
        side = str(shape.pop("short_side", "auto"))
        if len(shape) > 1 or not shape.keys() <= {"upper", "lower"}:
            # The length of one side and delta determine the other one.
            cls._refuse("upper", "declared without `lower`", place)
        if shape:
            ((name, text),) = shape.items()
            length = cls._checked_lengths(
                ends, name, parse_shape_number(cls, text, name, place), place
            )
            lower, upper = (length[1], length[0]) if name == "upper" else length
        else:
            lower, upper = cls._best_lengths(ends, side)
        mechanism = cls.of(place, scale=scale, lower=-lower, upper=upper)
        if debias == "false":
            return mechanism
        return cls.of(place, scale=scale, lower=-lower, upper=upper, center=round(mechanism.mean))

    @classmethod
    def admits(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,
        /,
        **shape: str | float,  # noqa: ARG003 - every shape has admissible ends
    ) -> bool:
        """Return whether the scale is in range, without computing the ends of the noise."""
        least = max(LEAST_SCALE, sensitivity.largest_shift / MOST_EPSILON)
        return least <= scale <= LARGEST_SCALE

    @classmethod
    def _checked_lengths(
        cls, ends: EndSearch, name: str, length: Fraction, place: Place | None
    ) -> tuple[float, float]:
        """Return a declared length and the length of the other side, or raise a BudgetError."""
        least = max(short_side_bounds(ends)[0], float(ends.shift))
        try:
            float_length = float(length)
            return float_length, other_length(ends, float_length)
        except (ValueError, OverflowError):
            cls._refuse(name, f"above {least!r} steps for this scale, shift and delta", place)

    @classmethod
    def _best_lengths(cls, ends: EndSearch, side: str) -> tuple[float, float]:
        """Return the lengths of the lower and upper side with the least mean absolute error."""
        symmetric = symmetric_length(ends)
        if side == "none":
            return symmetric, symmetric
        least = max(short_side_bounds(ends)[0] * (1 + 2.0**-30), float(ends.shift))
        trials = [(symmetric, symmetric)] if side == "auto" else []
        for i in range(1, TRIED_LENGTHS):
            short = symmetric * (least / symmetric) ** (i / TRIED_LENGTHS)
            if short < symmetric:
                trials.append((approximate_other_length(ends, short), short))
        if not trials:
            return symmetric, symmetric
        lower, upper = min(
            trials, key=lambda pair: _continuous_mean_deviation(float(ends.scale), *pair)
        )
        if upper != symmetric:
            # The lengths of the trials have the accuracy of floats only. This one is certified.
            lower = other_length(ends, upper)
        return (upper, lower) if side == "lower" else (lower, upper)

    @property
    def is_symmetric(self) -> bool:
        """Return whether both sides have the same length and the centre is zero."""
        return self.lower == -self.upper and self.center == 0.0

    @cached_property
    def _end_densities(self) -> tuple[float, float, float]:
        """Return a, b and 2 - a - b, where the docstring of this module defines a and b."""
        low, high = self.lower / self.scale, -self.upper / self.scale
        return math.exp(low), math.exp(high), -math.expm1(low) - math.expm1(high)

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 times the sum of two scales and of the distance of the centre from 0."""
        return (2 * self.scale + abs(self.center)) * QUANTILE_ERROR

    @property
    def mode(self) -> int:
        """Return minus the centre, where the peak of the density lies after centring."""
        return -int(self.center)

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Return bounds of the relative drop of probabilities within a segment of integers.

        A bound is 1 for a segment that contains an end of the noise.
        """
        near = first + self.center
        low, high = near - size, near + 2 * size
        # Beyond an end probabilities are 0, and no bound below 1 holds in its segment.
        ends = (low < self.lower) & (self.lower < high)
        ends |= (low < self.upper) & (self.upper < high)
        bounds: Floats = np.where(ends, 1.0, size / self.scale)
        return bounds

    def real_quantile(self, u: Floats, upper: bool) -> tuple[Floats, float]:
        """Return x - center + 1/2 for the quantile x of the continuous noise."""
        a, b, total = self._end_densities
        near, far, reach = (b, a, -self.upper) if upper else (a, b, self.lower)
        position = np.log(u * total + near)
        position *= -self.scale
        # A tail probability up to 1/2 may belong to an output on the longer side, beyond zero.
        beyond_zero = u * total > -math.expm1(reach / self.scale)
        if beyond_zero.any():
            position[beyond_zero] = self.scale * np.log((1.0 - u[beyond_zero]) * total + far)
        if not upper:
            np.negative(position, out=position)
        position += 0.5 - self.center
        return position, self.typical_quantile_error

    def tail(self, k: int, upper: bool) -> arb:
        """Return an interval (ball) around P(K >= k) if `upper`, else around P(K <= k).

        Beyond the ends of the noise, the interval is exactly 0 or 1.
        """
        x = Fraction(2 * k - 1 if upper else 2 * k + 1, 2) + int(self.center)
        low, high = Fraction(self.lower), Fraction(self.upper)
        near, far, out = (high, -low, x) if upper else (-low, high, -x)
        # Exactly 0, on which `key_threshold` relies.
        if out >= near:
            return arb(0)
        if out <= -far:
            return arb(1)
        scale = Fraction(self.scale)
        ends = [ball(-side / scale).exp() for side in (near, far)]
        total = 2 - ends[0] - ends[1]
        if out >= 0:
            return (ball(-out / scale).exp() - ends[0]) / total
        return 1 - (ball(out / scale).exp() - ends[1]) / total

    def losses(self, shift: int) -> tuple[TruncatedLoss, ...]:
        """Return the losses of continuous noise for a move up and a move down.

        They bound the losses of the rounded noise. If both sides have the same length, both losses
        are equal, and the result has only one of them.
        """
        scale, low, high = Fraction(self.scale), -Fraction(self.lower), Fraction(self.upper)
        up = TruncatedLoss(scale, low, high, shift)
        return (up,) if low == high else (up, TruncatedLoss(scale, high, low, shift))

    @cached_property
    def _moments(self) -> Moments:
        """Return moments of the rounded noise, with its mean absolute error about the centre."""
        reach = int(max(-self.lower, self.upper)) + 1
        if reach <= LARGEST_SUMMED_SUPPORT:
            return moments_of_tails(
                self._tails(self.upper, reach), self._tails(-self.lower, reach), int(self.center)
            )
        continuous = _continuous_moments(self.scale, -self.lower, self.upper, self.center)
        return Moments(
            continuous.mean,
            continuous.absolute,
            math.hypot(continuous.deviation, math.sqrt(1 / 12)),
        )

    def _tails(self, end: float, reach: int) -> Floats:
        """Return P(N >= j) for j = 1 ... reach, on the side of the noise that ends at `end`."""
        out = np.arange(1, reach + 1) - 0.5
        # The tails are exp(-out) - exp(-end), without subtraction of nearly equal numbers.
        inside = np.minimum(out - end, 0.0) / self.scale
        tails: Floats = np.exp(-out / self.scale) * -np.expm1(inside) / self._end_densities[2]
        return tails

    @property
    def mean(self) -> float:
        """Return the mean of the rounded noise minus the centre."""
        return self._moments.mean - self.center

    @property
    def mean_absolute_error(self) -> float:
        """Return E |N - center| for the rounded noise N."""
        return self._moments.absolute

    @property
    def standard_deviation(self) -> float:
        """Return the standard deviation of the rounded noise."""
        return self._moments.deviation


def _continuous_moments(scale: float, low: float, high: float, center: float) -> Moments:
    """Return the moments of the truncated density before it is rounded to steps."""
    cuts = [
        np.linspace(-low, 0.0, 2 + int(low / scale)),
        np.linspace(0.0, high, 2 + int(high / scale)),
    ]
    points = np.unique(np.concatenate([*cuts, [np.clip(center, -low, high)]]))
    return moments_of_density(lambda x: np.exp(-np.abs(x) / scale), points, center)


def _continuous_mean_deviation(scale: float, low: float, high: float) -> float:
    """Return the mean absolute deviation of the continuous noise from its mean."""
    mean = _continuous_moments(scale, low, high, 0.0).mean
    return _continuous_moments(scale, low, high, mean).absolute


MECHANISM = TruncatedLaplace
