"""Compute the privacy cost of several noisy vectors together, by composing their privacy losses.

Convolutions of privacy-loss distributions take most of the time, so this module composes them by
few and short convolutions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dprelease.numerics.rounding import round_down, round_up
from dprelease.privacy.grid import LOSS_ERROR, Grid, move_grid, slot_grid
from dprelease.privacy.priced_vector import PricedVector, VectorCount, count_equal_vectors
from dprelease.privacy.renyi import rho_of, zcdp_epsilon
from dprelease.privacy.unit import Move

MOST_POINTS = 2**13
"""Number of points above which a privacy-loss distribution is moved to a coarser grid.

A coarser grid adds at most width^2 / 8 to the variance of the loss. The new width is at most 1/4096
of the support of the distribution, so the variance grows by a part of about 2e-6, and epsilon by
half of this part.
"""


class Composer:
    """Composes privacy-loss distributions.

    `truncation` is the probability that each convolution may move from the largest losses to an
    infinite loss. `most_points` is the number of points above which a distribution is moved to a
    coarser grid.
    """

    def __init__(self, truncation: float, most_points: int = MOST_POINTS) -> None:
        self.truncation = truncation
        self.most_points = most_points

    def compose_copies(self, grid: Grid, times: int) -> Grid:
        """Return the composition of `times` >= 1 copies of a distribution, by repeated squaring."""
        grid = self._limit_length(grid)
        product: Grid | None = None
        while True:
            if times % 2:
                product = grid if product is None else self._compose_pair(product, grid)
            times //= 2
            if not times:
                assert product is not None  # for type checkers: times was at least 1
                return product
            grid = self._compose_pair(grid, grid)

    def compose_all(self, grids: Sequence[Grid]) -> Grid:
        """Return the composition of all distributions; the two shortest are always next."""
        # The number decides ties, because grids can't be compared.
        heap = [(len(grid.probabilities), number, grid) for number, grid in enumerate(grids)]
        heapq.heapify(heap)
        number = len(heap)
        while len(heap) > 1:
            composed = self._compose_pair(heapq.heappop(heap)[2], heapq.heappop(heap)[2])
            heapq.heappush(heap, (len(composed.probabilities), number, composed))
            number += 1
        return heap[0][2]

    def _compose_pair(self, one: Grid, other: Grid) -> Grid:
        """Return the composed losses of two grids, after the finer one was coarsened."""
        while one.width < other.width:
            one = one.with_double_width()
        while other.width < one.width:
            other = other.with_double_width()
        return self._limit_length(one.compose(other))

    def _limit_length(self, grid: Grid) -> Grid:
        """Return a grid without its tails, coarsened until it has few enough points."""
        # Truncation is always safe: what is cut off gets an infinite loss, which `epsilon` counts
        # fully.
        grid = grid.without_tails(self.truncation)
        while len(grid.probabilities) > self.most_points:
            grid = grid.with_double_width()
        return grid


TRUNCATED_PART_OF_DELTA = 1e-5
"""Largest part of delta that the truncated tails of all losses together may spend."""

LARGEST_EPSILON = 128.0
"""A larger epsilon is reported as infinite, because no budget is so large."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The resolution of the grids of losses. At any precision, privacy costs are upper bounds."""

    points_per_loss: int
    """Number of grid points within the root mean square of typical losses."""
    largest_width: float
    """Largest spacing of the grid points."""
    most_points: int
    """Number of points above which a composed distribution is moved to a coarser grid."""


FINE = Precision(40, 1e-3, MOST_POINTS)
"""The precision with which all guarantees are computed."""

