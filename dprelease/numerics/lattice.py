"""Exact draws from any distribution on the integers whose tails are known as floats and balls.

A draw inverts a uniform number, whose bits are drawn as needed. One 64-bit word decides whether the
draw lies in the upper or the lower tail, and limits the tail probability U to an interval of width
2**-64. A float quantile with a bound of its error determines the integer k of the draw if all of
this interval certainly belongs to k. The few other draws are decided with more bits, and with
python-flint balls of growing precision. So every integer k is drawn with exactly its probability
P(K = k), whatever the error of the float quantile within its bound, and the running time depends
only on the bits.

The error bound grows with the scale: from about 2**22 steps on, more and more intervals belong to
two integers. For such scales, a segment of neighbouring integers is drawn in this way, and then an
integer of the segment by rejection sampling; see `segments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dprelease.numerics.entropy import BitSource, Words

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

LIMIT = 2**62
"""Largest absolute value of noise and released integers, far above every allowed scale.

Noise and released integers are clamped to +-LIMIT, which is post-processing."""

CHUNK = 2**14
"""Number of draws in a batch, so small that its arrays stay in the second-level cache."""

SIDE_BIT = 63
TAIL_MASK = np.uint64(2**SIDE_BIT - 1)
LEAST_GUESS = 1e-300
"""Tail probability from which a quantile is guessed if the true tail probability underflows."""

LEAST_FLOAT_TAIL = 2.0**-20
"""Least tail probability for which one word is precise enough to use a float quantile."""


class IntegerDistribution(Protocol):
    """The distribution of an integer K."""

    @property
    def is_symmetric(self) -> bool:
        """Return whether K and -K have the same distribution."""
        ...

    def integer_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return integer quantiles k of tail probabilities u in (0, 1/2], and certainty flags.

        For the upper tail, P(K >= k + 1) <= U < P(K >= k), and for the lower tail,
        P(K <= k - 1) <= U < P(K <= k). If the flag of k is set, k is certain: this holds for every
        U within a relative distance of 2**-43 from u.
        """
        ...

    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k) if `upper`, else around P(K <= k).

        The ball has the precision of the flint context.
        """
        ...


class LargeScaleSampler(Protocol):
    """A sampler that draws segments of integers first, for one distribution of a large scale."""

    def draws(self, words: Words, bits: BitSource, modular: bool) -> Integers:
        """Return (n,) draws from n words.

        Each word determines the segment of a draw, and further words determine its integer.
        """
        ...

    def draw(self, word: int, bits: BitSource) -> int:
        """Return the draw that one word determines, decided by balls only, without clamping."""
        ...


class SampledDistribution(IntegerDistribution, Protocol):
    """A distribution that can be drawn from."""

    @property
    def segment_sampler(self) -> LargeScaleSampler | None:
        """Return the sampler for large scales, or None if every integer is drawn directly."""
        ...


def sample(
    distribution: SampledDistribution, n: int, bits: BitSource, *, modular: bool = False
) -> Integers:
    """Return (n,) independent exact draws from `distribution`, clamped to +-2**62.

    If `modular`, draws are reduced modulo 2**64 instead of clamped, as signed integers. Then a sum
    of draws modulo 2**64 is a function of the sum of the drawn integers, which would not hold for
    clamped draws.
    """
    draws = np.empty(n, dtype=np.int64)
    sampler = distribution.segment_sampler
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        words = bits.words(stop - start)
        if sampler is None:
            draws[start:stop] = _draw_chunk(distribution, words, bits, modular)
        else:
            draws[start:stop] = sampler.draws(words, bits, modular)
    return draws


def _draw_chunk(
    distribution: IntegerDistribution, words: Words, bits: BitSource, modular: bool
) -> Integers:
    """Return an integer drawn from the distribution for each random word."""
    u, lower = tails_of_words(words)
    if distribution.is_symmetric:
        k, sure = distribution.integer_quantile(u, True)
        np.negative(k, out=k, where=lower)
    else:
        k, sure = quantiles_of_both_tails(distribution, u, lower)
    # From 2^-20 on, the width of 2^-64 is at most 2^-44 of u, which together with the rounding of u
    # is within the 2^-43 for which flags hold.
    sure &= u >= LEAST_FLOAT_TAIL
    if modular:
        sure &= np.abs(k) < LIMIT  # converting a larger float to an integer is undefined
    undecided = np.flatnonzero(~sure)
    k[undecided] = 0.0  # an undecided guess may be infinite, which no integer represents
    draws = k.astype(np.int64)
    for i in undecided.tolist():
        draws[i] = wrap_or_saturate(locate_exactly(distribution, int(words[i]), bits), modular)
    return draws


def tails_of_words(words: Words) -> tuple[Floats, Flags]:
    """Return the tail probabilities that words determine, and flags of the lower tail.

    A tail probability is never 0.
    """
    # The view as signed integers is safe because bit 63 is 0, and NumPy converts them faster than
    # unsigned ones.
    u: Floats = (words & TAIL_MASK).view(np.int64).astype(np.float64)
    u *= 2.0**-64
    np.maximum(u, 2.0**-64, out=u)  # a probability of 0 has no float quantile; balls decide
    return u, words.view(np.int64) < 0


def quantiles_of_both_tails(
    distribution: IntegerDistribution, u: Floats, lower: Flags
) -> tuple[Floats, Flags]:
    """Return the integer quantiles of upper and lower tail probabilities, and certainty flags.

    `lower` flags the probabilities of the lower tail.
    """
    k, sure = np.empty_like(u), np.empty(u.shape, dtype=np.bool_)
    for side in (False, True):
        on_side = lower == side
        k[on_side], sure[on_side] = distribution.integer_quantile(u[on_side], not side)
    return k, sure


def certain_floor(position: Floats, error: float | Floats) -> tuple[Floats, Flags]:
    """Return floor(position), and flags of the floors that are certain.

    A floor is certain if all numbers within `error` of the position have the same floor.
    """
    k = np.floor(position)
    rest = position - k
    return k, (rest > error) & (rest < 1.0 - error)


def exact_draw(
    distribution: SampledDistribution, word: int, bits: BitSource, *, modular: bool = False
) -> int:
    """Return the draw that `word` and as many further words as needed determine.

    Balls alone decide the draw. As in `sample`, it is clamped, or reduced modulo 2**64.
    """
    sampler = distribution.segment_sampler
    k = locate_exactly(distribution, word, bits) if sampler is None else sampler.draw(word, bits)
    return wrap_or_saturate(k, modular)


def wrap_or_saturate(draw: int, modular: bool) -> int:
    """Return a draw modulo 2**64 as a signed integer if `modular`, else clamped to +-`LIMIT`."""
    if modular:
        # Python's remainder is never negative, so the result lies from -2^63 to 2^63 - 1.
        return (draw + 2**63) % 2**64 - 2**63
    return max(-LIMIT, min(LIMIT, draw))


def locate_exactly(distribution: IntegerDistribution, word: int, bits: BitSource) -> int:
    """Return the integer of a draw, decided by balls only.

    `word` has the first bits of the uniform number, and further words are drawn as needed.
    """
    upper = word >> SIDE_BIT == 0
    value, length = word & int(TAIL_MASK), 64
    while True:
        k = _locate_or_none(distribution, upper, value, length)
        if k is not None:
            return k
        # All bits drawn before are kept: a redraw would change the distribution.
        value, length = value << 64 | int(bits.words(1)[0]), length + 64


def _locate_or_none(
    distribution: IntegerDistribution, upper: bool, value: int, length: int
) -> int | None:
    """Return k if every U in [value, value + 1) * 2**-length belongs to the integer k, else None.

    With T(j) the tail probability from the integer j outward, U belongs to the largest j with
    U < T(j).
    """
    sign = 1 if upper else -1
    with ctx.workprec(length + 64):
        low, high = _binary_fraction(value, length), _binary_fraction(value + 1, length)

        def holds_at(j: int) -> bool | None:
            """Return whether the whole interval of U is below T(j); None if balls can't decide."""
            ball = distribution.tail(sign * j, upper)
            # `high` itself does not belong to the interval of U, so equality suffices.
            if high <= ball:
                return True
            return False if low >= ball else None

        u = np.array([max(max(value, 1) / 2**length, LEAST_GUESS)])
        # Only the start of the search: balls decide, so its error costs time alone.
        guess = float(distribution.integer_quantile(u, upper)[0][0])
        k = largest_true(holds_at, sign * int(max(-LIMIT, min(LIMIT, guess))))
    return None if k is None else sign * k


