"""Read the sheets of OpenDocument spreadsheets (.ods), cell by cell.

A cell's value is the stored value: a text, a number, a boolean, a date or a timestamp. A cell with
a formula counts as missing, as in other workbooks. Comments, pictures and macros are not read.
"""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element, iterparse

from dprelease.exact.reading.merged_cells import MergedCells
from dprelease.exact.reading.packages import refuse_damaged

OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
CONTENT = "content.xml"
CELLS = (f"{TABLE}table-cell", f"{TABLE}covered-table-cell")
MOST_ROWS, MOST_COLUMNS = 1 << 20, 1 << 14
"""The size of a sheet: one with more rows that have values is not read, and cells beyond it are
left out."""
NUMBERS = ("float", "percentage", "currency")


@dataclass(frozen=True, slots=True)
class OpenSheet:
    """A sheet of a spreadsheet; `formulas`: the columns in which a formula was found so far."""

    file: Path
    name: str
    formulas: set[int] = field(default_factory=set)

    def rows(self) -> Iterator[tuple[int, dict[int, object]]]:
        """Yield the rows that have a value, each after its row number.

        Raises
        ------
        UnreadableWorkbook
            If the sheet is damaged.
        """
        number = filled = 0
        with refuse_damaged():
            for element in _elements(self.file, self.name):
                times = _repeated(element, "rows")
                cells = self._cells(element)
                if cells:
                    filled += times
                    if filled > MOST_ROWS:
                        raise ValueError("the sheet has too many rows")  # none is lost unnoticed
                    yield from ((number + i, cells) for i in range(1, times + 1))
                number += times

    def merged(self) -> Iterator[MergedCells]:
        """Yield the merged cells of the sheet."""
        row = 1
        with refuse_damaged():
            for element in _elements(self.file, self.name):
                column = 1
                for cell in element:
                    if cell.tag not in CELLS:
                        continue
                    rows, columns = _spanned(cell, "rows"), _spanned(cell, "columns")
                    if rows > 1 or columns > 1:
                        yield MergedCells(row, row + rows - 1, column, column + columns - 1)
                    column += _repeated(cell, "columns")
                row += _repeated(element, "rows")

    def _cells(self, row: Element) -> dict[int, object]:
        """Return the values of a row by the number of their column."""
        found: dict[int, object] = {}
        place = 0
        for cell in row:
            if cell.tag not in CELLS:
                continue
            times = _repeated(cell, "columns")
            # Programs repeat an empty cell to the end of the sheet, and a hostile file repeats a
            # full one as often as it likes.
            columns = range(place + 1, min(place + times, MOST_COLUMNS) + 1)
            if cell.get(f"{TABLE}formula") is not None:
                self.formulas.update(columns)
            elif (value := _value(cell)) is not None:
                found.update(dict.fromkeys(columns, value))
            place += times
        return found


def sheet_names(file: Path) -> list[str]:
    """Return the names of the sheets of a spreadsheet, in order; may raise anything."""
    with zipfile.ZipFile(file) as package, package.open(CONTENT) as raw:
        names = []
        depth = 0
        for event, element in iterparse(raw, events=("start", "end")):
            if element.tag == f"{TABLE}table":
                if event == "start" and not depth:
                    names.append(element.get(f"{TABLE}name") or "")
                depth += 1 if event == "start" else -1
            elif event == "end" and element.tag == f"{TABLE}table-row":
                element.clear()
        return names


def _elements(file: Path, name: str) -> Iterator[Element]:
    """Yield the rows of a sheet, each when it is complete."""
    with zipfile.ZipFile(file) as package, package.open(CONTENT) as raw:
        depth, is_wanted = 0, False
        for event, element in iterparse(raw, events=("start", "end")):
            if element.tag == f"{TABLE}table":
                depth += 1 if event == "start" else -1
                if event == "start" and depth == 1:
                    is_wanted = element.get(f"{TABLE}name") == name
                elif not depth and is_wanted:
                    return
            elif event == "end" and element.tag == f"{TABLE}table-row" and depth == 1:
                if is_wanted:
                    yield element
                element.clear()


def _repeated(element: Element, what: str) -> int:
    """Return how often a row or a cell is repeated."""
    return max(1, int(element.get(f"{TABLE}number-{what}-repeated") or 1))


def _spanned(cell: Element, what: str) -> int:
    """Return how many rows or columns a cell spans."""
    return min(max(1, int(cell.get(f"{TABLE}number-{what}-spanned") or 1)), MOST_ROWS)


def _value(cell: Element) -> object:
    """Return the value of a cell; None for a cell without value, or with one that is invalid."""
    kind = cell.get(f"{OFFICE}value-type")
    try:
        if kind in NUMBERS:
            return _number(cell.get(f"{OFFICE}value") or "")
        if kind == "date":
            return _day(cell.get(f"{OFFICE}date-value") or "")
        if kind == "boolean":
            return {"true": True, "false": False}.get(cell.get(f"{OFFICE}boolean-value") or "")
        stored = cell.get(f"{OFFICE}string-value")
        if stored is None and kind == "string":
            stored = "\n".join(map(_text, cell.findall(f"{TEXT}p")))
        return (stored or None) if kind == "string" else None
    except ValueError:
        return None


def _number(text: str) -> float | int:
    """Return a number; whole numbers are integers up to those that a float holds exactly."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _day(text: str) -> datetime.date:
    """Return a date, or a timestamp if the text has a time."""
    if len(text) <= len("2024-12-31"):
        return datetime.date.fromisoformat(text)
    return datetime.datetime.fromisoformat(text)


def _text(element: Element) -> str:
    """Return the text of a paragraph, without its comments."""
    parts: list[str] = []
    todo: list[Element | str] = [element]  # not by recursion: one deep cell would stop a run
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            parts.append(one)
            continue
        parts.append(_own_text(one))
        for inner in reversed(one):
            todo += [inner.tail or "", "" if inner.tag == f"{OFFICE}annotation" else inner]
    return "".join(parts)


def _own_text(element: Element) -> str:
    """Return the text of an element before its first child: for a sign, the sign."""
    if element.tag == f"{TEXT}s":
        return " " * min(int(element.get(f"{TEXT}c") or 1), 1000)
    return {f"{TEXT}tab": "\t", f"{TEXT}line-break": "\n"}.get(element.tag, element.text or "")
