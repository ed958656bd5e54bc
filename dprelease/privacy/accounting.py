"""Compute the privacy cost of several noisy vectors together: composition and conversion.

Privacy-loss distributions are composed by few and short convolutions, because these take most of
the time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dprelease.numerics.rounding import round_down, round_up
from dprelease.privacy.dominating import LOSS_ERROR, move_grid, slot_grid
from dprelease.privacy.grid import Grid
from dprelease.privacy.priced_vector import Kind, PricedVector, kinds_of
from dprelease.privacy.renyi import rho_of, zcdp_epsilon
from dprelease.privacy.unit import Move

LONGEST = 2**13
"""Number of points above which a distribution is moved to a coarser grid.

This adds at most width^2 / 8 to a variance. The new width is at most 1/4096 of the support of the
distribution, so the variance grows by about 2e-6 of it, and epsilon by half of that part.
"""


class Composer:
    """Composes privacy-loss distributions.

    `truncation`: probability that each convolution may move from the far end to infinity.
    `longest`: number of points above which a distribution is moved to a coarser grid.
    """

    def __init__(self, truncation: float, longest: int = LONGEST) -> None:
        self.truncation = truncation
        self.longest = longest

    def power(self, grid: Grid, times: int) -> Grid:
        """Return the composition of `times` >= 1 copies, by squaring."""
        grid = self._short(grid)
        product: Grid | None = None
        while True:
            if times % 2:
                product = grid if product is None else self._pair(product, grid)
            times //= 2
            if not times:
                assert product is not None  # for type checkers: times was at least 1
                return product
            grid = self._pair(grid, grid)

    def all(self, grids: Sequence[Grid]) -> Grid:
        """Return the composition of all grids, the two shortest first."""
        heap = [(len(grid.probabilities), place, grid) for place, grid in enumerate(grids)]
        heapq.heapify(heap)
        place = len(heap)
        while len(heap) > 1:
            both = self._pair(heapq.heappop(heap)[2], heapq.heappop(heap)[2])
            heapq.heappush(heap, (len(both.probabilities), place, both))
            place += 1
        return heap[0][2]

    def _pair(self, one: Grid, other: Grid) -> Grid:
        while one.width < other.width:
            one = one.coarser()
        while other.width < one.width:
            other = other.coarser()
        return self._short(one.compose(other))

    def _short(self, grid: Grid) -> Grid:
        grid = grid.without_tails(self.truncation)
        while len(grid.probabilities) > self.longest:
            grid = grid.coarser()
        return grid


TRUNCATED = 1e-5
"""Part of delta that the truncated tails of losses may take."""

LARGEST_PRICE = 128.0
"""Above this epsilon a privacy cost is reported as infinite: no budget is so large."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Resolution of the grids of losses. Privacy costs are upper bounds at any precision."""

    parts: int
    """Number of grid points within the root mean square of typical losses."""
    widest: float
    """Largest spacing of the grid."""
    longest: int
    """Number of points above which a composed distribution is moved to a coarser grid."""


FINE = Precision(40, 1e-3, LONGEST)
"""Precision of all guarantees."""