def _binary_fraction(value: int, length: int) -> arb:
    """Return the binary fraction whose digits are an integer of this length in bits."""
    return arb(value) * arb(2) ** -length


def largest_true(holds_at: Callable[[int], bool | None], start: int) -> int | None:
    """Return the largest j with holds_at(j), for a predicate that is true up to j and false above.

    The search begins at `start`. The predicate returns None where it is undecided, and the result
    is None if this happens at an integer that the search needs.
    """
    stride, good, bad = 1, start, start
    first = holds_at(start)
    if first is None:
        return None
    while True:
        # The stride doubles, so a guess that is wrong by n costs about 2 log2(n) balls.
        probe = good + stride if first else bad - stride
        holds = holds_at(probe)
        if holds is None:
            return None
        good, bad = (probe, bad) if holds else (good, probe)
        if holds is not first:
            break
        stride *= 2
    while bad - good > 1:
        middle = (good + bad) // 2
        holds = holds_at(middle)
        if holds is None:
            return None
        good, bad = (middle, bad) if holds else (good, middle)
    return good


# Uniform random numbers whose bits are drawn as needed, for exact random decisions.

GUARD_BITS = 64


def _floor(x: arb) -> int:
    """Return the floor of a ball with the radius 0."""
    return int(str(x.floor().unique_fmpz()))


