"""Exact draws from any distribution on the integers whose tails are known as floats and balls.

A draw inverts a uniform number U, whose bits are drawn as needed. One 64-bit word decides which
tail it is, and limits the tail probability U to an interval of width 2**-64. A float quantile with
a stated error bound determines k if the whole interval certainly lies inside one cell. The few
other draws are decided with more bits, and python-flint balls of growing precision. So P(K = k) is
exactly the probability of the cell, for any error of the float quantile within its bound, and the
running time depends only on the bits.

The error bound grows with the scale: from about 2**22 steps on, more and more intervals would
contain the edge of a cell. For such scales, a block of neighbouring cells is drawn in this way, and
then a cell of the block by rejection sampling; see `blocks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dprelease.numerics.entropy import BitSource, Words

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

LIMIT = 2**62
"""Noise and released integers are clamped to +-LIMIT, which is post-processing. The limit is far
above every allowed scale."""

CHUNK = 2**14
"""Number of draws in a batch, so small that its arrays stay in the second-level cache."""

SIDE_BIT = 63
TAIL_MASK = np.uint64(2**SIDE_BIT - 1)
LEAST_GUESS = 1e-300
"""Tail probability from which a quantile is guessed if the true tail probability underflows."""

LEAST_FLOAT_TAIL = 2.0**-20
"""Least tail probability for which one word is precise enough to use a float quantile."""


class LatticeLaw(Protocol):
    """The distribution of an integer K."""

    @property
    def symmetric(self) -> bool:
        """Return whether K and -K have the same distribution."""
        ...

    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return integers k for tail probabilities u in (0, 1/2], and flags of the certain ones.

        For the upper tail, P(K >= k + 1) <= U < P(K >= k), and for the lower tail,
        P(K <= k - 1) <= U < P(K <= k). If the flag is set, this holds for every U within a relative
        distance of 2**-43 from u.
        """
        ...

    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k), or P(K <= k), at the precision of the flint context."""
        ...


class Blocks(Protocol):
    """Draws from one distribution by blocks of cells."""

    def draws(self, words: Words, bits: BitSource, modular: bool) -> Integers:
        """Return (n,) draws; each word determines the block of a draw, further words its cell."""
        ...

    def draw(self, word: int, bits: BitSource) -> int:
        """Return the draw of one word, decided by balls only, and without clamping."""
        ...


class SampledLaw(LatticeLaw, Protocol):
    """A distribution that can be drawn from."""

    @property
    def blocks(self) -> Blocks | None:
        """Return the blocks for drawing, or None if cells are drawn directly."""
        ...


def sample(distribution: SampledLaw, n: int, bits: BitSource, *, modular: bool = False) -> Integers:
    """Return (n,) independent exact draws from `distribution`, clamped to +-2**62.

    If `modular`, draws are reduced modulo 2**64 instead, as signed integers. Then a sum of draws
    modulo 2**64 is a function of the sum of the original integers, which would not hold for clamped
    draws.
    """
    draws = np.empty(n, dtype=np.int64)
    blocks = distribution.blocks
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        words = bits.words(stop - start)
        if blocks is None:
            draws[start:stop] = _draw_chunk(distribution, words, bits, modular)
        else:
            draws[start:stop] = blocks.draws(words, bits, modular)
    return draws


def _draw_chunk(distribution: LatticeLaw, words: Words, bits: BitSource, modular: bool) -> Integers:
    u, lower = tails_of_words(words)
    if distribution.symmetric:
        k, sure = distribution.invert(u, True)
        np.negative(k, out=k, where=lower)
    else:
        k, sure = invert_both_tails(distribution, u, lower)
    sure &= u >= LEAST_FLOAT_TAIL
    if modular:
        sure &= np.abs(k) < LIMIT  # casting a larger float to an integer is undefined
    undecided = np.flatnonzero(~sure)
    k[undecided] = 0.0  # an undecided guess may be infinite, which has no integer
    draws = k.astype(np.int64)
    for i in undecided.tolist():
        draws[i] = wrap_or_saturate(locate_exactly(distribution, int(words[i]), bits), modular)
    return draws


def tails_of_words(words: Words) -> tuple[Floats, Flags]:
    """Return the tail probabilities of words, which are never 0, and flags of the lower tail."""
    u: Floats = (words & TAIL_MASK).view(np.int64).astype(np.float64)
    u *= 2.0**-64
    np.maximum(u, 2.0**-64, out=u)  # a tail of zero has no quantile, and is decided by balls
    return u, words.view(np.int64) < 0


def invert_both_tails(distribution: LatticeLaw, u: Floats, lower: Flags) -> tuple[Floats, Flags]:
    """Return integers for upper and lower tail probabilities, and flags of the certain ones."""
    k, sure = np.empty_like(u), np.empty(u.shape, dtype=np.bool_)
    for side in (False, True):
        on_side = lower == side
        k[on_side], sure[on_side] = distribution.invert(u[on_side], not side)
    return k, sure


def certain_floor(position: Floats, error: float | Floats) -> tuple[Floats, Flags]:
    """Return floor(position), and flags where all numbers within `error` have the same floor."""
    k = np.floor(position)
    rest = position - k
    return k, (rest > error) & (rest < 1.0 - error)


def refine(distribution: SampledLaw, word: int, bits: BitSource, *, modular: bool = False) -> int:
    """Return the draw of `word` and as many further words as needed, decided by balls only.

    The draw is clamped, or reduced modulo 2**64, as by `sample`.
    """
    blocks = distribution.blocks
    k = locate_exactly(distribution, word, bits) if blocks is None else blocks.draw(word, bits)
    return wrap_or_saturate(k, modular)


def wrap_or_saturate(draw: int, modular: bool) -> int:
    """Return a draw clamped to +-`LIMIT`, or modulo 2**64 as a signed integer."""
    if modular:
        return (draw + 2**63) % 2**64 - 2**63
    return max(-LIMIT, min(LIMIT, draw))


def locate_exactly(distribution: LatticeLaw, word: int, bits: BitSource) -> int:
    """Return the cell that contains U, decided by balls only; `word` has the first bits of U."""
    upper = word >> SIDE_BIT == 0
    value, length = word & int(TAIL_MASK), 64
    while True:
        k = _locate_or_none(distribution, upper, value, length)
        if k is not None:
            return k
        value, length = value << 64 | int(bits.words(1)[0]), length + 64


def _locate_or_none(distribution: LatticeLaw, upper: bool, value: int, length: int) -> int | None:
    """Return k if all of [value, value + 1) * 2**-length lies in the cell k, else None.

    With T(j) the tail from the step j outward, the cell of U is the largest j with U < T(j).
    """
    sign = 1 if upper else -1
    with ctx.workprec(length + 64):
        low, high = _binary_fraction(value, length), _binary_fraction(value + 1, length)

        def holds_at(j: int) -> bool | None:
            """Return whether the whole interval of U is below T(j); None if balls can't decide."""
            ball = distribution.tail(sign * j, upper)
            if high <= ball:
                return True
            return False if low >= ball else None

        u = np.array([max(max(value, 1) / 2**length, LEAST_GUESS)])
        guess = float(distribution.invert(u, upper)[0][0])
        k = largest_true(holds_at, sign * int(max(-LIMIT, min(LIMIT, guess))))
    return None if k is None else sign * k


def _binary_fraction(value: int, length: int) -> arb:
    return arb(value) * arb(2) ** -length


def largest_true(holds_at: Callable[[int], bool | None], start: int) -> int | None:
    """Return the largest j with holds_at(j), for a predicate that is true up to j and false above.

    The result is None if the predicate is None, which means undecided, at a relevant j.
    """
    stride, good, bad = 1, start, start
    first = holds_at(start)
    if first is None:
        return None
    while True:
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
