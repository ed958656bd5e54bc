"""Compute an upper bound of epsilon at a delta: losses of all parts are composed in whole numbers.

This module also computes the pointwise maximum of several curves delta(epsilon), as the curve of
one privacy-loss distribution. The maximum bounds a slot in which a unit can choose among several
moves, and noise whose losses upwards and downwards differ.

As a function of x = exp(epsilon), the curve of a distribution is convex and decreasing, and so is
the pointwise maximum of several curves, which is the curve of a distribution again (Zhu, Dong and
Wang 2022, arXiv 2106.08567v4, Proposition 4). Between points of the grid, the chords of the maximum
lie above it. These chords are the curve of the distribution whose Q probability at a point is the
change of slope at this point, and whose P probability is x times the Q probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb, ctx

from dprelease.numerics.balls import LEAST_FLOAT, ball
from dprelease.verification.certificate.closed_forms import upper_end
from dprelease.verification.certificate.kinds import VectorKind
from dprelease.verification.certificate.loss_masses import Composer, LossMasses, probability_units
from dprelease.verification.certificate.neighbour_blocks import (
    SLACK,
    Block,
    BlockOptions,
    binary_blocks,
    losses_on_grid,
)


def pointwise_largest(distributions: Sequence[LossMasses]) -> LossMasses:
    """Return a distribution whose curve is nowhere below those of others, on their grid."""
    best = distributions[0]
    for other in distributions[1:]:
        best = _larger_curve(best, other)
    return best


def _larger_curve(one: LossMasses, other: LossMasses) -> LossMasses:
    """Return the distribution whose curve consists of chords through the larger values.

    Second differences lose digits to cancellation. The balls have enough digits for a grid of this
    width and length.
    """
    first = min(one.first, other.first)
    last = max(distribution.first + len(distribution.masses) - 1 for distribution in (one, other))
    reach = int(max(abs(first), abs(last)) * one.width) + 1
    with ctx.workprec(2 * one.bits + 4 * reach + 128):
        width = ball(one.width)
        points = [(first * width).exp()]
        rise = width.exp()
        for _ in range(last - first):
            points.append(points[-1] * rise)
        curves = (_deltas_on_grid(distribution, first, points) for distribution in (one, other))
        values = [a.max(b) for a, b in zip(*curves, strict=True)]
        start = max(one.total, other.total)
        # At x = 0 a curve is the sum of all its probabilities, so the first chord begins there.
        slopes = [(values[0] - start) / points[0]]
        slopes += [
            (values[i + 1] - values[i]) / (points[i] * (rise - 1)) for i in range(last - first)
        ]
        # Behind the last point only the probability of an infinite loss is left, and the curve is
        # level.
        slopes.append(arb(0))
        masses = [
            max(0, probability_units(points[i] * (slopes[i + 1] - slopes[i]), 0))
            for i in range(len(points))
        ]
    # This is the limit of each curve at large epsilons.
    infinite = max(one.infinite, other.infinite)
    return LossMasses(one.width, first, masses, infinite, one.bits)


def _deltas_on_grid(distribution: LossMasses, first: int, points: Sequence[arb]) -> list[arb]:
    """Return delta at every point of the grid, in units of probability."""
    p, q = distribution.infinite, arb(0)
    values = []
    for i in range(len(points) - 1, -1, -1):
        values.append(p - points[i] * q)
        place = first + i - distribution.first
        if 0 <= place < len(distribution.masses):
            mass = int(distribution.masses[place])
            p += mass
            q += mass / points[i]
    return values[::-1]


UNIT_BITS = 64
"""The number of bits by which a unit is smaller than delta divided by the number of cells, so that
rounding up adds little."""

LONGEST_CELL = 2**19
MOST_LOSS = 400.0
"""The loss as which larger losses count in the mean square of losses."""


@dataclass(frozen=True, slots=True)
class LossResolution:
    """The resolution of losses; the result is an upper bound at any resolution.

    `parts` is the number of blocks in the root mean square of losses, and `most` the maximum number
    of blocks of one distribution. `longest` is the maximum number of points of a composed
    distribution. All truncated tails together add at most delta / 2^`raised` to delta. `gains` is a
    conservative bound of the relative gain from finer grids. `grid` is the number of grid points in
    the difference of two blocks.
    """

    parts: int
    most: int
    longest: int
    raised: int
    gains: float
    grid: int = 4


EFFORTS = (
    LossResolution(120, 2**13, 2**14, 20, 2.0**-8),
    LossResolution(500, 2**15, 2**16, 30, 2.0**-11),
    LossResolution(2000, 2**17, 2**17, 50, 0.0),
)
OF_MANY = replace(EFFORTS[0], grid=2)
FEW, MANY = 8, 96
"""The number of kinds up to which the finest resolution is tried, and the number above which only
one resolution is tried."""


def loss_resolutions(kinds: int) -> tuple[LossResolution, ...]:
    """Return the resolutions to try one by one, until the bound is sharp enough.

    The more kinds of vectors there are (`kinds`), the fewer resolutions are tried.
    """
    return (OF_MANY,) if kinds > MANY else EFFORTS[: 3 if kinds <= FEW else 2]


class TooLongError(ArithmeticError):
    """Raised if the losses span too wide a range for a grid."""


class LossGrids:
    """The losses of the cells of all vectors, on one grid that is fine enough for a delta.

    Each distribution dominates the losses of its cell minus `slack`.

    Raises TooLongError if the losses of one cell span too wide a range for a grid, or have no
    proven bound.
    """

    def __init__(
        self, kinds: Sequence[VectorKind], delta: Fraction, resolution: LossResolution
    ) -> None:
        self.kinds = kinds
        self.delta = delta
        self.cells = sum(kind.cells_of_unit for kind in kinds)
        self.bits = _rounded_log2(1 / delta) + _rounded_log2(Fraction(self.cells)) + UNIT_BITS
        self.resolution = resolution
        # A search for a tail of at most 0 would not end, so an underflow is replaced.
        least = float(delta) / self.cells / 2.0**resolution.raised or LEAST_FLOAT
        # Coarse blocks are enough for the mean square of losses, from which the width follows.
        rough = BlockOptions(math.inf, least, resolution.most)
        self.width, fine = self._width(rough)
        self.options = BlockOptions(fine, least, resolution.most)

    @property
    def slack(self) -> Fraction:
        """Return the amount by which the losses of each cell are reduced."""
        return SLACK * self.width

    def losses_by_move(self, kind: VectorKind) -> list[tuple[int, list[LossMasses]]]:
        """Return, for each move of a part, its number of cells and the losses of one cell."""
        found = []
        for move in kind.sensitivity.moves:
            with ctx.workprec(self._precision(kind)):
                ways = kind.losses.block_lists(move.shift, self.options)
                found.append((move.cells, [self.on_grid(blocks) for blocks in ways]))
        return found

    def on_grid(self, blocks: Sequence[Block]) -> LossMasses:
        """Return the loss distribution of blocks on the grid."""
        ends = [end for block in blocks for end in (block.low, block.high) if end is not None]
        reach = max((abs(float(end.mid())) for end in ends), default=0.0)
        if not reach / float(self.width) < LONGEST_CELL:
            raise TooLongError
        return losses_on_grid(blocks, self.width, self.bits)

    def _width(self, rough: BlockOptions) -> tuple[Fraction, float]:
        """Return the width of the grid, and the difference of losses between blocks.

        If the losses of a block are split onto points at most r apart, this adds at most r^2 / 4 to
        the variance of a cell's loss. If a kind has a loss with much of its probability, that loss
        is a point of the grid.
        """
        squares = [
            (_mean_square(self._possible_blocks(k, rough)) * k.cells_of_unit, k) for k in self.kinds
        ]
        total = sum(square for square, _ in squares)
        fine = math.sqrt(total / self.cells) / self.resolution.parts or 1e-3
        width = Fraction(fine / self.resolution.grid)
        _, main = max(squares, key=lambda pair: pair[0])
        for loss in _main_losses(main):
            if loss >= width:
                # A power of two, so that the loss stays on the grid if the grid becomes coarser.
                return loss / 2 ** math.ceil(loss / width).bit_length(), fine
        return width, fine

    def _possible_blocks(self, kind: VectorKind, options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of one cell under each possible move.

        If parts of a change can meet in one cell, the result has the blocks of one vector instead.
        """
        if kind.parts_can_meet:
            return [binary_blocks(_largest_of_one(kind))]
        with ctx.workprec(self._precision(kind)):
            return [
                blocks
                for move in kind.sensitivity.moves
                for blocks in kind.losses.block_lists(move.shift, options)
            ]

    def _precision(self, kind: VectorKind) -> int:
        """Return the precision in bits: a probability may be a small difference of two tails."""
        return self.bits + 96 + 2 * _rounded_log2(Fraction(kind.mechanism.scale))


