"""Exact draws at large scales: a block of 2**b neighbouring cells by inversion, then a cell of it.

A float quantile that errs by up to e steps leaves U undecided near every edge of a cell: a share of
about 2e of all draws, which at a scale of 2**40 is nearly every one. So blocks come first, wide
enough for a share of 2**-18. Block H holds the cells from H 2**b to (H + 1) 2**b - 1, so its tails
are those of the original distribution at the ends of blocks, and `lattice` draws H with

    P(H = h) = P(h 2**b <= K < (h + 1) 2**b) = the sum of p(k) over the cells of block h, exactly.

Then cells of block H are proposed uniformly, each with a W uniform in [0, 1), until W is below
p(k) / M, M the largest probability of a cell in the block: cell k of block h is accepted with
probability p(k) / (the sum of p over the block). The product of both is p(k): the draw is exact.

Probabilities never rise away from `mode`, so M is that of the cell nearest to it, and blocks are so
narrow that p(k) / M is hardly below 1: a float bound of 1 - p(k) / M over the block, `unevenness`,
accepts all but about a millionth of the proposals. The others are compared in balls, with as many
more bits of W as needed. Half of the bits of a word propose a cell, the other half are the first
bits of W. Proposals, and their number, depend only on random bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from flint import arb, ctx

from dprelease.numerics.entropy import BitSource, Words
from dprelease.numerics.lattice import (
    LIMIT,
    TOO_SMALL,
    Flags,
    Floats,
    Integers,
    LatticeLaw,
    both_sides,
    certain,
    locate_exactly,
    tails_of,
    wrap_or_saturate,
)
from dprelease.numerics.lazy_uniform import LazyUniform

FINENESS = 18
"""Largest typical error of a quantile relative to a cell, or else to a block: 2**-18."""

CANCELLED_BITS = 80
"""Bits that cover the cancellation of two tails.

This suffices for scales up to 2**50 and tails that one word distinguishes from 0. Outside this
range the balls show that more bits are needed.
"""

ROUNDED = 1.0 - 2.0**-50
"""Covers rounding errors between an unevenness and the last share accepted for it."""


class BlockLaw(LatticeLaw, Protocol):
    """A distribution whose probabilities never rise away from a mode, with a real quantile."""

    def position(self, u: Floats, upper: bool) -> tuple[Floats, Floats | float]:
        """Return (n,) real numbers whose floors are `invert`, and bounds of their errors.

        For tails u of 2**-20 and more; for smaller ones the result is a guess.
        """
        ...

    def unevenness(self, first: Floats, size: float) -> Floats | float:
        """Return bounds of 1 - p(k) / p(j), all cells k and j of blocks of `size` cells.

        `first` (n,) are their first cells; for blocks with a cell whose tail is 2**-20 or more.
        """
        ...


@dataclass(frozen=True, eq=False)
class LawBlocks:
    """Blocks of 2**`width` cells; as a `LatticeLaw`, the distribution of the block number."""

    law: BlockLaw
    width: int
    mode: int

    @classmethod
    def of(cls, distribution: BlockLaw, error: float, mode: int) -> Self | None:
        """Return blocks for a typical quantile error of `error` steps; None if cells suffice."""
        width = math.ceil(math.log2(error)) + FINENESS
        return cls(distribution, width, mode) if width > 0 else None

    @property
    def symmetric(self) -> bool:
        """Return False: block 0 begins with cell 0."""
        return False

    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return the numbers of blocks, and where they are certain; see `LatticeLaw.invert`."""
        return self._certain(*self.law.position(u, upper))

    def tail(self, h: int, upper: bool) -> arb:
        """Return the tail from the first cell of block h on, or up to its last one."""
        return self.law.tail(h << self.width if upper else ((h + 1) << self.width) - 1, upper)

    def draws(self, words: Words, bits: BitSource, modular: bool) -> Integers:
        """Return (n,) draws, one for each word, which places its block; takes further words."""
        u, lower = tails_of(words)
        h, sure = self._block_positions(u, lower)
        large = u >= TOO_SMALL
        sure &= large
        h[~sure] = 0.0
        blocks = h.astype(np.int64)
        proposed = bits.words(len(words))
        known = {int(i): locate_exactly(self, int(words[i]), bits) for i in np.flatnonzero(~sure)}
        for i, block in known.items():
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
            block = known[i] if i in known else int(h[i])
            cells[i] = wrap_or_saturate(self._cell(block, int(proposed[i]), bits), modular)
        return cells

    def draw(self, word: int, bits: BitSource) -> int:
        """Return the draw of one word, decided by balls only, without saturation."""
        proposed = int(bits.words(1)[0])
        return self._cell(locate_exactly(self, word, bits), proposed, bits)

    def _block_positions(self, u: Floats, lower: Flags) -> tuple[Floats, Flags]:
        if not self.law.symmetric:
            return both_sides(self, u, lower)
        position, error = self.law.position(u, True)
        np.subtract(1.0, position, out=position, where=lower)
        return self._certain(position, error)

    def _certain(self, position: Floats, error: Floats | float) -> tuple[Floats, Flags]:
        position *= 2.0**-self.width
        return certain(position, error * 2.0**-self.width)

    def _offset(self, proposed: Words) -> Words:
        return proposed >> np.uint64(64 - self.width)

    def _is_certainly_accepted(self, blocks: Integers, proposed: Words) -> Flags:
        """Return where every W that starts with the last bits of a word is accepted.

        Valid only for blocks with a cell whose tail is 2**-20 or more.
        """
        rest, size = 64 - self.width, 2.0**self.width
        share = (proposed & np.uint64((1 << rest) - 1)).view(np.int64).astype(np.float64)
        least = (1.0 - self.law.unevenness(blocks.astype(np.float64) * size, size)) * (
            2.0**rest * ROUNDED
        ) - 1.0
        accepted: Flags = share <= least
        return accepted

    def _cell(self, block: int, proposed: int, bits: BitSource) -> int:
        """Return the first accepted cell of a block; `proposed` is the first word."""
        rest = 64 - self.width
        while True:
            cell = (block << self.width) + (proposed >> rest)
            share = LazyUniform(bits, proposed, rest)
            if share.place(lambda cell=cell: self._masses(cell, block)) == 0:  # type: ignore[misc]
                return cell
            proposed = int(bits.words(1)[0])

    def _masses(self, cell: int, block: int) -> tuple[arb, arb]:
        """Return the probability of a cell and the largest one of its block."""
        first = block << self.width
        last = first + (1 << self.width) - 1
        around = {first, last, self.mode - 1, self.mode, self.mode + 1}
        if first > self.mode:
            around = {first}
        elif last < self.mode:
            around = {last}
        with ctx.workprec(ctx.prec + CANCELLED_BITS):
            most = arb(0)
            for k in around:
                if first <= k <= last:
                    most = most.max(self._probability(k))
            return self._probability(cell), most

    def _probability(self, k: int) -> arb:
        """Return P(K = k), from the side with less cancellation."""
        if k >= self.mode:
            return self.law.tail(k, True) - self.law.tail(k + 1, True)
        return self.law.tail(k, False) - self.law.tail(k - 1, False)
