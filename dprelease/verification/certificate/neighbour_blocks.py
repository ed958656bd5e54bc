"""Bounds of the losses of one cell: probabilities under two neighbours, in blocks of integers.

Let the integer K have log-concave probabilities. Then P(K = k) / P(K = k - s) never increases with
k, for s >= 1. So the losses in a block of consecutive integers lie between the losses of the
adjacent blocks, where the loss of a block is ln of its P probability over its Q probability. The
delta(eps) of a move by s is the supremum over c of P(K <= c) - e^eps P(K <= c - s), and increases
with s. So a move by s covers every smaller move in the same direction.

Probabilities are log-concave if they are proportional to exp(-f) for a convex f, or if they are
those of a rounded variable Y with a log-concave density (Prekopa 1973: the density of Y + U is
log-concave, for U uniform on a step; the probabilities are its values at the integers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

from flint import arb, ctx

from dprelease.numerics.balls import ball
from dprelease.verification.certificate.loss_masses import SPARE_BITS, LossMasses, probability_units

START = 32
"""The number of blocks in the first pass."""

MOST_PARTS, PARTS_OF_ENDLESS = 16, 4
MOST_ROUNDS = 80

ENDS = 1.5
"""The factor by which blocks are wider if the losses at their ends are known.

A split of such a block adds a sixth of the squared difference between these losses to the variance.
It adds all of the squared difference if only adjacent blocks bound the losses.
"""

SLACK = Fraction(1, 2**40)
"""The share of the grid width by which losses are reduced. For every cell, epsilon is increased by
the same amount."""


class Tails(Protocol):
    """The distribution of an integer K, described by its tails."""

    def tail(self, k: int, upper: bool) -> arb:
        """Return an interval (ball) that contains P(K >= k) if `upper` is set, else P(K <= k).

        The interval is computed at the precision of the flint context.
        """
        ...


@dataclass(frozen=True, slots=True)
class MirroredLaw:
    """The distribution of -K."""

    noise: Tails

    def tail(self, k: int, upper: bool) -> arb:
        """Return an interval (ball) that contains P(-K >= k), or P(-K <= k): the opposite tail."""
        return self.noise.tail(-k, not upper)


@dataclass(frozen=True, slots=True)
class Block:
    """Outputs with probabilities `p` and `q`, whose losses ln P/Q lie between `low` and `high`.

    A bound of None means that no bound is known.
    """

    p: arb
    q: arb
    low: arb | None = None
    high: arb | None = None


@dataclass(frozen=True, slots=True)
class BlockOptions:
    """The options for dividing outputs into blocks.

    `fine` is the largest difference of losses between neighbouring blocks. A tail with a
    probability of at most `least` stays one block. `most` is the maximum number of blocks.
    """

    fine: float
    least: float
    most: int


@dataclass(frozen=True, slots=True)
class ShiftedLaw:
    """A log-concave distribution, compared with itself moved up by `shift` steps.

    Probabilities are computed from lower tails below `middle`, and from upper tails above it, to
    lose few digits. `largest` is a bound of the losses, if one is known. `loss` returns the loss of
    an output, if it has a closed form. This closed form is smooth except where an output, or the
    output minus the shift, passes the middle.
    """

    noise: Tails
    shift: int
    middle: int = 0
    largest: Fraction | None = None
    loss: Callable[[int], arb] | None = None

    def blocks(self, options: BlockOptions) -> list[Block]:
        """Return all outputs in blocks, at the current precision of the flint context."""
        cuts = _BlockEdges(self)
        edges = self._first_edges(options.least)
        if self.loss is not None:
            return cuts.blocks(_evenly_spaced_edges(edges, self.loss, options))
        for _ in range(MOST_ROUNDS):
            more = cuts.split(edges, options)
            if not more:
                break
            if len(edges) + len(more) > options.most:
                # Wider blocks make the bound larger, but never wrong.
                options = replace(options, fine=2 * options.fine)
            else:
                edges = sorted({*edges, *more})
        return cuts.blocks(edges)

    def _first_edges(self, least: float) -> list[int]:
        """Return evenly spaced edges between both tails, and the edges at bends."""
        low = (
            -_tail_distance(lambda j: self.noise.tail(self.middle - j, False), least) + self.middle
        )
        high = _tail_distance(lambda j: self.noise.tail(self.middle + j, True), least) + self.middle
        span = high - low
        even = {low + span * i // START for i in range(START + 1)}
        bends = {self.middle + i + moved for i in (0, 1) for moved in (0, self.shift)}
        return sorted(even | {edge for edge in bends if low < edge < high})


def _evenly_spaced_edges(
    edges: Sequence[int], loss: Callable[[int], arb], options: BlockOptions
) -> list[int]:
    """Return additional edges, between which losses decrease by `ENDS` times `options.fine`.

    Losses are assumed to decrease evenly between two given edges.
    """
    falls = [float((loss(low) - loss(high)).mid()) for low, high in pairwise(edges)]
    fine = max(ENDS * options.fine, sum(falls) / options.most)
    more = [edges[0]]
    for (low, high), fall in zip(pairwise(edges), falls, strict=True):
        parts = min(high - low, max(1, math.ceil(fall / fine)))
        more += [low + (high - low) * j // parts for j in range(1, parts + 1)]
    return more


def _tail_distance(tail: Callable[[int], arb], least: float) -> int:
    """Return nearly the smallest j > 0 with tail(j) <= `least`."""
    high = 1
    while not tail(high) <= least:
        high *= 2
    low = high // 2
    while high - low > 1 + high // 64:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) <= least else (middle, high)
    return high


class _BlockEdges:
    """Tails at the edges of blocks; each tail is computed only once."""

    def __init__(self, moved: ShiftedLaw) -> None:
        self.moved = moved
        self.known: dict[tuple[int, int], arb] = {}

    def _tail(self, k: int, middle: int, shift: int) -> arb:
        """Return P(K >= k) for k above the middle, otherwise P(K < k), for K moved by `shift`."""
        if (k, shift) not in self.known:
            upper = k > middle
            at = k - shift if upper else k - shift - 1
            self.known[k, shift] = self.moved.noise.tail(at, upper)
        return self.known[k, shift]

    def _mass(self, low: int | None, high: int | None, shift: int) -> arb:
        """Return P(low <= K < high); an end of None means that this end is open."""
        middle = self.moved.middle + shift
        below = arb(0) if low is None else self._tail(low, middle, shift)
        above = arb(0) if high is None else self._tail(high, middle, shift)
        if low is not None and low > middle:
            return below - above
        if high is not None and high <= middle:
            return above - below
        return 1 - below - above

    def masses(self, edges: Sequence[int]) -> list[tuple[arb, arb]]:
        """Return the P and Q probabilities of all blocks, including the two unbounded blocks."""
        ends = [None, *edges, None]
        shift = self.moved.shift
        return [(self._mass(a, b, 0), self._mass(a, b, shift)) for a, b in pairwise(ends)]

    def split(self, edges: Sequence[int], options: BlockOptions) -> list[int]:
        """Return additional edges where the losses of neighbouring blocks differ by too much."""
        masses = self.masses(edges)
        losses = [_approximate_loss(p, q) for p, q in masses]
        more: list[int] = []
        for i, (low, high) in enumerate(pairwise(edges), start=1):
            p, q = masses[i]
            if high - low == 1 or not p > options.least or q.is_zero():
                continue
            # Losses have no bound before the first possible output.
            before = math.inf if masses[i - 1][0].is_zero() else losses[i - 1]
            spread = before - losses[i + 1]
            if not spread <= 2 * options.fine:
                parts = PARTS_OF_ENDLESS
                if math.isfinite(spread):
                    parts = min(MOST_PARTS, math.ceil(spread / (2 * options.fine)))
                parts = min(parts, high - low)
                more += [low + (high - low) * j // parts for j in range(1, parts)]
        return more

    def blocks(self, edges: Sequence[int]) -> list[Block]:
        """Return blocks whose losses are bounded by adjacent blocks, or by the losses at their
        ends."""
        masses = self.masses(edges)
        if self.moved.loss is not None:
            highs = [None, *map(self.moved.loss, edges)]
            lows = [*(self.moved.loss(edge - 1) for edge in edges), None]
            pairs = zip(masses, lows, highs, strict=True)
            return [Block(p, q, low, high) for (p, q), low, high in pairs]
        losses = [_loss_interval(p, q) for p, q in masses]
        widths = [0, *(high - low for low, high in pairwise(edges)), 0]
        found = []
        for i, (p, q) in enumerate(masses):
            if p.is_zero():
                continue
            if q.is_zero():
                found.append(Block(p, q))
                continue
            if widths[i] == 1:
                found.append(Block(p, q, losses[i], losses[i]))
                continue
            high = losses[i - 1] if i else self._largest_loss_interval()
            low = losses[i + 1] if i + 1 < len(masses) else None
            found.append(Block(p, q, low, high))
        return found

    def _largest_loss_interval(self) -> arb | None:
        """Return an interval (ball) that contains the upper bound of the losses.

        The result is None if the losses have no bound.
        """
        return None if self.moved.largest is None else ball(self.moved.largest)


def _approximate_loss(p: arb, q: arb) -> float:
    """Return approximately ln(p / q)."""
    loss = _loss_interval(p, q)
    if loss is not None:
        return float(loss.mid())
    return -math.inf if p.is_zero() else math.inf


def _loss_interval(p: arb, q: arb) -> arb | None:
    """Return an interval (ball) that contains ln(p / q); None if the interval of p or q has a 0."""
    return (p / q).log() if p > 0 and q > 0 else None


def losses_on_grid(blocks: Sequence[Block], width: Fraction, bits: int) -> LossMasses:
    """Return a distribution on multiples of `width` that dominates the blocks, up to `SLACK`.

    The delta(epsilon) of the result is at least the delta of the blocks at epsilon + SLACK * width.
    Losses are reduced by this amount so that a loss that is exactly a point of the grid stays at
    that point although balls are inexact.

    If the losses of a block lie between two points of the grid, its probabilities are split onto
    these points so that its P and its Q probability are preserved. This is a mean-preserving spread
    of Q/P, which lowers no delta (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, arXiv
    2207.04380v1, "connect the dots"). If only an upper bound of the losses is known, all of the P
    probability is moved up to it; if no bound is known, to infinity.
    """
    points: dict[int, int] = {}
    infinite = 0
    with ctx.workprec(max(ctx.prec, bits + SPARE_BITS)):
        step, slack = ball(width), ball(SLACK)
        for block in blocks:
            if block.high is None:
                infinite += max(0, probability_units(block.p, bits))
                continue
            for place, mass in _split_onto_grid(block, step, slack):
                points[place] = points.get(place, 0) + max(0, probability_units(mass, bits))
    if not points:
        return LossMasses(width, 0, [0], infinite, bits)
    first, last = min(points), max(points)
    masses = [points.get(place, 0) for place in range(first, last + 1)]
    return LossMasses(width, first, masses, infinite, bits)


def _split_onto_grid(block: Block, step: arb, slack: arb) -> list[tuple[int, arb]]:
    """Return points of the grid and their P probabilities: one without a lower bound, else two."""
    assert block.high is not None
    # The ceiling of high / step - slack; the lower end of its opposite gives the larger point.
    high = -_floor_of_midpoint((slack - block.high / step).lower())
    if block.low is None:
        return [(high, block.p)]
    # Two points are needed, also if both bounds are the same loss.
    low = min(_floor_of_midpoint((block.low / step - slack).lower()), high - 1)
    remaining = block.q * ((low + slack) * step).exp()
    upper = (block.p - remaining) / -((low - high) * step).expm1()
    upper = upper.max(arb(0)).min(block.p)
    return [(low, block.p - upper), (high, upper)]


def _floor_of_midpoint(x: arb) -> int:
    """Return the floor of the midpoint of an interval (ball)."""
    mantissa, exponent = (int(part) for part in x.man_exp())
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent


class Moments(Protocol):
    """Moments of the losses of a cell whose true value moves by `shift` steps."""

    def ln_moment(self, shift: int, order: Fraction) -> arb:
        """Return ln E exp((order - 1) loss)."""
        ...

    def bound_from_order(self, shift: int, order: Fraction) -> arb:
        """Return a bound of D_a / a for all a >= `order`."""
        ...


BlockLists = Callable[[int, BlockOptions], list[list[Block]]]
"""Returns lists of blocks for a cell that moves by up to a number of steps. Each list has the
blocks of one possible distribution of outputs."""

Known = Callable[[int], Fraction | None]
"""Returns a bound for a cell that moves by up to a number of steps; None if unknown."""


def unknown_bound(_shift: int) -> None:
    """Return None: no bound is known for any shift."""
    return None


@dataclass(frozen=True, slots=True)
class ProvenLosses:
    """Proven bounds of the privacy losses of the noise in one cell.

    Most of them are functions of the number of steps by which the true value moves. `block_lists`
    returns the blocks of outputs, in a list for each possible distribution. `largest` is a bound of
    the losses. `usual` is approximately the loss with the largest probability, which should be a
    point of a grid. `mu_squared` is mu^2 if the curve of N(0, 1) against N(mu, 1) dominates that of
    the cell. `rho` is a bound of D_a / a for all orders a. With `by_squares`, rho is proportional
    to the square of the shift, also if several parts of a change add up in one cell. `variance` is
    the variance of discrete Gaussian noise, for `vectors_with_gaussian_noise`. `moments` are the
    moments of losses that have no largest loss. `exempt` is the probability of outputs for which
    `rho` does not hold. `tight` is whether finer blocks make the bound from
    `block_lists` as sharp as desired.
    """

    block_lists: BlockLists
    theorem: str
    largest: Known = unknown_bound
    usual: Known = unknown_bound
    mu_squared: Known = unknown_bound
    rho: Known = unknown_bound
    by_squares: bool = False
    variance: Fraction | None = None
    moments: Moments | None = None
    tight: bool = True
    exempt: Fraction = Fraction(0)


def binary_blocks(top: Fraction, chance: Fraction = Fraction(0)) -> list[Block]:
    """Return the blocks of a binary output with the losses `top` and -`top`.

    With the probability `chance`, the output reveals everything: its loss is infinite.
    """
    odds, rest = ball(top).exp(), ball(1 - chance)
    high, low = rest * odds / (1 + odds), rest / (1 + odds)
    loss = ball(top)
    blocks = [Block(high, low, loss, loss), Block(low, high, -loss, -loss)]
    return [*blocks, Block(ball(chance), arb(0))] if chance else blocks