@dataclass(frozen=True, slots=True)
class ComposedLosses:
    """The losses of all vectors together, minus `slack`."""

    distribution: LossMasses
    slack: Fraction

    def epsilon_at(self, delta: Fraction) -> Fraction | None:
        """Return an epsilon that all vectors together satisfy at `delta`; None if none is found."""
        found = self.distribution.epsilon_at(delta)
        return None if found is None else upper_end(found) + self.slack

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """Return a delta that all vectors together satisfy at an epsilon."""
        return min(Fraction(1), upper_end(self.distribution.delta_at(epsilon - self.slack)))


def composed_losses(
    kinds: Sequence[VectorKind], delta: Fraction, resolution: LossResolution
) -> ComposedLosses:
    """Return the losses of all vectors together, on a grid that is fine enough for a delta.

    Raises TooLongError if the losses of one cell span too wide a range for a grid, or have no
    proven bound.
    """
    grids = LossGrids(kinds, delta, resolution)
    allowance = int(delta * 2**grids.bits / (grids.cells * 2 ** (resolution.raised + 2)))
    composer = Composer(allowance, resolution.longest)
    distributions = [_compose_kind(kind, grids, composer) for kind in kinds]
    return ComposedLosses(composer.compose_all(distributions), grids.cells * grids.slack)


