"""Exact draws at large scales: a block of 2**b neighbouring cells by inversion, then one cell.

A float quantile with an error of up to e steps leaves U undecided near every edge of a cell. This
concerns a part of about 2e of all draws, which at a scale of 2**40 is nearly every draw. So a block
is drawn first, which is so wide that only a part of 2**-18 of the draws is undecided. Block H has
the cells from H 2**b to (H + 1) 2**b - 1, so its tails are tails of the original distribution at
the ends of blocks, and `lattice` draws H with

    P(H = h) = P(h 2**b <= K < (h + 1) 2**b) = the sum of p(k) over the cells of block h, exactly.

Then cells of block H are proposed uniformly, each with a number W that is uniform in [0, 1), until
W is below p(k) / M, where M is the largest probability of a cell in the block. So cell k of block h
is accepted with probability p(k) / (the sum of p over the block). The product of both probabilities
is p(k), so the draw is exact.

Probabilities never rise away from `mode`, so M is the probability of the cell nearest to the mode.
Blocks are so narrow that p(k) / M is hardly below 1. A float bound of 1 - p(k) / M over the block,
`largest_relative_drop`, accepts all but about a millionth of the proposals. The other proposals are
compared in balls, with as many more bits of W as needed. Half of the bits of a word propose a cell,
and the other half are the first bits of W. Proposals, and their number, depend only on random bits.
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
    Integers,
    LatticeLaw,
    certain_floor,
    invert_both_tails,
    locate_exactly,
    tails_of_words,
    wrap_or_saturate,
)
from dprelease.numerics.lazy_uniform import LazyUniform

QUANTILE_BITS = 18
"""The typical error of a quantile is at most 2**-18 of the width of a cell, or of a block."""

CANCELLED_BITS = 80
"""Additional bits against the cancellation in the difference of two tails.

