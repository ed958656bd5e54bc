"""Uniform random numbers whose bits are drawn as needed, for exact random decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flint import arb, ctx

from dprelease.numerics.entropy import BitSource

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