def _compose_kind(kind: VectorKind, grids: LossGrids, composer: Composer) -> LossMasses:
    """Return the composition of all parts of all vectors of one kind."""
    if kind.parts_can_meet:
        # Shifts of one cell add up, so only their largest losses are known to add up, too.
        whole = grids.on_grid(binary_blocks(_largest_of_one(kind)))
        return composer.power(whole, kind.vector_count)
    parts = kind.vector_count * kind.sensitivity.slots
    moves = [(cells, pointwise_largest(ways)) for cells, ways in grids.losses_by_move(kind)]
    if len(moves) == 1:
        ((cells, cell),) = moves
        return composer.power(cell, parts * cells)
    # The cells of a part share its move, so moves are compared after their cells are composed.
    return composer.power(
        pointwise_largest([_self_composition(cell, n) for n, cell in moves]), parts
    )


def _largest_of_one(kind: VectorKind) -> Fraction:
    """Return a bound of the largest loss of one vector; raise TooLongError without it."""
    largest = kind.largest_loss_of_one
    if largest is None:
        raise TooLongError
    return largest


def _main_losses(kind: VectorKind) -> list[Fraction]:
    """Return losses that should be points of the grid, the smallest first.

    All losses of discrete Laplace noise are multiples of 1 / scale. Other noise may have one loss
    with much of its probability.
    """
    shift = max(move.shift for move in kind.sensitivity.moves)
    usual = kind.largest_loss_of_one if kind.parts_can_meet else kind.losses.usual(shift)
    return [usual / shift, usual] if usual else []


def _self_composition(distribution: LossMasses, times: int) -> LossMasses:
    """Return the composition of a few copies, on the same grid."""
    product = distribution
    for _ in range(times - 1):
        product = product.compose(distribution)
    return product


def _rounded_log2(x: Fraction) -> int:
    """Return approximately log2 of a number, rounded up; 0 for a number below 1."""
    return max(0, (x.numerator // x.denominator).bit_length())


def _mean_square(alternatives: Sequence[Sequence[Block]]) -> float:
    """Return approximately the largest mean square of finite losses among alternatives."""
    found = 0.0
    for blocks in alternatives:
        total = 0.0
        for block in blocks:
            if block.p > 0 and block.q > 0:
                loss = float((block.p / block.q).log().mid())
                total += float(block.p.mid()) * min(abs(loss), MOST_LOSS) ** 2
        found = max(found, total)
    return found