They suffice for scales up to 2**50 and for tails that one word distinguishes from 0. Outside this
range the balls show that more bits are needed.
"""

ROUNDING_FACTOR = 1.0 - 2.0**-50
"""Factor for rounding errors between a `largest_relative_drop` and the accepted values of W."""


class BlockLaw(LatticeLaw, Protocol):
    """A distribution whose probabilities never rise away from a mode, with a real quantile."""

    def position(self, u: Floats, upper: bool) -> tuple[Floats, Floats | float]:
        """Return (n,) real numbers whose floors are the results of `invert`, and error bounds.

        The bounds hold for tails u of 2**-20 and more; for smaller tails the result is a guess.
        """
        ...

    def largest_relative_drop(self, first: Floats, size: float) -> Floats | float:
        """Return upper bounds of 1 - p(k) / p(j) for any two cells k and j in the same block.

        `first` (n,) are the first cells of n blocks of `size` cells. The bounds hold for blocks
        with a cell whose tail is 2**-20 or more.
        """
        ...


@dataclass(frozen=True, eq=False)
class LawBlocks:
    """Blocks of 2**`width` cells of `law`; as a `LatticeLaw`, the distribution of block numbers."""

    law: BlockLaw
    width: int
    mode: int

    @classmethod
    def of(cls, distribution: BlockLaw, error: float, mode: int) -> Self | None:
        """Return blocks for a typical quantile error of `error` steps; None if none are needed."""
        width = math.ceil(math.log2(error)) + QUANTILE_BITS
        return cls(distribution, width, mode) if width > 0 else None

    @property
    def symmetric(self) -> bool:
        """Return False, because block 0 begins with cell 0."""
        return False

    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return block numbers, and flags of the certain ones; see `LatticeLaw.invert`."""
        return self._certain_blocks(*self.law.position(u, upper))

    def tail(self, h: int, upper: bool) -> arb:
        """Return the upper tail from the first cell of block h, or the lower tail to its last."""
        return self.law.tail(h << self.width if upper else ((h + 1) << self.width) - 1, upper)

    def draws(self, words: Words, bits: BitSource, modular: bool) -> Integers:
        """Return (n,) draws; each word determines the block of a draw, further words its cell."""
        u, lower = tails_of_words(words)
        h, sure = self._block_positions(u, lower)
        large = u >= LEAST_FLOAT_TAIL
        sure &= large
        h[~sure] = 0.0
        blocks = h.astype(np.int64)
        proposed = bits.words(len(words))
        exact = {int(i): locate_exactly(self, int(words[i]), bits) for i in np.flatnonzero(~sure)}
        for i, block in exact.items():
            blocks[i] = wrap_or_saturate(
                block, modular
            )  # saturated draws lie outside all other cells
        accepted = large & self._is_certainly_accepted(blocks, proposed)
        if not modular:  # saturate first, so that far cells don't overflow
            np.clip(blocks, (-LIMIT >> self.width) - 1, LIMIT >> self.width, out=blocks)
        cells = (blocks << self.width) + self._offset(proposed).view(np.int64)
        if not modular:
            np.clip(cells, -LIMIT, LIMIT, out=cells)
        for i in np.flatnonzero(~accepted).tolist():
            block = exact[i] if i in exact else int(h[i])
            cells[i] = wrap_or_saturate(self._cell(block, int(proposed[i]), bits), modular)
        return cells

    def draw(self, word: int, bits: BitSource) -> int:
        """Return the draw of one word, decided by balls only, and without clamping."""
        proposed = int(bits.words(1)[0])
        return self._cell(locate_exactly(self, word, bits), proposed, bits)

    def _block_positions(self, u: Floats, lower: Flags) -> tuple[Floats, Flags]:
        if not self.law.symmetric:
            return invert_both_tails(self, u, lower)
        position, error = self.law.position(u, True)
        np.subtract(1.0, position, out=position, where=lower)
        return self._certain_blocks(position, error)

    def _certain_blocks(self, position: Floats, error: Floats | float) -> tuple[Floats, Flags]:
        position *= 2.0**-self.width
        return certain_floor(position, error * 2.0**-self.width)

    def _offset(self, proposed: Words) -> Words:
        return proposed >> np.uint64(64 - self.width)

    def _is_certainly_accepted(self, blocks: Integers, proposed: Words) -> Flags:
        """Return flags of the proposals that are accepted for every W with the known first bits.

        The flags are valid only for blocks with a cell whose tail is 2**-20 or more.
        """
        rest, size = 64 - self.width, 2.0**self.width
        acceptance = (proposed & np.uint64((1 << rest) - 1)).view(np.int64).astype(np.float64)
        least = (1.0 - self.law.largest_relative_drop(blocks.astype(np.float64) * size, size)) * (
            2.0**rest * ROUNDING_FACTOR
        ) - 1.0
        accepted: Flags = acceptance <= least
        return accepted

    def _cell(self, block: int, proposed: int, bits: BitSource) -> int:
        """Return the first accepted cell of a block; `proposed` is the word of the first cell."""
        rest = 64 - self.width
        while True:
            cell = (block << self.width) + (proposed >> rest)
            acceptance = LazyUniform(bits, proposed, rest)
            if acceptance.place(lambda cell=cell: self._probabilities(cell, block)) == 0:  # type: ignore[misc]
                return cell
            proposed = int(bits.words(1)[0])

    def _probabilities(self, cell: int, block: int) -> tuple[arb, arb]:
        """Return the probability of a cell, and the largest probability of a cell in its block."""
        first = block << self.width
        last = first + (1 << self.width) - 1
        candidates = {first, last, self.mode - 1, self.mode, self.mode + 1}
        if first > self.mode:
            candidates = {first}
        elif last < self.mode:
            candidates = {last}
        with ctx.workprec(ctx.prec + CANCELLED_BITS):
            most = arb(0)
            for k in candidates:
                if first <= k <= last:
                    most = most.max(self._probability(k))
            return self._probability(cell), most

    def _probability(self, k: int) -> arb:
        """Return P(K = k), as a difference of the tails with less cancellation."""
        if k >= self.mode:
            return self.law.tail(k, True) - self.law.tail(k + 1, True)
        return self.law.tail(k, False) - self.law.tail(k - 1, False)
