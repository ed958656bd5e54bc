"""Compositions of many laws of losses, by few and short convolutions."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from dprelease.privacy.grid import Grid

LONGEST = 2**13
"""Points beyond which a law is put on a coarser grid.

That adds at most width^2 / 8 to a variance, with the new width at most 1/4096 of where the law has
mass: about 2e-6 of it, and half of that of epsilon.
"""


class Composer:
    """Composes laws of losses.

    `truncation`: mass that each convolution may move from the far end to infinity. `longest`:
    points beyond which a law is put on a coarser grid.
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
        """Return the composition of all, always the two shortest next: no long one stands by."""
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
