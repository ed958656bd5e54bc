"""The base of mechanisms: a distribution on the integers, its privacy loss and its errors."""

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
from dprelease.numerics.blocks import LawBlocks
from dprelease.numerics.lattice import Flags, Floats, SampledLaw, certain_floor, largest_true
from dprelease.numerics.rounding import exact, round_up

LARGEST_CENTER = 2.0**62

QUANTILE_ERROR = 2.0**-40
"""Claimed bound, in scales, on the error of a float quantile for tails above 2**-20.

An interval of width 2**-64 at such a tail moves the quantile by less than 2**-43 scales. The
library functions that compute quantiles have errors of a few units in the last place. The tests
compare them with ball arithmetic at many points.
"""


@dataclass(frozen=True)
class Mechanism(Randomizer):
    """Integer noise K, in steps, added independently to every cell of a vector.

    `scale` is in steps. A mechanism is a `SampledLaw`.
    """

    @property
    def law(self) -> SampledLaw:
        """Return the exact distribution of K."""
        return self

    def federated(self, parties: int) -> Self:
        """Return the distribution of each of `parties` shares, whose sum has this scale.

        Only distributions that are closed under sums before rounding have such shares. The sum of
        rounded shares is not the rounded sum: `privacy/rounded_shares.py` bounds the difference for
        stable noise.

        Raises
        ------
        ValueError
            If `parties` is below 1.
        BudgetError
            DP-FED-001 if shares of the noise are not of the same family, DP-MECH-001 if the scale
            of a share can't be certified.
        """
        reason = "a sum of such noise is not of its own kind"
        raise BudgetError("DP-FED-001", mechanism=self.name, reason=reason)

    @property
    def blocks(self) -> LawBlocks | None:
        """Return the blocks of cells for drawing, or None if cells are drawn directly."""
        return None

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Return whether K and -K have the same distribution."""

    @classmethod
    def tells_moments(cls) -> bool:
        """Return whether the family implements `moments_above`."""
        return cls.moments_above is not Mechanism.moments_above

    @property
    def moments_above(self) -> tuple[Fraction, Fraction] | None:
        """Return a certified upper bound of the variance, and the exact mean, in steps.

        Both are computed with ball arithmetic, so they are equal on every machine. The result is
        None for distributions without a certified bound or without a variance.
        """
        return None

    @abstractmethod
    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return integers k, and flags of the certain ones; see `LatticeLaw.invert`."""

    @abstractmethod
    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k), or around P(K <= k) if not `upper`, for any k."""

    def half_width(self, confidence: float) -> int:
        """Return the least w, in steps, with P(|K| <= w) >= confidence, or slightly more."""
        miss = Fraction(1) - exact(repr(float(confidence)))
        if not 0 < miss < 1:
            raise ValueError("a confidence lies between 0 and 1")
        u = np.array([float(miss) / 2])
        guess = max(abs(float(self.invert(u, upper)[0][0])) for upper in (True, False))
        with ctx.workprec(128):
            bound = ball(miss)

            def too_narrow(w: int) -> bool:
                # Where balls can't decide, the width counts as too narrow.
                return w < 0 or not self._two_sided_tail(w) <= bound

            widest = largest_true(too_narrow, int(guess))
        return 0 if widest is None else widest + 1

    def smooth_width(self, confidence: float) -> float:
        """Return the w with P(|K + U| <= w) = confidence, for a U uniform within half a step of 0.

        So w is not rounded to steps, and suits sums of several cells, whose noise has many steps.
        It is computed with ball arithmetic, so it is equal on every machine.
        """
        width = self.half_width(confidence)
        with ctx.workprec(128):
            miss = 1 - ball(exact(repr(float(confidence))))
            before = self._two_sided_tail(width - 1) if width else arb(1)
            part = (before - miss) / (before - self._two_sided_tail(width))
            return width - 0.5 + float(part.mid())

    def _two_sided_tail(self, w: int) -> arb:
        """Return a ball around P(|K| > w)."""
        return self.tail(w + 1, True) + self.tail(-w - 1, False)


class Symmetric(Mechanism):
    """A mechanism whose noise is symmetric around 0."""

    @property
    def symmetric(self) -> bool:
        """Return True: K and -K have the same distribution."""
        return True

    @abstractmethod
    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return k with P(K >= k + 1) <= u < P(K >= k), and flags of the certain ones.

        Every u is in (0, 1/2].
        """

    @abstractmethod
    def upper_tail(self, k: int) -> arb:
        """Return a ball around P(K >= k) for k >= 1."""

    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return k and where it is certain; see `LatticeLaw.invert`."""
        k, sure = self.upper_quantile(u)
        return (k if upper else -k), sure

    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k), or P(K <= k)."""
        j = k if upper else -k
        return self.upper_tail(j) if j >= 1 else 1 - self.upper_tail(1 - j)

    def _two_sided_tail(self, w: int) -> arb:
        return 2 * self.upper_tail(w + 1)