ROUGH = Precision(10, 4e-3, LONGEST // 8)
"""Precision for comparing candidates: mostly within 0.1 % of the fine cost, and much faster."""


PARTS = (Fraction(1, 2), Fraction(1, 64))
"""Parts of delta tried for vectors with Rényi divergences, when others have loss distributions."""


def pure_epsilon(vectors: Sequence[PricedVector]) -> Fraction | None:
    """Return the exact sum of the largest losses of all vectors; None if one is unbounded.

    Basic composition of pure guarantees: Dwork, McSherry, Nissim and Smith 2006.
    """
    total = Fraction(0)
    for vector in vectors:
        worst = Fraction(0)
        for move in vector.sensitivity.moves:
            largest = max(loss.pure_epsilon for loss in vector.losses(move.shift))
            if math.isinf(largest):
                return None
            worst = max(worst, move.cells * Fraction(largest))
        total += vector.sensitivity.slots * worst
    return total


def epsilon_at(
    vectors: Sequence[PricedVector], delta: Fraction, precision: Precision = FINE
) -> float:
    """Return an upper bound of the epsilon that all vectors together have at `delta`.

    For delta 0 this is the pure epsilon. Otherwise it is the least of three bounds: the pure
    epsilon, the exact formula if every loss is normal, and the composition of privacy-loss
    distributions. Infinity if there is no guarantee.
    """
    pure = pure_epsilon(vectors)
    pure_price = math.inf if pure is None else round_up(pure)
    if delta == 0:
        return pure_price
    mu = _normal_mu(vectors)
    if mu is not None:
        return min(pure_price, _normal_epsilon(mu, round_down(delta)))
    curves = [vector for vector in vectors if _is_by_curve(vector)]
    if curves:
        return min(pure_price, _by_curves(vectors, curves, delta, precision))
    return min(
        pure_price, _composed_epsilon(tuple(kinds_of(vectors)), round_down(delta), precision)
    )


def _is_by_curve(vector: PricedVector) -> bool:
    return any(
        loss.by_curve for move in vector.sensitivity.moves for loss in vector.losses(move.shift)
    )


def _by_curves(
    vectors: Sequence[PricedVector],
    curves: Sequence[PricedVector],
    delta: Fraction,
    precision: Precision,
) -> float:
    """Return an epsilon of vectors of which some, `curves`, have Rényi divergences only.

    It is the smaller of two bounds. The first uses the Rényi divergences of all vectors. The second
    is basic composition: `curves` by their divergences at a part of delta, the others by their loss
    distributions at the rest of delta. The second is sharper where most vectors have loss
    distributions.
    """
    together, alone = zcdp_epsilon(rho_of(vectors), round_down(delta)), rho_of(curves)
    others = [vector for vector in vectors if not _is_by_curve(vector)]
    if not others or math.isinf(alone):
        return together
    separate_sum = min(
        epsilon_at(others, delta * (1 - part), precision)
        + zcdp_epsilon(alone, round_down(delta * part))
        for part in PARTS
    )
    return min(together, separate_sum * (1.0 + 2.0**-40))


def _normal_mu(vectors: Sequence[PricedVector]) -> float | None:
    """Return mu of the composed loss if all losses are normal; squares of mu add up."""
    total = 0.0
    for vector in vectors:
        worst = 0.0
        for move in vector.sensitivity.moves:
            for loss in vector.losses(move.shift):
                if loss.normal_mu is None:
                    return None
                worst = max(worst, move.cells * loss.normal_mu**2)
        total += vector.sensitivity.slots * worst
    return math.sqrt(total) * (1.0 + 2.0**-40)


def _normal_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon, up to rounding up, whose normal delta is at most `delta`.

    Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8, by bisection that ends on the safe side.
    """
    from dprelease.privacy.losses.normal import normal_delta

    low, high = 0.0, 1.0
    if normal_delta(mu, 0.0) <= delta:
        return 0.0
    while normal_delta(mu, high) > delta:
        high *= 2.0
    while high - low > 2.0**-44 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if normal_delta(mu, middle) > delta else (low, middle)
    return high


@lru_cache(maxsize=64)
def _composed_epsilon(kinds: tuple[Kind, ...], delta: float, precision: Precision) -> float:
    """Return epsilon of the composed privacy-loss distributions, or infinity if none is found.

    Cached, because a plan computes the same cost twice: at the end of its search and for its
    guarantee.
    """
    if any(_too_dear(vector, delta) for vector, _ in kinds):
        return math.inf
    width = _grid_width(kinds, precision)
    coordinates = sum(
        slots * max(move.cells for move in vector.sensitivity.moves) for vector, slots in kinds
    )
    # A squaring truncates once, but its result is used for all later copies.
    composer = Composer(delta * TRUNCATED / (4 * coordinates), precision.longest)
    try:
        parts = [_several(vector, slots, width, composer) for vector, slots in kinds]
    except OverflowError:
        return math.inf
    lattice_epsilon = composer.all(parts).epsilon(delta)
    return (lattice_epsilon + coordinates * LOSS_ERROR) * (1.0 + 2.0**-40)


def _too_dear(vector: PricedVector, delta: float) -> bool:
    """Return whether a single cell costs more than any budget; composition only adds to it."""
    return any(
        loss.span > LARGEST_PRICE and loss.delta(LARGEST_PRICE) > delta
        for move in vector.sensitivity.moves
        for loss in vector.losses(move.shift)
    )


def _several(vector: PricedVector, slots: int, width: float, composer: Composer) -> Grid:
    """Return the composition of `slots` parts, each bounded by the worst of the vector's moves."""
    moves = vector.sensitivity.moves
    if len(moves) > 1:
        slot = slot_grid(vector.losses, vector.sensitivity, width)
        return composer.power(slot, slots)
    single = move_grid(vector.losses, Move(moves[0].shift, 1), width)
    return composer.power(single, slots * moves[0].cells)


def _grid_width(kinds: Sequence[Kind], precision: Precision) -> float:
    """Return the spacing of losses: a small part of the root mean square of typical losses.

    A split onto two points of the grid adds at most width^2 / 4 to the variance of a coordinate's
    loss. At a fortieth that is less than 1/6000 of the composed variance, and half of it of
    epsilon.
    """
    square, coordinates = 0.0, 0
    for vector, slots in kinds:
        cells = slots * max(move.cells for move in vector.sensitivity.moves)
        typical = max(
            min(loss.pure_epsilon, loss.span / 13.5)
            for move in vector.sensitivity.moves
            for loss in vector.losses(move.shift)
        )
        square += cells * typical**2
        coordinates += cells
    width = min(math.sqrt(square / coordinates) / precision.parts, precision.widest)
    return width or precision.widest  # the only finite loss is 0, which is on any grid
