"""An epsilon at a delta from above: losses of all parts composed in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import ctx

from dprelease.verification.certificate.closed_forms import above
from dprelease.verification.certificate.kinds import VectorKind
from dprelease.verification.certificate.largest_profile import pointwise_largest
from dprelease.verification.certificate.loss_masses import Composer, LossMasses
from dprelease.verification.certificate.neighbour_blocks import SLACK, Block, Cutting, on_grid
from dprelease.verification.certificate.proven_losses import bit

RAISED = 20
"""Bits below delta of what all far ends together add to it."""

SPARE = 24
"""Bits of a unit below what every rounding up together may add to delta."""

LONGEST_CELL = 2**21
MOST_LOSS = 400.0
"""Losses beyond which no price is looked for."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How fine losses are looked at. Whatever it is, what comes out is a bound.

    `parts`: blocks in the root mean square of losses. `most`: blocks of one law. `longest`: points
    of a composed law.
    """

    parts: int
    most: int
    longest: int


EFFORTS = (Effort(120, 2**13, 2**14), Effort(500, 2**15, 2**16), Effort(2000, 2**17, 2**17))
GRID = 4
"""Points of the grid in the difference of two blocks."""


class TooLongError(ArithmeticError):
    """Losses reach too far for a grid."""


class ComposedLosses:
    """The losses of all vectors, composed for one delta."""

    def __init__(self, kinds: Sequence[VectorKind], delta: Fraction, effort: Effort) -> None:
        self.kinds = kinds
        self.delta = delta
        self.effort = effort
        self.cells = sum(kind.touched for kind in kinds)
        steps = math.ceil(math.log2(max(2, self.cells))) + 20
        self.bits = _bits(1 / delta) + steps + SPARE
        self.allowance = int(delta * 2**self.bits / (self.cells * 2 ** (RAISED + 2)))
        self.least = float(delta) / self.cells / 2.0**RAISED

    def epsilon(self) -> Fraction | None:
        """Return an epsilon that all vectors have at delta; None if none is found.

        Raises
        ------
        TooLongError
            If the losses of one cell reach too far for a grid.
        """
        width, fine = self._width()
        found = self._composed(width, fine).epsilon_at(self.delta)
        return None if found is None else above(found) + self.cells * SLACK * width

    def _composed(self, width: Fraction, fine: float) -> LossMasses:
        """Return the law of all losses together, each less its slack."""
        composer = Composer(self.allowance, self.effort.longest)
        cutting = Cutting(fine, self.least, self.effort.most)
        return composer.every([self._kind(kind, cutting, width, composer) for kind in self.kinds])

    def _width(self) -> tuple[Fraction, float]:
        """Return the spacing of losses, and that of blocks.

        A block whose losses are split onto points at most r apart adds at most r^2 / 4 to the
        variance of a cell's loss. Where a kind has a largest loss, which much of its mass has, the
        grid meets it.
        """
        rough = Cutting(math.inf, self.least, self.effort.most)
        squares = [(_mean_square(self._alternatives(k, rough)) * k.touched, k) for k in self.kinds]
        total = sum(square for square, _ in squares)
        fine = math.sqrt(total / self.cells) / self.effort.parts or 1e-3
        width = Fraction(fine / GRID)
        _, main = max(squares, key=lambda pair: pair[0])
        for loss in self._main_losses(main):
            if loss >= width:
                return loss / math.ceil(loss / width), fine
        return width, fine

    def _main_losses(self, kind: VectorKind) -> list[Fraction]:
        """Return losses that a grid should meet, the finest first.

        Of discrete Laplace noise all are multiples of 1 / scale; of others many are the largest.
        """
        shift = max(move.shift for move in kind.sensitivity.moves)
        largest = kind.largest_of_one if kind.meets else kind.losses.largest(shift)
        return [largest / shift, largest] if largest else []

    def _alternatives(self, kind: VectorKind, cutting: Cutting) -> list[list[Block]]:
        """Return the blocks of one cell of a kind, of each move; of a whole vector where it meets.

        """
        if kind.meets:
            largest = kind.largest_of_one
            if largest is None:
                raise TooLongError
            return [bit(largest)]
        with ctx.workprec(self.precision(kind)):
            return [
                blocks
                for move in kind.sensitivity.moves
                for blocks in kind.losses.cells(move.shift, cutting)
            ]

    def precision(self, kind: VectorKind) -> int:
        """Return bits of balls: a mass may be a small difference of two tails."""
        return self.bits + 96 + 2 * _bits(Fraction(kind.law.scale))

    def _kind(
        self, kind: VectorKind, cutting: Cutting, width: Fraction, composer: Composer
    ) -> LossMasses:
        """Return the composition of all parts of all vectors of one kind."""
        if kind.meets:
            (whole,) = self._alternatives(kind, cutting)
            return composer.power(self._on_grid(whole, width), kind.vectors)
        parts = kind.vectors * kind.sensitivity.slots
        moves = kind.sensitivity.moves
        slots = []
        for move in moves:
            with ctx.workprec(self.precision(kind)):
                ways = kind.losses.cells(move.shift, cutting)
                cell = pointwise_largest([self._on_grid(blocks, width) for blocks in ways])
            if len(moves) == 1:
                return composer.power(cell, parts * move.cells)
            slots.append(_power(cell, move.cells))
        return composer.power(pointwise_largest(slots), parts)

    def _on_grid(self, blocks: Sequence[Block], width: Fraction) -> LossMasses:
        ends = [b.high for b in blocks if b.high is not None] + [b.low for b in blocks if b.low]
        reach = max((abs(float(end.mid())) for end in ends), default=0.0)
        if not reach / float(width) < LONGEST_CELL:
            raise TooLongError
        return on_grid(blocks, width, self.bits)


def _power(law: LossMasses, times: int) -> LossMasses:
    """Return the composition of a few copies, on the same grid."""
    product = law
    for _ in range(times - 1):
        product = product.composed(law)
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