ROUGH = Precision(10, 4e-3, MOST_POINTS // 8)
"""A precision for comparing candidates, whose costs are mostly within 0.1 % of the fine cost.

Its computations are much faster."""


RENYI_PARTS_OF_DELTA = (Fraction(1, 2), Fraction(1, 64))
"""Parts of delta that are tried for vectors of which only Rényi divergences are known.

The other vectors, which have loss distributions, get the rest of delta."""


def pure_epsilon(vectors: Sequence[PricedVector]) -> Fraction | None:
    """Return the exact sum of the largest losses of all vectors, or None if a loss is unbounded.

    The sum is the epsilon of basic composition of pure guarantees (Dwork, McSherry, Nissim and
    Smith 2006).
    """
    total = Fraction(0)
    for vector in vectors:
        worst = Fraction(0)
        for move in vector.sensitivity.moves:
            # Floats are rounded up before, and their exact values are added, so the sum is an upper
            # bound.
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

    For delta 0 the result is the pure epsilon. Otherwise it is the least of the bounds that apply:
    the pure epsilon; the exact formula, if every loss is normal; and the composition of
    privacy-loss distributions or of Rényi divergences. The result is infinite if no bound is known.
    """
    pure = pure_epsilon(vectors)
    pure_cost = math.inf if pure is None else round_up(pure)
    if delta == 0:
        return pure_cost
    mu = _normal_mu(vectors)
    if mu is not None:
        return min(pure_cost, _normal_epsilon(mu, round_down(delta)))
    renyi_vectors = [vector for vector in vectors if _has_only_renyi_losses(vector)]
    if renyi_vectors:
        return min(pure_cost, _epsilon_with_renyi(vectors, renyi_vectors, delta, precision))
    return min(
        pure_cost,
        _composed_epsilon(tuple(count_equal_vectors(vectors)), round_down(delta), precision),
    )


def _has_only_renyi_losses(vector: PricedVector) -> bool:
    """Return whether only the Rényi divergence of some loss of a vector is known."""
    return any(
        loss.has_only_renyi
        for move in vector.sensitivity.moves
        for loss in vector.losses(move.shift)
    )


def _epsilon_with_renyi(
    vectors: Sequence[PricedVector],
    renyi_vectors: Sequence[PricedVector],
    delta: Fraction,
    precision: Precision,
) -> float:
    """Return an epsilon of all vectors, if only Rényi divergences of `renyi_vectors` are known.

    It is the smaller of two bounds. The first bound uses the Rényi divergences of all vectors. The
    second bound is basic composition: it adds an epsilon of `renyi_vectors` at a part of delta, and
    an epsilon of the other vectors, from their loss distributions, at the rest of delta. The second
    bound is sharper if most vectors have loss distributions.
    """
    together, alone = zcdp_epsilon(rho_of(vectors), round_down(delta)), rho_of(renyi_vectors)
    others = [vector for vector in vectors if not _has_only_renyi_losses(vector)]
    if not others or math.isinf(alone):
        return together
    separate_sum = min(
        # The deltas of both parts add up to delta, as basic composition requires.
        epsilon_at(others, delta * (1 - part), precision)
        + zcdp_epsilon(alone, round_down(delta * part))
        for part in RENYI_PARTS_OF_DELTA
    )
    return min(together, separate_sum * (1.0 + 2.0**-40))


def _normal_mu(vectors: Sequence[PricedVector]) -> float | None:
    """Return the mu of the composed loss, rounded up, or None unless all losses are normal.

    The squares of the mu of all vectors add up.
    """
    total = 0.0
    for vector in vectors:
        worst = 0.0
        for move in vector.sensitivity.moves:
            for loss in vector.losses(move.shift):
                if loss.normal_mu is None:
                    return None
                worst = max(worst, move.cells * loss.normal_mu**2)
        total += vector.sensitivity.slots * worst
    # Each term has a relative error of some 2^-52, and their number is the number of vectors.
    return math.sqrt(total) * (1.0 + 2.0**-40)


def _normal_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon, rounded up, at which a normal loss has at most `delta`.

    The function inverts the formula of Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8, by
    bisection.
    """
    from dprelease.privacy.losses.normal import normal_delta

    low, high = 0.0, 1.0
    if normal_delta(mu, 0.0) <= delta:
        return 0.0
    while normal_delta(mu, high) > delta:
        high *= 2.0
    # The formula was evaluated at `high`, which is therefore a bound wherever the search stops.
    while high - low > 2.0**-44 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if normal_delta(mu, middle) > delta else (low, middle)
    return high


@lru_cache(maxsize=64)
def _composed_epsilon(kinds: tuple[VectorCount, ...], delta: float, precision: Precision) -> float:
    """Return the epsilon of the composed privacy-loss distributions, or infinity.

    The result is infinite if no epsilon is found. Results are cached, because a plan computes the
    same cost twice: at the end of its search and for its guarantee.
    """
    if any(_exceeds_largest_epsilon(vector, delta) for vector, _ in kinds):
        return math.inf
    width = _grid_width(kinds, precision)
    coordinates = sum(
        slots * max(move.cells for move in vector.sensitivity.moves) for vector, slots in kinds
    )
    # A squaring truncates once, but the truncated probability counts for all composed copies.
    composer = Composer(delta * TRUNCATED_PART_OF_DELTA / (4 * coordinates), precision.most_points)
    try:
        parts = [_vector_grid(vector, slots, width, composer) for vector, slots in kinds]
    except OverflowError:
        return math.inf
    grid_epsilon = composer.compose_all(parts).epsilon(delta)
    # Every coordinate has its own loss error, and the errors of a sum add up.
    return (grid_epsilon + coordinates * LOSS_ERROR) * (1.0 + 2.0**-40)


def _exceeds_largest_epsilon(vector: PricedVector, delta: float) -> bool:
    """Return whether a single cell of a vector costs more than `LARGEST_EPSILON`.

    Composition with other cells only adds costs.
    """
    return any(
        # The first condition is cheap, and mostly false.
        loss.largest_relevant_loss > LARGEST_EPSILON and loss.delta(LARGEST_EPSILON) > delta
        for move in vector.sensitivity.moves
        for loss in vector.losses(move.shift)
    )


def _vector_grid(vector: PricedVector, slots: int, width: float, composer: Composer) -> Grid:
    """Return a loss distribution that dominates `slots` parts, each of them any of the moves."""
    moves = vector.sensitivity.moves
    if len(moves) > 1:
        slot = slot_grid(vector.losses, vector.sensitivity, width)
        return composer.compose_copies(slot, slots)
    # A single move needs no common bound of several moves, and its cells are composed by squaring.
    cell_grid = move_grid(vector.losses, Move(moves[0].shift, 1), width)
    return composer.compose_copies(cell_grid, slots * moves[0].cells)


def _grid_width(kinds: Sequence[VectorCount], precision: Precision) -> float:
    """Return the spacing of the grid, a small part of the root mean square of typical losses.

    Dividing a loss between two points of the grid adds at most width^2 / 4 to the variance of the
    loss of one coordinate. If the width is a fortieth of the root mean square, this is less than
    1/6000 of the composed variance, and adds half of this fraction to epsilon.
    """
    square, coordinates = 0.0, 0
    for vector, slots in kinds:
        cells = slots * max(move.cells for move in vector.sensitivity.moves)
        typical = max(
            min(loss.pure_epsilon, loss.largest_relevant_loss / 13.5)
            for move in vector.sensitivity.moves
            for loss in vector.losses(move.shift)
        )
        square += cells * typical**2
        coordinates += cells
    # The width may be anything without harm to the guarantee: it only determines how much epsilon
    # is rounded up.
    width = min(
        math.sqrt(square / coordinates) / precision.points_per_loss, precision.largest_width
    )
    return width or precision.largest_width  # a width of 0: the only finite loss is 0
