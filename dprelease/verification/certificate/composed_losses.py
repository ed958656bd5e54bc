"""An epsilon at a delta from above: losses of all parts composed in whole numbers.

The larger one of several curves delta(epsilon), at every epsilon, as a privacy-loss distribution.

With x = exp(epsilon), the curve of a distribution is convex and falls, and a largest of such curves
is one again (Zhu, Dong and Wang 2022, arXiv 2106.08567v4, Proposition 4). Between points of the
grid its chords lie above it. They are the curve of the distribution whose Q mass at a point is how
much the slope changes there, and whose P mass is x times that. A slot of which a unit chooses the
move, or a distribution whose two directions differ, is bounded by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb, ctx

from dprelease.numerics.balls import LEAST_FLOAT, ball
from dprelease.verification.certificate.closed_forms import above
from dprelease.verification.certificate.kinds import VectorKind
from dprelease.verification.certificate.loss_masses import Composer, LossMasses, units
from dprelease.verification.certificate.neighbour_blocks import SLACK, Block, Cutting, on_grid
from dprelease.verification.certificate.proven_losses import bit


def pointwise_largest(laws: Sequence[LossMasses]) -> LossMasses:
    """Return a distribution whose curve is nowhere below those of `laws`; equal grid and bits."""
    best = laws[0]
    for other in laws[1:]:
        best = _larger(best, other)
    return best


def _larger(one: LossMasses, other: LossMasses) -> LossMasses:
    """Return the distribution of the chords through the larger values.

    Second differences lose digits: balls have enough of them for what a grid of this width and
    length takes away.
    """
    first = min(one.first, other.first)
    last = max(law.first + len(law.masses) - 1 for law in (one, other))
    reach = int(max(abs(first), abs(last)) * one.width) + 1
    with ctx.workprec(2 * one.bits + 4 * reach + 128):
        width = ball(one.width)
        points = [(first * width).exp()]
        rise = width.exp()
        for _ in range(last - first):
            points.append(points[-1] * rise)
        curves = (_curve(law, first, points) for law in (one, other))
        values = [a.max(b) for a, b in zip(*curves, strict=True)]
        start = max(one.total, other.total)
        slopes = [(values[0] - start) / points[0]]
        slopes += [
            (values[i + 1] - values[i]) / (points[i] * (rise - 1)) for i in range(last - first)
        ]
        slopes.append(arb(0))
        masses = [
            max(0, units(points[i] * (slopes[i + 1] - slopes[i]), 0)) for i in range(len(points))
        ]
    infinite = max(one.infinite, other.infinite)
    return LossMasses(one.width, first, masses, infinite, one.bits)


def _curve(law: LossMasses, first: int, points: Sequence[arb]) -> list[arb]:
    """Return delta at every point of the grid, in units."""
    p, q = law.infinite, arb(0)
    values = []
    for i in range(len(points) - 1, -1, -1):
        values.append(p - points[i] * q)
        place = first + i - law.first
        if 0 <= place < len(law.masses):
            mass = int(law.masses[place])
            p += mass
            q += mass / points[i]
    return values[::-1]


UNIT_BITS = 64
"""Bits of a unit below delta over all cells: so little do roundings up add."""

LONGEST_CELL = 2**19
MOST_LOSS = 400.0
"""Largest loss of the search for a cost."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The resolution of losses. The result is a bound for any resolution.

    `parts`: blocks in the root mean square of losses. `most`: blocks of one distribution.
    `longest`: points of a composed distribution. `raised`: bits below delta of what all far ends
    together add to it. `gains`: conservative bound of the relative gain from finer grids. `grid`:
    points of the grid in the difference of two blocks.
    """

    parts: int
    most: int
    longest: int
    raised: int
    gains: float
    grid: int = 4


EFFORTS = (
    Effort(120, 2**13, 2**14, 20, 2.0**-8),
    Effort(500, 2**15, 2**16, 30, 2.0**-11),
    Effort(2000, 2**17, 2**17, 50, 0.0),
)
OF_MANY = replace(EFFORTS[0], grid=2)
FEW, MANY = 8, 96
"""Numbers of kinds up to which the finest resolution is tried, and above which only one is."""


def efforts(kinds: int) -> tuple[Effort, ...]:
    """Return resolutions for so many kinds, to try one after the other until one suffices."""
    return (OF_MANY,) if kinds > MANY else EFFORTS[: 3 if kinds <= FEW else 2]


class TooLongError(ArithmeticError):
    """Losses reach too far for a grid."""


class LossGrids:
    """The losses of the cells of all vectors on one grid, fine enough for a delta.

    Each distribution dominates the losses of its cell less `slack`.

    Raises
    ------
    TooLongError
        If the losses of one cell reach too far for a grid, or nothing is proved of them.
    """

    def __init__(self, kinds: Sequence[VectorKind], delta: Fraction, effort: Effort) -> None:
        self.kinds = kinds
        self.delta = delta
        self.cells = sum(kind.cells_of_unit for kind in kinds)
        self.bits = _bits(1 / delta) + _bits(Fraction(self.cells)) + UNIT_BITS
        self.effort = effort
        least = float(delta) / self.cells / 2.0**effort.raised or LEAST_FLOAT
        rough = Cutting(math.inf, least, effort.most)
        self.width, fine = self._width(rough)
        self.cutting = Cutting(fine, least, effort.most)

    @property
    def slack(self) -> Fraction:
        """Return the amount by which the losses of one cell are reduced."""
        return SLACK * self.width

    def of_moves(self, kind: VectorKind) -> list[tuple[int, list[LossMasses]]]:
        """Return how many cells each move of a part has, and the losses of one, up and down."""
        found = []
        for move in kind.sensitivity.moves:
            with ctx.workprec(self._precision(kind)):
                ways = kind.losses.cells(move.shift, self.cutting)
                found.append((move.cells, [self.on_grid(blocks) for blocks in ways]))
        return found

    def on_grid(self, blocks: Sequence[Block]) -> LossMasses:
        """Return the losses of blocks."""
        ends = [end for block in blocks for end in (block.low, block.high) if end is not None]
        reach = max((abs(float(end.mid())) for end in ends), default=0.0)
        if not reach / float(self.width) < LONGEST_CELL:
            raise TooLongError
        return on_grid(blocks, self.width, self.bits)

    def _width(self, rough: Cutting) -> tuple[Fraction, float]:
        """Return the spacing of losses, and that of blocks.

        A block whose losses are split onto points at most r apart adds at most r^2 / 4 to the
        variance of a cell's loss. Where a kind has a loss that much of its mass has, the grid meets
        it.
        """
        squares = [
            (_mean_square(self._alternatives(k, rough)) * k.cells_of_unit, k) for k in self.kinds
        ]
        total = sum(square for square, _ in squares)
        fine = math.sqrt(total / self.cells) / self.effort.parts or 1e-3
        width = Fraction(fine / self.effort.grid)
        _, main = max(squares, key=lambda pair: pair[0])
        for loss in _main_losses(main):
            if loss >= width:
                return loss / math.ceil(loss / width), fine
        return width, fine

    def _alternatives(self, kind: VectorKind, cutting: Cutting) -> list[list[Block]]:
        """Return blocks of one cell of a kind, of each move; of a whole vector where parts meet."""
        if kind.meets:
            return [bit(_largest_of_one(kind))]
        with ctx.workprec(self._precision(kind)):
            return [
                blocks
                for move in kind.sensitivity.moves
                for blocks in kind.losses.cells(move.shift, cutting)
            ]

    def _precision(self, kind: VectorKind) -> int:
        """Return bits of balls: a mass may be a small difference of two tails."""
        return self.bits + 96 + 2 * _bits(Fraction(kind.law.scale))


@dataclass(frozen=True, slots=True)
class ComposedLosses:
    """The losses of all vectors together, less `slack`."""

    law: LossMasses
    slack: Fraction

    def epsilon_at(self, delta: Fraction) -> Fraction | None:
        """Return an epsilon that all vectors have together at `delta`; None if none is found."""
        found = self.law.epsilon_at(delta)
        return None if found is None else above(found) + self.slack

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """Return a delta that all vectors have together at an epsilon."""
        return min(Fraction(1), above(self.law.delta_at(epsilon - self.slack)))


def composed_losses(kinds: Sequence[VectorKind], delta: Fraction, effort: Effort) -> ComposedLosses:
    """Return the losses of all vectors together, fine enough for a delta.

    Raises
    ------
    TooLongError
        If the losses of one cell reach too far for a grid, or nothing is proved of them.
    """
    grids = LossGrids(kinds, delta, effort)
    allowance = int(delta * 2**grids.bits / (grids.cells * 2 ** (effort.raised + 2)))
    composer = Composer(allowance, effort.longest)
    laws = [_compose_kind(kind, grids, composer) for kind in kinds]
    return ComposedLosses(composer.every(laws), grids.cells * grids.slack)


def _compose_kind(kind: VectorKind, grids: LossGrids, composer: Composer) -> LossMasses:
    """Return the composition of all parts of all vectors of one kind."""
    if kind.meets:
        whole = grids.on_grid(bit(_largest_of_one(kind)))
        return composer.power(whole, kind.vectors)
    parts = kind.vectors * kind.sensitivity.slots
    moves = [(cells, pointwise_largest(ways)) for cells, ways in grids.of_moves(kind)]
    if len(moves) == 1:
        ((cells, cell),) = moves
        return composer.power(cell, parts * cells)
    return composer.power(pointwise_largest([_power(cell, n) for n, cell in moves]), parts)


def _largest_of_one(kind: VectorKind) -> Fraction:
    largest = kind.largest_of_one
    if largest is None:
        raise TooLongError
    return largest


def _main_losses(kind: VectorKind) -> list[Fraction]:
    """Return losses that a grid should meet, the finest first.

    Of discrete Laplace noise all are multiples of 1 / scale; of others many are one.
    """
    shift = max(move.shift for move in kind.sensitivity.moves)
    usual = kind.largest_of_one if kind.meets else kind.losses.usual(shift)
    return [usual / shift, usual] if usual else []


def _power(law: LossMasses, times: int) -> LossMasses:
    """Return the composition of a few copies, on the same grid."""
    product = law
    for _ in range(times - 1):
        product = product.compose(law)
    return product


def _bits(x: Fraction) -> int:
    """Return about log2 of a number from 1 on, rounded up; 0 below."""
    return max(0, (x.numerator // x.denominator).bit_length())


def _mean_square(alternatives: Sequence[Sequence[Block]]) -> float:
    """Return about the largest mean square of finite losses."""
    found = 0.0
    for blocks in alternatives:
        total = 0.0
        for block in blocks:
            if block.p > 0 and block.q > 0:
                loss = float((block.p / block.q).log().mid())
                total += float(block.p.mid()) * min(abs(loss), MOST_LOSS) ** 2
        found = max(found, total)
    return found