class RealQuantile(Mechanism):
    """A mechanism whose noise is the floor of a real quantile: a `BlockLaw`."""

    @property
    @abstractmethod
    def position_error(self) -> float:
        """Return the typical error of `position`, in steps; it determines the width of blocks."""

    @property
    def mode(self) -> int:
        """Return the k on both sides of which probabilities start to decrease."""
        return 0

    @abstractmethod
    def position(self, u: Floats, upper: bool) -> tuple[Floats, Floats | float]:
        """Return real numbers whose floors are `invert`, and bounds of their errors, in steps."""

    @abstractmethod
    def largest_relative_drop(self, first: Floats, size: float) -> Floats | float:
        """Return bounds of 1 - p(k) / p(j) within blocks of `size` cells; see `BlockLaw`."""

    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return k and where it is certain; see `LatticeLaw.invert`."""
        return certain_floor(*self.position(u, upper))

    @cached_property
    def blocks(self) -> LawBlocks | None:
        """Return the blocks of cells by which noise is drawn at large scales."""
        return LawBlocks.of(self, self.position_error, self.mode)


class SymmetricQuantile(Symmetric, RealQuantile):
    """Symmetric noise from a real quantile: the lower quantile mirrors the upper one."""

    @abstractmethod
    def upper_position(self, u: Floats) -> tuple[Floats, Floats | float]:
        """Return real x whose floor has P(K >= k + 1) <= u < P(K >= k), and error bounds."""

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return the floor of the real quantile, and where it is certain."""
        return certain_floor(*self.upper_position(u))

    def position(self, u: Floats, upper: bool) -> tuple[Floats, Floats | float]:
        """Return real numbers whose floors are `invert`, and bounds of their errors, in steps."""
        places, error = self.upper_position(u)
        return (places if upper else 1.0 - places), error


def normal_relative_drop(scale: float, offset: float, first: Floats, size: float) -> Floats:
    """Return `largest_relative_drop` for exp(-(k / scale)^2 / 2 - offset |k| / scale).

    These may be probabilities or densities, up to a factor. The slope of their logarithm is largest
    at the end of a block that is farther from zero.
    """
    slope = np.abs(first)
    slope += size + 1.0
    slope *= 1.0 / scale
    slope += offset
    slope *= size / scale
    return slope


def rounded_up(x: arb) -> float:
    """Return the least float that is certainly at least the number in a ball."""
    mantissa, exponent = (int(part) for part in x.upper().man_exp())
    return round_up(Fraction(mantissa) * Fraction(2) ** exponent)


def number(
    kind: type[Mechanism], value: str | float | None, name: str, place: Place | None
) -> Fraction:
    """Return the exact number of a declared shape parameter; raise DP-MECH-003 for other texts."""
    try:
        return exact(str(value))
    except ValueError:
        raise BudgetError("DP-MECH-003", place=place, mechanism=kind.name, known=name) from None
