"""One uniform number whose bits are drawn as they are needed, for exact choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flint import arb, ctx

from dprelease.numerics.entropy import BitSource

GUARD_BITS = 64


class LazyUniform:
    """U in [0, 1), known to lie in [value, value + 1) * 2**-length."""

    def __init__(self, bits: BitSource) -> None:
        self._bits = bits
        self._value, self._length = int(bits.words(1)[0]), 64

    def place(self, sums: Callable[[], Sequence[arb]]) -> int:
        """Return the least i with U < sums[i] / sums[-1], exactly.

        `sums` gives ascending positive balls at the precision of the flint context; it is asked
        again at a higher one, after another word, while the interval of U touches a boundary: with
        a chance of about len(sums) * 2**-64 at first, and of 2**-64 of that each further time.
        """
        while True:
            with ctx.workprec(self._length + GUARD_BITS):
                found = self._located(sums())
            if found is not None:
                return found
            self._value = self._value << 64 | int(self._bits.words(1)[0])
            self._length += 64

    def _located(self, sums: Sequence[arb]) -> int | None:
        unit = arb(2) ** self._length
        low, high = self._value * sums[-1], (self._value + 1) * sums[-1]
        first, last = 0, len(sums) - 1
        while first < last:  # the first sum that U is not certainly above
            middle = (first + last) // 2
            if low >= sums[middle] * unit:
                first = middle + 1
            else:
                last = middle
        inside = first == len(sums) - 1 or high <= sums[first] * unit
        return first if inside else None
