"""Exact draws at large scales: first a segment of 2**b neighbouring integers, then one of them.

If a float quantile has an error of up to e steps, it can't decide the integer of a draw near the
boundary between two integers. This concerns a part of about 2e of all draws, which at a scale of
2**40 is nearly every draw. So a segment is drawn first, which is so wide that only a part of 2**-18
of the draws is undecided. Segment h contains the integers from h 2**b to (h + 1) 2**b - 1. So the
tails of segment numbers are tails of the original distribution at the ends of segments, and
`lattice` draws the number H of a segment with exactly

    P(H = h) = P(h 2**b <= K < (h + 1) 2**b) = the sum of p(k) over the integers of segment h.

Then integers of segment H are proposed uniformly, each with a number W that is uniform in [0, 1).
The first proposal whose W is below p(k) / M is accepted, where M is the largest probability of an
integer in the segment. So the integer k of segment h is drawn with probability p(k) / (the sum of p
over the segment). The product of both probabilities is p(k), so the draw is exact.

Probabilities never rise away from `mode`, so M is the probability of the integer nearest to the
mode. Segments are so narrow that p(k) / M is hardly below 1. For all but about a millionth of the
proposals, a float bound of 1 - p(k) / M over the segment, `largest_relative_drop`, suffices to
accept them. The other proposals are compared in balls, with as many further bits of W as needed.
Half of the bits of a word propose an integer, and the other half are the first bits of W. Proposals
and their number depend only on random bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from flint import arb, ctx

from dprelease.numerics.entropy import BitSource, Words
from dprelease.numerics.lattice import (
    LEAST_FLOAT_TAIL,
    LIMIT,
    Flags,
    Floats,
    IntegerDistribution,
    Integers,
    LazyUniform,
    certain_floor,
    locate_exactly,
    quantiles_of_both_tails,
    tails_of_words,
    wrap_or_saturate,
)

QUANTILE_BITS = 18
"""The typical error of a quantile is at most 2**-18 of a step, or of the width of a segment."""

CANCELLED_BITS = 80
"""Additional bits against the cancellation in the difference of two tails.

