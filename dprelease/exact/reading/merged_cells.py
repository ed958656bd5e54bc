"""Give the value of merged cells of a sheet to each row and column that they span.

A workbook stores the value of merged cells in the first of them only. Which cells are merged is a
part of the layout of a sheet, as the people who wrote it see it.
"""

from __future__ import annotations

import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import iterparse

from dprelease.exact.reading.packages import refuse_damaged

SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


class MergedCells(NamedTuple):
    """The first and last row, and the first and last column, of cells that are merged."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


def merged_cells_of_part(file: Path, part: str) -> Iterator[MergedCells]:
    """Yield the merged cells of a sheet of a workbook of Excel.

    Raises
    ------
    UnreadableWorkbook
        If the sheet is damaged.
    """
    from openpyxl.utils.cell import range_boundaries

    with refuse_damaged(), zipfile.ZipFile(file) as package, package.open(part) as raw:
        for _, element in iterparse(raw):
            if element.tag == f"{SHEET}mergeCell":
                left, top, right, bottom = range_boundaries(element.get("ref"))
                if not (top and bottom and left and right):  # a row 0, or no row at all
                    raise ValueError
                yield MergedCells(top, bottom, left, right)
            elif element.tag == f"{SHEET}row":
                element.clear()


def fill_merged_cells(
    rows: Iterable[tuple[int, dict[int, object]]], merged: Iterable[MergedCells]
) -> Iterator[tuple[int, dict[int, object]]]:
    """Yield rows after their numbers; each cell of merged cells has the value of the first one."""
    starting: dict[int, list[MergedCells]] = defaultdict(list)
    for cells in merged:
        starting[cells.first_row].append(cells)
    spanning: dict[int, tuple[object, int]] = {}
    for number, held in rows:
        for cells in starting.pop(number, ()):
            value = held.get(cells.first_column)
            for column in range(cells.first_column, cells.last_column + 1):
                spanning[column] = value, cells.last_row
        values = {
            column: value
            for column, (value, last) in spanning.items()
            if number <= last and value is not None
        }
        yield number, values | held
