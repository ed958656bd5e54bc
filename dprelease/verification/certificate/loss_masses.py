"""Privacy-loss distributions in integers, rounded up, whose compositions are upper bounds.

A distribution has the losses ln P(o)/Q(o) of outputs o under P, on multiples of a width. With
probabilities m at the losses l, delta(epsilon) is m(infinity) plus the sum over l > epsilon of m (1
- exp(epsilon - l)). This delta increases if any probability increases, and if probability moves to
a larger loss. The same is true after a composition, which adds losses. Probabilities are whole
numbers of units of 2**-bits. Products of polynomials with whole coefficients are exact, and
fractions of a unit are rounded up, so that no result depends on floating point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb, ctx, fmpz_poly

from dprelease.numerics.balls import ball

SPARE_BITS = 64
"""The precision of balls exceeds that of a unit by this number of bits."""


@dataclass(frozen=True, slots=True)
class LossMasses:
    """P probabilities of the losses (first + i) width, and of infinity, in units of 2**-bits."""

    width: Fraction
    first: int
    masses: Sequence[int]
    infinite: int
    bits: int

    @property
    def total(self) -> int:
        """Return the sum of all probabilities: 2**bits plus the units added by rounding up."""
        return int(sum(self.masses)) + self.infinite

    def compose(self, other: LossMasses) -> LossMasses:
        """Return the distribution of the sum of two independent losses on the same grid."""
        product = fmpz_poly(list(self.masses)) * fmpz_poly(list(other.masses))
        # The sum of two losses is infinite if one of them is.
        infinite = self.total * other.total - int(sum(self.masses)) * int(sum(other.masses))
        return LossMasses(
            self.width,
            self.first + other.first,
            [-(-int(mass) >> self.bits) for mass in product.coeffs()],
            -(-infinite >> self.bits),
            self.bits,
        )

    def on_coarser_grid(self) -> LossMasses:
        """Return a distribution on a grid of twice the width, which dominates this distribution.

        The probability of each point in between is split onto its two neighbours so that the Q
        probability is preserved. The shares are 1 - t and t with 1 = (1 - t) e^w + t e^-w, so t = 1
        / (1 + e^-w). This is a mean-preserving spread of the likelihood ratio.
        """
        with ctx.workprec(self.bits + SPARE_BITS):
            share = 1 / (1 + (-ball(self.width)).exp())
            up, down = (probability_units(part, self.bits) for part in (share, 1 - share))
        # The coarser grid consists of the even places, so an odd first or last place gets a
        # neighbour.
        masses = [0, *self.masses] if self.first % 2 else list(self.masses)
        first = self.first - self.first % 2
        merged = [int(mass) for mass in masses[::2]] + [0] * (1 - len(masses) % 2)
        for i, mass in enumerate(masses[1::2]):
            merged[i] += -(-int(mass) * down >> self.bits)
            merged[i + 1] += -(-int(mass) * up >> self.bits)
        return replace(self, width=2 * self.width, first=first // 2, masses=merged)

    def trim(self, allowance: int) -> LossMasses:
        """Return a shorter distribution that dominates this one.

        At most `allowance` units of the largest losses are moved to infinity, and at most as many
        of the smallest losses are moved to the first remaining loss.
        """
        first, last = 0, len(self.masses)
        near = far = 0
        while last > 1 and far + self.masses[last - 1] <= allowance:
            last -= 1
            far += int(self.masses[last])
        while first < last - 1 and near + self.masses[first] <= allowance:
            near += int(self.masses[first])
            first += 1
        masses = list(self.masses[first:last])
        masses[0] += near
        return replace(self, first=self.first + first, masses=masses, infinite=self.infinite + far)

    def delta_at(self, epsilon: Fraction) -> arb:
        """Return an interval (ball) whose upper end is at least delta(epsilon)."""
        with ctx.workprec(self.bits + SPARE_BITS):
            start = max(epsilon // self.width + 1 - self.first, 0)
            fall = (-ball(self.width)).exp()
            factor = ball(epsilon - (self.first + start) * self.width).exp()
            total = arb(self.infinite)
            for mass in self.masses[start:]:
                total += int(mass) * (1 - factor)
                factor *= fall
            return total / arb(2) ** self.bits

    def epsilon_at(self, delta: Fraction) -> arb | None:
        """Return a ball whose upper end is an epsilon >= 0 with delta(epsilon) <= `delta`, or None.

        The search starts at the largest loss. Between two points of the grid, delta(epsilon) is p -
        exp(epsilon) q plus `infinite`; p and q are the probabilities of all larger losses under P
        and under Q.
        """
        with ctx.workprec(self.bits + SPARE_BITS):
            least = ball(delta * 2**self.bits) - self.infinite
            if not least > 0:
                return None
            width = ball(self.width)
            rise, loss = width.exp(), (self.first + len(self.masses) - 1) * width
            factor = (-loss).exp()
            p, q = 0, arb(0)
            for i in range(len(self.masses) - 1, -1, -1):
                p += int(self.masses[i])
                q += int(self.masses[i]) * factor
                factor *= rise
                below = (self.first + i - 1) * width
                below = below if i and below > 0 else arb(0)
                # A comparison that balls leave open counts as too large, so that no epsilon is too
                # small.
                if not p - below.exp() * q <= least:
                    excess = p - least
                    above = (self.first + i) * width
                    found = (excess / q).log() if excess > 0 and q > 0 else above
                    return found.max(below).min(above).max(arb(0))
                if below.is_zero():
                    break
            return arb(0)


def probability_units(mass: arb, bits: int) -> int:
    """Return a probability as a whole number of units of 2**-bits, rounded up."""
    mantissa, exponent = (int(part) for part in mass.upper().man_exp())
    shift = exponent + bits
    return mantissa << shift if shift >= 0 else -(-mantissa >> -shift)


class Composer:
    """Composes privacy-loss distributions; every result is rounded up.

    `allowance` is the number of units that each step may move at either end, as in
    `LossMasses.trim`. A distribution with more than `longest` points is moved to a coarser grid.
    """

    def __init__(self, allowance: int, longest: int) -> None:
        self.allowance = allowance
        self.longest = longest

    def power(self, distribution: LossMasses, times: int) -> LossMasses:
        """Return the composition of `times` >= 1 copies, by squaring."""
        distribution = self.shortened(distribution)
        product: LossMasses | None = None
        while True:
            if times % 2:
                product = (
                    distribution if product is None else self.compose_pair(product, distribution)
                )
            times //= 2
            if not times:
                assert product is not None  # for type checkers, because `times` is at least 1
                return product
            distribution = self.compose_pair(distribution, distribution)

    def compose_all(self, distributions: Sequence[LossMasses]) -> LossMasses:
        """Return the composition of all distributions; each step composes the two shortest."""
        waiting = sorted(distributions, key=lambda distribution: -len(distribution.masses))
        while len(waiting) > 1:
            both = self.compose_pair(waiting.pop(), waiting.pop())
            place = len(waiting)
            while place and len(waiting[place - 1].masses) < len(both.masses):
                place -= 1
            waiting.insert(place, both)
        return self.shortened(waiting[0])

    def compose_pair(self, one: LossMasses, other: LossMasses) -> LossMasses:
        """Return the composition of two distributions, on the coarser of their two grids."""
        while one.width < other.width:
            one = one.on_coarser_grid()
        while other.width < one.width:
            other = other.on_coarser_grid()
        return self.shortened(one.compose(other))

    def shortened(self, distribution: LossMasses) -> LossMasses:
        """Return a distribution of at most `longest` points that dominates another one."""
        distribution = distribution.trim(self.allowance)
        while len(distribution.masses) > self.longest:
            distribution = distribution.on_coarser_grid()
        return distribution