class LazyUniform:
    """A uniform random number U in [0, 1), of which only the first bits have been drawn.

    The first `_length` bits are the integer `_value`, so U lies in
    [_value, _value + 1) * 2**-_length.
    """

    def __init__(self, bits: BitSource, word: int | None = None, length: int = 64) -> None:
        """Use the last `length` bits of `word` as the first bits of U; without a word, draw one."""
        self._bits = bits
        self._value = int(bits.words(1)[0]) if word is None else word & (1 << length) - 1
        self._length = length

    def interval_index(self, sums: Callable[[], Sequence[arb]]) -> int:
        """Return the least index i with U < sums[i] / sums[-1].

        The function `sums` returns positive balls in ascending order, at the precision of the flint
        context. While the interval of U contains one of the boundaries, another word is drawn, and
        `sums` is called again at a higher precision. The first of these draws is needed with a
        probability of about len(sums) * 2**-64, and each further one is 2**-64 times as likely.
        """
        while True:
            with ctx.workprec(self._length + GUARD_BITS):
                index = self._interval_index_or_none(sums())
            if index is not None:
                return index
            self._draw_more_bits()

    def part_index(self, before: Callable[[], arb], width: Callable[[], arb], n: int) -> int:
        """Return the index of that one of n equal parts of an interval in which U lies.

        The interval is [before, before + n width), and U must lie in it. The functions `before` and
        `width` return balls at the precision of the flint context.
        """
        while True:
            with ctx.workprec(self._length + GUARD_BITS):
                unit = arb(2) ** self._length
                ends = [
                    (arb(end) / unit - before()) / width() for end in (self._value, self._value + 1)
                ]
                low, high = _floor(ends[0].lower()), _floor(ends[1].upper())
            first: int = max(low, 0)
            # Balls may reach beyond the first or the last part, in which U lies by assumption.
            if first == min(high, n - 1):
                return first
            self._draw_more_bits()

    def _draw_more_bits(self) -> None:
        """Draw 64 more random bits of the number."""
        self._value = self._value << 64 | int(self._bits.words(1)[0])
        self._length += 64

    def _interval_index_or_none(self, sums: Sequence[arb]) -> int | None:
        """Return the index of the interval; None if the bits so far don't decide."""
        unit = arb(2) ** self._length
        low, high = self._value * sums[-1], (self._value + 1) * sums[-1]
        first, last = 0, len(sums) - 1
        while first < last:  # find the first sum that is not certainly below U
            middle = (first + last) // 2
            if low >= sums[middle] * unit:
                first = middle + 1
            else:
                last = middle
        inside = first == len(sums) - 1 or high <= sums[first] * unit
        return first if inside else None
