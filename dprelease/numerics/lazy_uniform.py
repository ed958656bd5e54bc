"""A uniform number whose bits are drawn as needed, for exact random decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flint import arb, ctx

from dprelease.numerics.entropy import BitSource

GUARD_BITS = 64


def _floor(x: arb) -> int:
    """Return the floor of an exact ball."""
    return int(str(x.floor().unique_fmpz()))


class LazyUniform:
    """A uniform number U in [0, 1), which lies in [value, value + 1) * 2**-length."""

    def __init__(self, bits: BitSource, word: int | None = None, length: int = 64) -> None:
        """Use the last `length` bits of `word` as the first bits of U, or a new word."""
        self._bits = bits
        self._value = int(bits.words(1)[0]) if word is None else word & (1 << length) - 1
        self._length = length

    def place(self, sums: Callable[[], Sequence[arb]]) -> int:
        """Return the least i with U < sums[i] / sums[-1], exactly.

        `sums` returns positive, sorted balls at the precision of the flint context. While the
        interval of U contains a boundary, another word is drawn, and `sums` is called again at a
        higher precision. The probability of this is about len(sums) * 2**-64 the first time, and
        smaller by a factor 2**-64 each further time.
        """
        while True:
            with ctx.workprec(self._length + GUARD_BITS):
                index = self._locate(sums())
            if index is not None:
                return index
            self._refine()

    def part(self, before: Callable[[], arb], width: Callable[[], arb], n: int) -> int:
        """Return the index of the part of [before, before + n width) in which U lies.

        The interval has n parts of equal width, and U must lie in it. `before` and `width` return
        balls at the precision of the flint context.
        """
        while True:
            with ctx.workprec(self._length + GUARD_BITS):
                unit = arb(2) ** self._length
                ends = [
                    (arb(end) / unit - before()) / width() for end in (self._value, self._value + 1)
                ]
                low, high = _floor(ends[0].lower()), _floor(ends[1].upper())
            first: int = max(low, 0)
            if first == min(high, n - 1):
                return first
            self._refine()

    def _refine(self) -> None:
        self._value = self._value << 64 | int(self._bits.words(1)[0])
        self._length += 64

    def _locate(self, sums: Sequence[arb]) -> int | None:
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
