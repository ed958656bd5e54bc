"""Sums sorted on disk equal sums in memory for all batches, ranges and limits."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from dprelease.exact.results import sorted_cells
from dprelease.exact.results.sorted_cells import SortedCells, TooManyRows
from dprelease.exact.results.true_table import Integers

SIZE = 100
NONE = np.empty(0, np.int64)


def rows(kind: str) -> list[tuple[Integers, list[Integers | None]]]:
    """Return batches of rows: cells, ones, and numbers of both signs."""
    rng = np.random.default_rng(5)
    cells = [rng.integers(0, SIZE + 3, size) for size in (40, 0, 7, 1, 40)]
    if kind == "one area after the other":
        cells = [np.sort(some) // 5 + 21 * i for i, some in enumerate(cells)]
    if kind == "none counts":
        cells = [np.full(3, SIZE)]
    if kind == "one cell":
        cells = [np.full(30, 17)] * 2
    if kind == "the last cells":
        cells = [np.array([SIZE - 1, SIZE, SIZE - 1]), np.array([SIZE - 1])]
    return [(some, [None, rng.integers(-(2**30), 2**30, len(some))]) for some in cells]


KINDS = ["any order", "one area after the other", "none counts", "one cell", "the last cells"]


@pytest.mark.each
@pytest.mark.parametrize(
    ("grain", "span", "at_once"), [(4, 16, 8), (7, 1, 1), (1 << 14, 1 << 22, 5)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_sorted_sums_equal_sums_in_memory(
    kind: str, grain: int, span: int, at_once: int, tmp_path: Path
) -> None:
    """At once, by ranges, and again for coarser cells."""
    expected = np.zeros((2, SIZE), np.int64)
    for cells, (_, values) in rows(kind):
        inside = cells < SIZE
        np.add.at(expected[0], cells[inside], 1)
        np.add.at(expected[1], cells[inside], (NONE if values is None else values)[inside])
    with mock.patch.multiple(
        sorted_cells, CELLS_PER_MARK=grain, MOST_RANGE_SUMS=span, CELLS_AT_ONCE=at_once
    ):
        held = sorted_cells.sorted_cells(rows(kind), SIZE, 2, tmp_path)
        assert_equal(held, expected)
        thirds = ((cells // 3, list(sums)) for cells, sums in held.pieces())
        coarse = sorted_cells.sorted_cells(thirds, 34, 2, tmp_path)
        padded = np.pad(expected, ((0, 0), (0, 2)))
        assert_equal(coarse, padded.reshape(2, 34, 3).sum(axis=2))
    assert not list(tmp_path.iterdir())  # no file has a name


def assert_equal(held: SortedCells, expected: Integers) -> None:
    for name, vector in held.vectors(["0", "1"]).items():
        wanted = expected[int(name)]
        assert np.array_equal(vector[:], wanted)
        for width in (1, 13, 50):
            parts = [vector[first : first + width] for first in range(0, len(wanted), width)]
            assert np.array_equal(np.concatenate(parts), wanted)
        assert not len(vector[5:5])
        assert not len(vector[len(wanted) :])


def test_too_many_rows_are_not_sorted(tmp_path: Path) -> None:
    with (
        mock.patch.object(sorted_cells, "MOST_ROWS", 87),
        pytest.raises(TooManyRows),
    ):
        sorted_cells.sorted_cells(rows("any order"), SIZE, 2, tmp_path)
    with mock.patch.object(sorted_cells, "MOST_ROWS", 88):
        sorted_cells.sorted_cells(rows("any order"), SIZE, 2, tmp_path)
