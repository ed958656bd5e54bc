"""Base classes of noise mechanisms: distributions on the integers, with their errors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from flint import arb, ctx

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import (
    Flags,
    Floats,
    SampledDistribution,
    certain_floor,
    largest_true,
)
from dprelease.numerics.rounding import exact, round_up
from dprelease.numerics.segments import SegmentSampler

LARGEST_CENTER = 2.0**62

QUANTILE_ERROR = 2.0**-40
"""Claimed bound, in scales, on the error of a float quantile for tail probabilities above 2**-20.

If such a tail probability is known up to an interval of width 2**-64, the quantile is known up to
2**-43 scales. The library functions that compute quantiles have errors of a few units in the last
place. The tests compare the quantiles with ball arithmetic at many points.
"""


@dataclass(frozen=True)
class Mechanism(Randomizer):
    """A mechanism that adds independent integer noise K, in steps, to every cell of a vector.

    `scale` is a number of steps. Every mechanism implements the protocol `SampledDistribution`.
    """

    @property
    def noise_distribution(self) -> SampledDistribution:
        """Return the exact distribution of K."""
        return self

    def federated(self, parties: int) -> Self:
        """Return the noise that each of `parties` parties adds, so that their sum has this scale.

        Such shares exist only if a sum of independent variables of this noise family, before
        rounding, belongs to the same noise family. The sum of rounded shares differs from the
        rounded sum, and `privacy/losses/stable.py` bounds the difference for stable noise.

        Raises ValueError if `parties` is below 1. Raises BudgetError: DP-FED-001 if no such shares
        exist, and DP-MECH-001 if the scale of a share can't be certified.
        """
        reason = "a sum of such noise has another distribution"
        raise BudgetError("DP-FED-001", mechanism=self.name, reason=reason)

    @property
    def segment_sampler(self) -> SegmentSampler | None:
        """Return the sampler for large scales, or None if every integer is drawn directly."""
        return None

    @property
    @abstractmethod
    def is_symmetric(self) -> bool:
        """Return whether K and -K have the same distribution."""

    @classmethod
    def has_variance_bound(cls) -> bool:
        """Return whether this noise family implements `variance_bound_and_mean`."""
        return cls.variance_bound_and_mean is not Mechanism.variance_bound_and_mean

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction] | None:
        """Return a certified upper bound of the variance, and the exact mean, in steps.

        Ball arithmetic computes both numbers, so that they are equal on every machine. The result
        is None for distributions without a certified bound or without a variance.
        """
        return None

    @abstractmethod
    def integer_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return the integer quantiles of tail probabilities, and flags of the certain quantiles.

        `IntegerDistribution.integer_quantile` defines both.
        """

    @abstractmethod
    def tail(self, k: int, upper: bool) -> arb:
        """Return an interval (ball) around P(K >= k) if `upper`, else around P(K <= k).

        The number k may be any integer.
        """

    def half_width(self, confidence: float) -> int:
        """Return the least number of steps w with P(|K| <= w) >= confidence.

        If intervals (balls) can't decide whether a width suffices, the result is the next larger
        width.
        """
        # The declared decimal is meant: the float 0.95 itself is slightly below 95/100.
        error_probability = Fraction(1) - exact(repr(float(confidence)))
        if not 0 < error_probability < 1:
            raise ValueError("a confidence lies between 0 and 1")
        u = np.array([float(error_probability) / 2])
        guess = max(abs(float(self.integer_quantile(u, upper)[0][0])) for upper in (True, False))
        with ctx.workprec(128):
            bound = ball(error_probability)

            def too_narrow(w: int) -> bool:
                """Return whether noise beyond this width may be too likely."""
                # Where balls can't decide, the width counts as too narrow.
                return w < 0 or not self._two_sided_tail(w) <= bound

            widest = largest_true(too_narrow, int(guess))
        # A width of -1 counts as too narrow, so that the search ends even if noise is always 0.
        return 0 if widest is None else widest + 1

    def unrounded_half_width(self, confidence: float) -> float:
        """Return the half-width w with P(|K + U| <= w) = confidence.

        The variable U is uniform between -1/2 and 1/2 step and independent of K, so w need not be
        a whole number of steps. This half-width suits sums over several cells. Ball arithmetic
        computes w, so that w is equal on every machine.
        """
        width = self.half_width(confidence)
        with ctx.workprec(128):
            error_probability = 1 - ball(exact(repr(float(confidence))))
            before = self._two_sided_tail(width - 1) if width else arb(1)
            # With U, the tail is linear between w - 1/2 and w + 1/2, because U spreads each integer
            # evenly over one step.
            part = (before - error_probability) / (before - self._two_sided_tail(width))
            return width - 0.5 + float(part.mid())

    def _two_sided_tail(self, w: int) -> arb:
        """Return an interval (ball) around the probability P(|K| > w)."""
        return self.tail(w + 1, True) + self.tail(-w - 1, False)


