"""Prove bounds of the losses of stable noise, which rise and fall again.

Let p be the density of stable noise with alpha below 2, in scales, and s the shift. Its outputs are
s/2 - t for all real t. The loss at t >= 0 is

    L(t) = ln p(t - s/2) - ln p(t + s/2),

and the loss at -t is -L(t), with the P and Q probabilities exchanged. Stable noise is normal noise
of a random variance (Feller 1971, "An introduction to probability theory and its applications",
volume II, section VI.2, example h). So p(x) = g(x^2), where g is a mixture of exponential functions
of -x^2. By Hölder's inequality, ln g is convex, and m = -(ln g)' is positive and never rises. Three
bounds of L follow, because L(t) is the integral of m from (t - s/2)^2 to (t + s/2)^2:

* From 0 to s/2, L rises, because p(t - s/2) rises and p(t + s/2) falls.
* From s/2 on, L(t) / t never rises: it is 2 s times the mean of m over an interval whose ends both
  rise. So L(t) lies between L(b) t / b and L(a) t / a, for s/2 <= a <= t <= b.
* L'(t) = 2 (t + s/2) m((t + s/2)^2) - 2 (t - s/2) m((t - s/2)^2). The slopes of ln g between two
  points bound m at all smaller and all larger points.

The hockey-stick divergence of the shift s is the integral of (p(x) - e^eps p(x - s))+. For eps >= 0
it increases with s: its derivative is e^eps times the integral of p'(x - s) over outputs with a
loss above eps, where x < s/2, so that p rises at x - s. So the shift by the whole sensitivity
covers smaller ones. Rounding to the lattice is post-processing.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from flint import arb, ctx

from dprelease.numerics.balls import ball
from dprelease.numerics.stable.entire_series import density_and_tail
from dprelease.verification.certificate.closed_forms import upper_end
from dprelease.verification.certificate.neighbour_blocks import ENDS, Block, BlockOptions

LEAST_BITS = 96
"""The least precision of densities and tails."""

LEAST_TAIL = 2.0**-40
"""The tail from which on the largest loss is bounded in closed form."""

PARTS = 4
"""The number of parts into which the search of the largest loss splits an interval."""

FINEST, COARSEST = 2.0**-9, 2.0**-3
"""The finest and the coarsest distance between two outputs, in multiples of a width of p there."""

TAIL_START = 40.0
"""The number of scales from which on distances grow faster than outputs."""

EXCESS, EXCESS_OF_SMALL_SHIFT = 2.0**-34, 2.0**-28
"""The relative accuracy of the largest loss, for shifts of at least one scale and for others."""

MOST_SPLITS = 4000
"""The largest number of intervals in the search of the largest loss."""


@lru_cache(maxsize=2**17)
def _log_density_and_tail(alpha: float, x: Fraction, bits: int) -> tuple[arb, arb]:
    """Return intervals (balls) around ln p(x) and P(X > x) at x >= 0, with so many bits."""
    density, tail = density_and_tail(alpha, x, bits)
    with ctx.workprec(bits):
        return density.log(), tail


@dataclass(frozen=True)
class StableLosses:
    """The losses of stable noise of an `alpha`, for a `shift` in scales, at a precision."""

    alpha: float
    shift: Fraction
    bits: int = LEAST_BITS

    @classmethod
    def at_precision_of(cls, alpha: float, shift: Fraction, least: float) -> StableLosses:
        """Return the losses at a precision for tails of at least `least`."""
        # Multiples of 32, so that several resolutions use the same densities.
        return cls(alpha, shift, max(LEAST_BITS, 64 + 32 * math.ceil(-math.log2(least) / 32)))

    def blocks(self, options: BlockOptions, largest: arb) -> list[Block]:
        """Return all outputs in blocks of known probabilities and bounded losses.

        `largest` is a bound of all losses.
        """
        edges = self._edges(options)
        blocks = []
        for i, (a, b) in enumerate(pairwise(edges)):
            before, after = edges[max(0, i - 1)], edges[min(i + 2, len(edges) - 1)]
            low, high = self._loss_range(before, a, b, after)
            blocks.append(Block(*self._masses(a, b), low, high.min(largest)))
        p, q = (self._tail(edges[-1] + moved) for moved in (-self._half, self._half))
        blocks.append(Block(p, q, arb(0), self._largest_in_tail(edges[-1]).min(largest)))
        return [*blocks, *(_mirror(block) for block in blocks)]

    def largest(self) -> Fraction:
        """Return an upper bound of the largest loss, nearly always within the stated accuracy."""
        return _largest_loss(self.alpha, self.shift, self.bits)

    def searched_largest(self) -> Fraction:
        """Return the largest loss by branch and bound: the interval of the largest bound is split.

        All losses from 0 to half of the shift are at most the loss there.
        """
        edges = [t for t in self._edges(BlockOptions(math.inf, LEAST_TAIL, 0)) if t >= self._half]
        excess = arb(EXCESS if self.shift >= 1 else EXCESS_OF_SMALL_SHIFT)
        best = max(self._loss(t).lower() for t in edges)
        waiting = [self._interval(a, b) for a, b in pairwise(edges)]
        heapq.heapify(waiting)
        for _ in range(MOST_SPLITS):
            if waiting[0].high <= best * (1 + excess):
                break
            wide = heapq.heappop(waiting)
            width = (wide.end - wide.start) / PARTS
            for i in range(PARTS):
                part = self._interval(wide.start + i * width, wide.start + (i + 1) * width)
                best = best.max(self._loss(part.end).lower())
                heapq.heappush(waiting, part)
        return upper_end(waiting[0].high.max(self._largest_in_tail(edges[-1])).max(best))

    @property
    def _half(self) -> Fraction:
        """Return half of the shift."""
        return self.shift / 2

    def _interval(self, start: Fraction, end: Fraction) -> _Interval:
        """Return an interval of outputs with a bound of its losses."""
        width = end - start
        before = max(start - width, self._half)
        _, high = self._loss_range(before, start, end, end + width)
        return _Interval(arb(high.upper()), start, end)

    def _log_density(self, x: Fraction) -> arb:
        """Return ln p(x)."""
        return _log_density_and_tail(self.alpha, abs(x), self.bits)[0]

    def _tail(self, x: Fraction) -> arb:
        """Return P(X > |x|)."""
        return _log_density_and_tail(self.alpha, abs(x), self.bits)[1]

    def _loss(self, t: Fraction) -> arb:
        """Return L(t)."""
        return self._log_density(t - self._half) - self._log_density(t + self._half)

    def _loss_range(
        self, before: Fraction, a: Fraction, b: Fraction, after: Fraction
    ) -> tuple[arb, arb]:
        """Return bounds of L from `a` to `b`; `before` <= a and `after` >= b are near them."""
        low, high = self._loss(a), self._loss(b)
        if b <= self._half:
            return low, high  # L rises here
        ends = low.min(high), low.max(high)
        least, most = high * ball(a / b), low * ball(b / a)
        if not (self._half <= before < a and b < after):
            return least, most
        slowest, fastest = self._slopes(before, a, b, after)
        if slowest >= 0 or fastest <= 0:
            return ends  # L rises or falls in all of the interval
        width = ball(b - a)
        return least, most.min(low + fastest * width).min(high - slowest * width)

    def _slopes(
        self, before: Fraction, a: Fraction, b: Fraction, after: Fraction
    ) -> tuple[arb, arb]:
        """Return bounds of L' from `a` to `b`."""
        half = self._half
        near, far = ball(a - half), ball(b - half)
        least = ball(a + half) * self._fall(b + half, after + half)
        most = ball(b + half) * self._fall(before + half, a + half)
        return (
            2 * (least - far * self._fall(before - half, a - half)),
            2 * (most - near * self._fall(b - half, after - half)),
        )

    def _fall(self, x: Fraction, y: Fraction) -> arb:
        """Return the mean of m between x^2 and y^2."""
        return (self._log_density(x) - self._log_density(y)) / ball(y * y - x * x)

    def _masses(self, a: Fraction, b: Fraction) -> tuple[arb, arb]:
        """Return the P and the Q probability of all outputs s/2 - t with a <= t <= b."""
        near = sorted((abs(a - self._half), abs(b - self._half)))
        return (
            self._tail(near[0]) - self._tail(near[1]),
            self._tail(a + self._half) - self._tail(b + self._half),
        )

    def _edges(self, options: BlockOptions) -> list[Fraction]:
        """Return the edges of blocks: 0, the half of the shift, and all others up to the tail."""
        half, s = self._half, float(self.shift)
        fine = min(max(ENDS * options.fine / min(s, 1.0), FINEST), COARSEST)
        edges, last = [Fraction(0)], self._tail_start(options.least)
        while edges[-1] < last:
            t = edges[-1]
            y = abs(float(t - half))
            step = fine * max(0.5, y)
            if t >= half and y > TAIL_START:
                step = min(step * y / TAIL_START, y)
            after = t + Fraction(math.ceil(step * 2**20), 2**20)
            edges.append(half if t < half <= after else after)
        return edges

    def _tail_start(self, least: float) -> Fraction:
        """Return an output whose tail is at most `least`, and from which on the series holds."""
        t = self.shift / 2 + Fraction(math.ceil(2 * TAIL_START))
        while not (
            self._tail(t - self.shift / 2) <= least
            and self._series_error(t - self.shift / 2) < 0.25
        ):
            t *= 2
        return t

    def _series_error(self, x: Fraction) -> arb:
        """Return an r(x) that falls with x: p(x) is its first tail term, times 1 - r to 1 + r.

        The rest of the series behind its first term is Gamma(2 alpha + 1) / (2 pi) (x sin(pi / (2
        alpha)))^(-2 alpha - 1); see `numerics/stable/stable_balls.py`.
        """
        alpha, at = arb(self.alpha), ball(x)
        first = (alpha + 1).gamma() * (alpha / 2).sin_pi() / arb.pi() * at ** (-alpha - 1)
        ray = at * (arb.pi() / (2 * alpha)).sin()
        rest = (2 * alpha + 1).gamma() / (2 * arb.pi()) * ray ** (-2 * alpha - 1)
        return arb((rest / first).upper())

    def _largest_in_tail(self, a: Fraction) -> arb:
        """Return a bound of L(t) for all t >= a.

        With y = t - s/2, L(t) <= 2 t s m(y^2). The mean of m between (y/2)^2 and y^2 is at least
        m(y^2), so m(y^2) <= ln(p(y/2) / p(y)) / (3/4 y^2), and p(y/2) / p(y) is at most 2^(alpha +
        1) (1 + r(y/2)) / (1 - r(y)). All of it falls with y.
        """
        y = a - self.shift / 2
        near, far = self._series_error(y / 2), self._series_error(y)
        ratio = (self.alpha + 1) * arb(2).log() + ((1 + near) / (1 - far)).log()
        return 2 * ball(a * self.shift) * ratio / (ball(y * y) * 3 / 4)


@dataclass(frozen=True, slots=True)
class _Interval:
    """An interval of outputs, with an upper bound of its losses."""

    high: arb
    start: Fraction
    end: Fraction

    def __lt__(self, other: _Interval) -> bool:
        """Return whether this interval has the larger bound, so that it is split first."""
        return bool(self.high > other.high)


def _mirror(block: Block) -> Block:
    """Return the block of the outputs with the opposite losses."""
    assert block.low is not None  # for type checkers, because all blocks have bounds
    assert block.high is not None
    return Block(block.q, block.p, -block.high, -block.low)


@lru_cache(maxsize=256)
def _largest_loss(alpha: float, shift: Fraction, bits: int) -> Fraction:
    """Return the result of `StableLosses.searched_largest`."""
    with ctx.workprec(bits):
        return StableLosses(alpha, shift, bits).searched_largest()