They suffice for scales up to 2**50 and for tails that one word distinguishes from 0. Outside this
range the balls show that more bits are needed.
"""

ROUNDING_FACTOR = 1.0 - 2.0**-50
"""Factor for rounding errors between a `largest_relative_drop` and the accepted values of W."""


class UnimodalDistribution(IntegerDistribution, Protocol):
    """A distribution with real quantiles, whose probabilities never rise away from a mode."""

    def real_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Floats | float]:
        """Return (n,) real numbers whose floors are the integer quantiles, and bounds of errors.

        The bounds hold for tail probabilities u of 2**-20 and more. For a smaller u the result is a
        guess.
        """
        ...

    def largest_relative_drop(self, first: Floats, size: float) -> Floats | float:
        """Return upper bounds of 1 - p(k) / p(j) for any integers k and j of the same segment.

        `first` (n,) are the first integers of n segments of `size` integers, and the result has a
        bound for each segment. A bound holds if an integer of the segment has a tail probability of
        2**-20 or more.
        """
        ...


@dataclass(frozen=True, eq=False)
class SegmentSampler:
    """A sampler that draws first a segment of 2**`width` integers, and then one of its integers.

    As an `IntegerDistribution`, it is the distribution of the numbers of segments.
    """

    distribution: UnimodalDistribution
    width: int
    mode: int

    @classmethod
    def of(cls, distribution: UnimodalDistribution, error: float, mode: int) -> Self | None:
        """Return the sampler for a typical quantile error of `error` steps.

        The result is None if the error is so small that no segments are needed.
        """
        width = math.ceil(math.log2(error)) + QUANTILE_BITS
        return cls(distribution, width, mode) if width > 0 else None

    @property
    def is_symmetric(self) -> bool:
        """Return False, because segment 0 begins with the integer 0."""
        return False

    def integer_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return the quantiles of segment numbers, and flags of the certain quantiles."""
        return self._certain_segments(*self.distribution.real_quantile(u, upper))

    def tail(self, h: int, upper: bool) -> arb:
        """Return a ball around the probability of segment h and all segments beyond it.

        It is the upper tail from the first integer of the segment on if `upper`, else the lower
        tail up to the last integer of the segment.
        """
        return self.distribution.tail(
            h << self.width if upper else ((h + 1) << self.width) - 1, upper
        )

    def draws(self, words: Words, bits: BitSource, modular: bool) -> Integers:
        """Return (n,) draws from n words.

        Each word determines the segment of a draw, and further words determine its integer.
        """
        u, lower = tails_of_words(words)
        h, sure = self._segment_numbers(u, lower)
        # Bounds of the relative drop hold only where the tail is 2^-20 or more.
        large = u >= LEAST_FLOAT_TAIL
        sure &= large
        h[~sure] = 0.0
        segments = h.astype(np.int64)
        # Drawn for all draws, also uncertain ones, so that the number of words does not depend on
        # which are uncertain.
        proposed = bits.words(len(words))
        exact = {int(i): locate_exactly(self, int(words[i]), bits) for i in np.flatnonzero(~sure)}
        for i, segment in exact.items():
            segments[i] = wrap_or_saturate(
                segment, modular
            )  # saturated numbers lie outside all other segments
        accepted = large & self._is_certainly_accepted(segments, proposed)
        if not modular:  # clamp the segments first, so that no integer overflows
            np.clip(segments, (-LIMIT >> self.width) - 1, LIMIT >> self.width, out=segments)
        draws = (segments << self.width) + self._offset_in_segment(proposed).view(np.int64)
        if not modular:
            np.clip(draws, -LIMIT, LIMIT, out=draws)
        for i in np.flatnonzero(~accepted).tolist():
            segment = exact[i] if i in exact else int(h[i])
            draws[i] = wrap_or_saturate(
                self._accepted_integer(segment, int(proposed[i]), bits), modular
            )
        return draws

    def draw(self, word: int, bits: BitSource) -> int:
        """Return the draw that one word determines, decided by balls only, without clamping."""
        proposed = int(bits.words(1)[0])
        return self._accepted_integer(locate_exactly(self, word, bits), proposed, bits)

    def _segment_numbers(self, u: Floats, lower: Flags) -> tuple[Floats, Flags]:
        """Return the segment for each tail probability, and whether it is certain."""
        if not self.distribution.is_symmetric:
            return quantiles_of_both_tails(self, u, lower)
        position, error = self.distribution.real_quantile(u, True)
        np.subtract(1.0, position, out=position, where=lower)
        return self._certain_segments(position, error)

    def _certain_segments(self, position: Floats, error: Floats | float) -> tuple[Floats, Flags]:
        position *= 2.0**-self.width
        return certain_floor(position, error * 2.0**-self.width)

    def _offset_in_segment(self, proposed: Words) -> Words:
        """Return the offset in the segment that the first bits of a word propose."""
        return proposed >> np.uint64(64 - self.width)

    def _is_certainly_accepted(self, segments: Integers, proposed: Words) -> Flags:
        """Return flags of the proposals that are accepted for every W with the known first bits.

        A flag is valid only if an integer of its segment has a tail probability of 2**-20 or more.
        """
        rest, size = 64 - self.width, 2.0**self.width
        acceptance = (proposed & np.uint64((1 << rest) - 1)).view(np.int64).astype(np.float64)
        least = (
            1.0 - self.distribution.largest_relative_drop(segments.astype(np.float64) * size, size)
            # One less, because further bits of W may follow the known ones.
        ) * (2.0**rest * ROUNDING_FACTOR) - 1.0
        accepted: Flags = acceptance <= least
        return accepted

    def _accepted_integer(self, segment: int, proposed: int, bits: BitSource) -> int:
        """Return the first accepted integer of a segment.

        `proposed` is the word that determines the first proposal.
        """
        rest = 64 - self.width
        while True:
            k = (segment << self.width) + (proposed >> rest)
            acceptance = LazyUniform(bits, proposed, rest)
            if acceptance.interval_index(lambda k=k: self._probabilities(k, segment)) == 0:  # type: ignore[misc]
                return k
            proposed = int(bits.words(1)[0])

    def _probabilities(self, k: int, segment: int) -> tuple[arb, arb]:
        """Return P(K = k), and the largest probability of an integer in the segment of k."""
        first = segment << self.width
        last = first + (1 << self.width) - 1
        # The most likely integer may be a neighbour of the mode: next to a steep side of asymmetric
        # noise, the interval of the mode has only half a step on the flat side.
        candidates = {first, last, self.mode - 1, self.mode, self.mode + 1}
        if first > self.mode:
            candidates = {first}
        elif last < self.mode:
            candidates = {last}
        with ctx.workprec(ctx.prec + CANCELLED_BITS):
            largest = arb(0)
            for candidate in candidates:
                if first <= candidate <= last:
                    largest = largest.max(self._probability(candidate))
            return self._probability(k), largest

    def _probability(self, k: int) -> arb:
        """Return P(K = k), as a difference of tails on the side where they cancel less."""
        # Tails on the far side are near 1, where their difference would lose all digits.
        if k >= self.mode:
            return self.distribution.tail(k, True) - self.distribution.tail(k + 1, True)
        return self.distribution.tail(k, False) - self.distribution.tail(k - 1, False)
