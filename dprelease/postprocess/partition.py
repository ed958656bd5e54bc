"""Partitioned tables: one file for every area of a level, in folders named after the areas.

A folder is called `state=36`, the convention of Hive, Spark, DuckDB, Polars and pandas, which read
it as a column. The level and its areas are declared, so that names reveal nothing about the data.
Files are numbered in the order of areas, so that files and cells have the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from urllib.parse import quote

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.query.grouping.group_keys import Key, KeySpace

LONGEST_NAME = 255
"""Largest number of bytes in a file name on common systems."""


NO_VALUES = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that readers of partitioned files take for a missing value."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The partition of the cells of a table.

    `edges`: (parts + 1,) the first cell of each part, ascending.
    """

    level: Key
    edges: Integers

    def __len__(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the path of each part in the folder of the table, without an extension."""
        return tuple(
            f"{folder_of(self.level.column, text)}/part-{i:05d}"
            for i, text in enumerate(self.level.texts)
        )

    def cut(self, cells: Integers) -> Iterator[tuple[int, slice]]:
        """Yield the parts of some ascending cells, and the slice of the cells in each part."""
        if len(cells):
            first, last = self._part_range(int(cells[0]), int(cells[-1]))
            edges = np.searchsorted(cells, self.edges[first : last + 2])
            yield from _slices_by_part(edges, first, len(cells))

    def between(self, start: int, stop: int) -> Iterator[tuple[int, slice]]:
        """Yield the parts of the cells from start to stop, and the slice of each part's cells."""
        if start < stop:
            first, last = self._part_range(start, stop - 1)
            yield from _slices_by_part(self.edges[first : last + 2] - start, first, stop - start)

    def _part_range(self, low: int, high: int) -> tuple[int, int]:
        """Return the indices of the parts with the cells `low` and `high`."""
        first, last = np.searchsorted(self.edges, [low, high], side="right").tolist()
        return first - 1, last - 1


def _slices_by_part(edges: Integers, first: int, size: int) -> Iterator[tuple[int, slice]]:
    """Yield the index of each part, and the slice of its cells among `size` cells."""
    inside = np.clip(edges, 0, size).tolist()
    for part, (start, stop) in enumerate(pairwise(inside), first):
        if start < stop:
            yield part, slice(start, stop)


def folder_of(column: str, text: str) -> str:
    """Return the folder name of an area; characters special to paths or readers are escaped."""
    return f"{quote(column, safe=' ')}={quote(text, safe=' ')}"


def parts_of(keys: KeySpace, level: str | None, levels: Sequence[Key]) -> Parts | None:
    """Return the parts of a table by the areas of a level; None if the table has no parts.

    Only tables of areas below this level have parts. `levels`: the keys of all levels, the highest
    first.
    """
    above = next((key for key in levels if key.column == level), None)
    area = keys.keys[0] if keys.keys else None
    if above is None or area is None or area.level <= above.level:
        return None
    edges = np.arange(above.size + 1)
    for key in levels[above.level : area.level]:
        edges = key.parents.counts_below(edges)
    return Parts(above, edges * keys.strides[0])


def wrong_folders(level: Key) -> Iterator[str]:
    """Yield why the areas of a level can't be folders."""
    seen: dict[str, str] = {}
    for text in level.texts:
        folder = folder_of(level.column, text)
        if text in NO_VALUES:
            yield f"readers of folders take '{text}' for no value"
            return
        if len(folder) > LONGEST_NAME:
            yield f"'{text[:40]}' is too long for the name of a folder"
            return
        # File systems of Windows and macOS do not tell case apart, and the second area would
        # overwrite the first.
        other = seen.setdefault(folder.casefold(), text)
        if other != text:
            yield f"'{other}' and '{text}' are one folder where case does not tell names apart"
            return
