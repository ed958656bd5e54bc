"""Convolutions of privacy-loss distributions by dp-accounting, few and small ones first."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

FEW = 16
"""Powers up to here go by squaring; beyond, one transform and Chernoff bounds are faster."""


class Composer:
    """Composes distributions, and counts the convolutions for which an error is allowed.

    `truncation`: mass that each convolution may move from the far ends to infinity.
    """

    def __init__(self, truncation: float) -> None:
        self.truncation = truncation
        self.count = 0

    def power(self, pmf: PLDPmf, times: int) -> PLDPmf:
        """Return the composition of `times` >= 1 copies."""
        if times > FEW:
            self.count += 1
            return pmf.self_compose(times, self.truncation)
        found: PLDPmf | None = None
        while True:
            if times % 2:
                found = pmf if found is None else self._pair(found, pmf)
            times //= 2
            if not times:
                assert found is not None  # for type checkers: times was at least 1
                return found
            pmf = self._pair(pmf, pmf)

    def all(self, pmfs: Sequence[PLDPmf]) -> PLDPmf:
        """Return the composition of all, always the two shortest next: no long one stands by."""
        heap = [(pmf.size, place, pmf) for place, pmf in enumerate(pmfs)]
        heapq.heapify(heap)
        place = len(heap)
        while len(heap) > 1:
            one, other = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
            both = self._pair(one, other)
            heapq.heappush(heap, (both.size, place, both))
            place += 1
        return heap[0][2]

    def _pair(self, one: PLDPmf, other: PLDPmf) -> PLDPmf:
        self.count += 1
        return one.compose(other, self.truncation)