class SymmetricMechanism(Mechanism):
    """A mechanism whose noise is symmetric around 0."""

    @property
    def is_symmetric(self) -> bool:
        """Return True, because K and -K have the same distribution."""
        return True

    @abstractmethod
    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return the integers k with P(K >= k + 1) <= u < P(K >= k), and flags of certain k.

        Every tail probability u lies in (0, 1/2].
        """

    @abstractmethod
    def upper_tail(self, k: int) -> arb:
        """Return an interval (ball) around the probability P(K >= k) for an integer k >= 1."""

    def integer_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return upper quantiles, or their negatives for the lower tail, with their flags."""
        k, sure = self.upper_quantile(u)
        return (k if upper else -k), sure

    def tail(self, k: int, upper: bool) -> arb:
        """Return an interval (ball) around P(K >= k) if `upper`, else around P(K <= k)."""
        j = k if upper else -k
        # By symmetry P(K >= j) is 1 - P(K >= 1 - j).
        return self.upper_tail(j) if j >= 1 else 1 - self.upper_tail(1 - j)

    def _two_sided_tail(self, w: int) -> arb:
        """Return twice the probability of noise above w."""
        return 2 * self.upper_tail(w + 1)


class RealQuantileMechanism(Mechanism):
    """A mechanism whose integer quantiles are the floors of real quantiles.

    Every such mechanism implements the protocol `UnimodalDistribution`.
    """

    @property
    @abstractmethod
    def typical_quantile_error(self) -> float:
        """Return the typical error of `real_quantile`, in steps.

        The error determines the width of the segments of integers from which large noise is drawn.
        """

    @property
    def mode(self) -> int:
        """Return the integer k from which the probabilities decrease in both directions."""
        return 0

    @abstractmethod
    def real_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Floats | float]:
        """Return real numbers whose floors are the integer quantiles, and bounds of their errors.

        Numbers and errors are in steps.
        """

    @abstractmethod
    def largest_relative_drop(self, first: Floats, size: float) -> Floats | float:
        """Return bounds of the relative drop of probabilities within segments of integers.

        They bound 1 - p(k) / p(j) for any integers k and j of the same segment.
        The segments begin at the integers `first` and have `size` integers each;
        `UnimodalDistribution.largest_relative_drop` says where the bounds hold.
        """

    def integer_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return the floors of real quantiles, and flags of the floors that are certain."""
        return certain_floor(*self.real_quantile(u, upper))

    @cached_property
    def segment_sampler(self) -> SegmentSampler | None:
        """Return the sampler for large scales, or None if every integer is drawn directly."""
        return SegmentSampler.of(self, self.typical_quantile_error, self.mode)


class SymmetricQuantileMechanism(SymmetricMechanism, RealQuantileMechanism):
    """A mechanism of symmetric noise whose lower real quantiles mirror its upper real quantiles."""

    @abstractmethod
    def upper_real_quantile(self, u: Floats) -> tuple[Floats, Floats | float]:
        """Return real numbers x for tail probabilities u, and bounds of their errors.

        The floor k of x satisfies P(K >= k + 1) <= u < P(K >= k).
        """

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return the floors of upper real quantiles, and flags of the floors that are certain."""
        return certain_floor(*self.upper_real_quantile(u))

    def real_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Floats | float]:
        """Return upper real quantiles, or their mirror images for the lower tail, and errors."""
        quantiles, error = self.upper_real_quantile(u)
        # If x is not a whole number, floor(1 - x) is -floor(x), which is the mirrored integer.
        # Whole numbers are never certain floors.
        return (quantiles if upper else 1.0 - quantiles), error


def normal_relative_drop(scale: float, offset: float, first: Floats, size: float) -> Floats:
    """Return `largest_relative_drop` for values proportional to a normal density with an offset.

    The value at k is exp(-(k / scale)^2 / 2 - offset |k| / scale), and may be a probability or a
    density. In each segment, the logarithm of this value is steepest at the end that is farther
    from zero.
    """
    slope = np.abs(first)
    # One more step, because a rounded density is an integral that reaches half a step beyond its
    # integer.
    slope += size + 1.0
    slope *= 1.0 / scale
    slope += offset
    slope *= size / scale
    return slope


def interval_upper_float(x: arb) -> float:
    """Return the least float that is at least the upper end of an interval (ball)."""
    mantissa, exponent = (int(part) for part in x.upper().man_exp())
    return round_up(Fraction(mantissa) * Fraction(2) ** exponent)


def parse_shape_number(
    kind: type[Mechanism], value: str | float | None, name: str, place: Place | None
) -> Fraction:
    """Return the exact value of a declared shape parameter.

    Raises BudgetError: DP-MECH-003 if the value is missing or not a decimal number.
    """
    try:
        return exact(str(value))
    except ValueError:
        raise BudgetError("DP-MECH-003", place=place, mechanism=kind.name, known=name) from None
