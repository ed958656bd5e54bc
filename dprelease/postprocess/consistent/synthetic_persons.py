"""Make synthetic persons whose counts are those of integer tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.family import Cliques
from dprelease.consistency.fixed_point import Whole

AT_ONCE = 1 << 20
"""Number of persons per batch."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio


def persons_of_areas(
    cliques: Cliques, order: Sequence[tuple[Table, Table | None]], sizes: Sequence[int]
) -> Iterator[Whole]:
    """Yield the cells of all keys in which the persons of some areas are, in rising order.

    Cells are numbered from those of the first area on. Persons of a clique with a separator are
    joined to those of the cliques before it that have the same values in the separator; there are
    equally many. Which of them are joined follows from their numbers alone, spread evenly by
    multiples of the golden ratio, so that keys that share no table are nearly independent.

    - `cliques`: the integer tables of the cliques at these areas.
    - `order`: the table of each clique and its separator, in the order in which they were computed.
    - `sizes`: the number of values of each key.
    """
    (first, _), *others = order
    areas, every = len(cliques[first]), tuple(range(len(sizes)))
    if first == every:
        yield from _in_batches(cliques[first].reshape(-1))
        return
    cells = math.prod(sizes)
    for area in range(areas):
        known = np.zeros((int(cliques[first][area].sum()), len(sizes)), np.int64)
        known[:, list(first)] = _values(cliques[first][area], first, sizes)
        for table, separator in others:
            shared = separator or ()
            joined = _values(cliques[table][area], table, sizes)
            mine = _rank(known[:, list(shared)])
            theirs = _rank(joined[:, [table.index(i) for i in shared]], spread=True)
            for axis, i in enumerate(table):
                if i not in shared:
                    known[mine, i] = joined[theirs, axis]
        numbers = np.ravel_multi_index(tuple(known.T), tuple(sizes)) if len(known) else known[:, 0]
        yield area * cells + np.sort(numbers)


def _in_batches(counts: Whole) -> Iterator[Whole]:
    """Yield the number of each cell as often as its count says."""
    ends = np.cumsum(counts)
    for low in range(0, int(ends[-1]), AT_ONCE):
        persons = np.arange(low, min(low + AT_ONCE, int(ends[-1])))
        yield np.searchsorted(ends, persons, side="right").astype(np.int64)


def _values(counts: Whole, table: Table, sizes: Sequence[int]) -> Whole:
    """Return the values of the persons of a table: (persons, keys of the table)."""
    cells = np.repeat(np.arange(counts.size), counts.reshape(-1))
    shape = tuple(sizes[i] for i in table)
    values = np.unravel_index(cells, shape) if shape else ()
    return np.stack(values, axis=1) if shape else np.zeros((len(cells), 0), np.int64)


def _rank(shared: Whole, *, spread: bool = False) -> Whole:
    """Return the order of persons by their shared values; within these as they are, or spread."""
    count = len(shared)
    within = np.arange(count, dtype=np.uint64)
    if spread:
        within = within * _GOLDEN  # modulo 2**64
    return np.lexsort((within, *(shared[:, i] for i in reversed(range(shared.shape[1])))))
