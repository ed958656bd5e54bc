"""What is run each time, and what in audits: a cover of all pairs, or the product; few examples, or many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import settings

Cell = tuple[int, ...]

GOLDEN = (5**0.5 - 1) / 2
"""Its multiples spread evenly between whole numbers."""


def covered(cell: Cell, together: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield what a combination covers: so many of its values, each with its axis."""
    return combinations(enumerate(cell), together)


def cover(cells: Sequence[Cell], together: int = 2) -> set[Cell]:
    """Return combinations in which any `together` values that occur together occur together.

    Greedy: at each step one that covers most of what is left, of values that have been taken least.
    At most about twice as many as are needed; the same ones in every run.
    """
    together = min(together, len(cells[0]))
    left = {part for cell in cells for part in covered(cell, together)}
    found: set[Cell] = set()
    taken: Counter[tuple[int, int]] = Counter()

    def worth(cell: Cell) -> tuple[int, int]:
        gained = sum(part in left for part in covered(cell, together))
        return gained, -sum(taken[value] for value in enumerate(cell))

    while left:
        best = max(cells, key=worth)
        found.add(best)
        taken.update(enumerate(best))
        left.difference_update(covered(best, together))
    return found


def thinned(*axes: Sequence[Any], together: int = 2) -> list[Any]:
    """Return all combinations for `parametrize`; those beyond the cover are marked for audits."""
    cells = list(product(*(range(len(axis)) for axis in axes)))
    chosen = cover(cells, together)
    return [
        pytest.param(
            *(axis[i] for axis, i in zip(axes, cell, strict=True)),
            marks=[] if cell in chosen else pytest.mark.audit,
        )
        for cell in cells
    ]


def spread(cells: Sequence[tuple[Any, ...]], share: float = 0.3) -> list[Any]:
    """Return combinations for `parametrize`; those beyond a share of them are marked for audits.

    Which are left is spread evenly, whatever the period in which values come again.
    """
    return [
        pytest.param(*cell, marks=[] if i * GOLDEN % 1 < share else pytest.mark.audit)
        for i, cell in enumerate(cells)
    ]


def sampled(cells: Iterable[Any], share: float = 0.5) -> Iterator[Any]:
    """Yield a share of what a test goes through, spread evenly as by `spread`; in audits all."""
    is_audit = settings.get_current_profile_name() == "audit"
    return (cell for i, cell in enumerate(cells) if is_audit or i * GOLDEN % 1 < share)


def examples(number: int, in_audits: int | None = None) -> settings:
    """Return settings of Hypothesis: so many examples each time, ten times as many in audits.

    The simplest one, which Hypothesis tries first, comes on top: no rows, or equal ones, show little.
    `in_audits`: the number of examples in audits, if it is another.
    """
    is_audit = settings.get_current_profile_name() == "audit"
    return settings(max_examples=1 + (in_audits or 10 * number if is_audit else number))
