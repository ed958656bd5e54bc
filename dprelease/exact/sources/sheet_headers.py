"""Find the header of a sheet, the names of its columns, and the rows above its notes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Protocol

from dprelease.errors import State
from dprelease.exact.detection.csv_layout import (
    MOST_TITLES,
    first_note,
    has_names_below,
    is_row_of_values,
)
from dprelease.exact.reading.cell_texts import texts_of
from dprelease.exact.reading.line_selection import (
    MOST_NOTES,
    MissingNotesError,
    join_header_rows,
)
from dprelease.exact.reading.merged_cells import MergedCells, fill_merged_cells
from dprelease.exact.reading.packages import UnreadableWorkbook
from dprelease.exact.reading.sources import (
    file_label,
    missing_notes_error,
    unreadable_error,
)
from dprelease.schema.load import Declared
from dprelease.schema.source_texts import HeaderRows
from dprelease.schema.source_types.source import Source

LOOKED_AT, LEAST_BELOW, LEAST_NAMES = 500, 10, 3
"""`init` finds a header below titles in so many rows, with so many rows below it and names."""

HEADER_ROWS = 1000
"""A header that is declared by one of its names is looked for in so many rows."""

Cells = dict[int, object]
"""The cells of a row that have a value, by the number of their column."""


class RowsOfCells(Protocol):
    """A sheet of any kind of workbook."""

    def rows(self) -> Iterator[tuple[int, Cells]]:
        """Yield the rows that have a value, each after its row number."""
        ...

    def merged(self) -> Iterator[MergedCells]:
        """Yield the merged cells."""
        ...


def header_names(sheet: RowsOfCells, header: HeaderRows) -> tuple[int, list[tuple[str, int]]]:
    """Return the number of a header's last row, and its names with the numbers of the columns."""
    if isinstance(header, tuple):
        return header[-1], _joined_header(sheet, header)
    return _header_cells(sheet, header)


def _header_cells(sheet: RowsOfCells, header: int | str) -> tuple[int, list[tuple[str, int]]]:
    """Return the row number of a header, and its names, each with the number of its column."""
    for number, cells in sheet.rows():
        if number > (HEADER_ROWS if isinstance(header, str) else header):
            break
        texts = zip(texts_of(cells.values()), cells, strict=True)
        named = [(text, place) for text, place in texts if text]
        if number == header or header in [text for text, _ in named]:
            return number, named
    return 0, []


def _joined_header(sheet: RowsOfCells, lines: tuple[int, ...]) -> list[tuple[str, int]]:
    """Return the names of a header of several rows, each with the number of its column."""
    above = takewhile(lambda row: row[0] <= lines[-1], sheet.rows())
    cells = {number: found for number, found in above if number in lines}
    width = max((max(found) for found in cells.values()), default=0)
    rows = [
        [text or "" for text in texts_of(cells.get(line, {}).get(i) for i in range(1, width + 1))]
        for line in lines
    ]
    return [(name, i) for i, name in enumerate(join_header_rows(rows), 1) if name]


@dataclass(frozen=True, slots=True)
class FoundHeader:
    """The row number of a header, and a note for the schema if the row may be a title."""

    row: HeaderRows
    note: str = ""


def find_header(sheet: RowsOfCells) -> FoundHeader:
    """Return the row that looks like a header: the first row, or one below rows of titles.

    Titles fill at most a third of the cells that the widest row fills. A row below them is read
    as the header only if it can hardly be a row of values, whose texts must not be shown.
    """
    rows = list(islice(sheet.rows(), LOOKED_AT))
    width = max((len(cells) for _, cells in rows), default=0)
    place = next((i for i, (_, cells) in enumerate(rows) if 2 * len(cells) > width), 0)
    if width < LEAST_NAMES or rows[place][0] == 1:
        return FoundHeader(1)
    number, names = rows[place]
    has_titles = all(3 * len(cells) <= len(names) for _, cells in rows[:place])
    if has_titles and _are_names(names, [cells for _, cells in rows[place + 1 :]]):
        note = f"The names are read from row {number}, because the rows above look like titles."
        return FoundHeader(number, note)
    if rows[0][0] == 1 and len(rows[0][1]) > 1:
        return FoundHeader(1)
    return FoundHeader(
        1,
        "The first row has one name only. If it is a title, declare in `source` which row has the "
        "names, as in `header: 3`, and these columns.",
    )


def has_second_row(sheet: RowsOfCells, row: int) -> bool:
    """Return whether the row below a header looks like its second row."""
    two = [*takewhile(lambda one: one[0] <= row + 1, sheet.rows())][-2:]
    if [number for number, _ in two] != [row, row + 1]:
        return False
    places = range(1, max(max(cells) for _, cells in two) + 1)
    header, below = ([text or "" for text in texts_of(map(one.get, places))] for _, one in two)
    return has_names_below(header, below)


def merged_downwards(sheet: RowsOfCells, row: int, columns: Mapping[str, int]) -> list[str]:
    """Return the names of columns in which cells below the header in a row are merged."""
    spans = {
        (cells.first_column, cells.last_column)
        for cells in sheet.merged()
        if row < cells.first_row < cells.last_row
    }
    return [name for name, i in columns.items() if any(low <= i <= high for low, high in spans)]


def begins_with_values(sheet: RowsOfCells) -> bool:
    """Return whether the first row looks like values of a row, which must not be shown as names."""
    rows = [cells for _, cells in islice(sheet.rows(), LOOKED_AT)]
    places = [*rows[0]] if rows else []
    texts = [[text or "" for text in texts_of(map(row.get, places))] for row in rows]
    return bool(texts) and is_row_of_values(texts[0], texts[1:])


def note_rows(sheet: RowsOfCells) -> int:
    """Return how many of the last rows of a short sheet are totals and notes."""
    rows = [cells for _, cells in islice(sheet.rows(), LOOKED_AT + 1)]
    last = rows[-MOST_TITLES:] if len(rows) <= LOOKED_AT else []
    width = max(map(len, rows), default=0)
    first = first_note([[text or "" for text in texts_of(row.values())] for row in last], width)
    return 0 if first is None else len(last) - first


def rows_above_notes(sheet: RowsOfCells, header: int, source: Source) -> Iterator[Cells]:
    """Yield the rows of a sheet between its header and the notes below."""
    found = sheet.rows()
    if source.merged == "fill":
        found = fill_merged_cells(found, sheet.merged())
    below = (cells for number, cells in found if number > header)
    return _without_notes(below, source.until, source.footer)


def refuse_unreadable_layout(
    declared: Declared,
    source: Source,
    files: Sequence[Path],
    sheets: Sequence[tuple[RowsOfCells, int, dict[str, int]]],
) -> None:
    """Raise DP-DATA-024 before a charge if a workbook lacks its notes, or has damaged merged cells.

    Other damages are found when the rows are read.
    """
    if source.merged == "fill":
        _refuse_damaged_merges(declared, [sheet for sheet, _, _ in sheets])
    if source.until is None and not source.footer:
        return
    for file, (sheet, header, _) in zip(files, sheets, strict=True):
        lacking = ""
        try:
            for _ in rows_above_notes(sheet, header, source):
                pass
        except MissingNotesError as missing:
            lacking = str(missing)
        except UnreadableWorkbook:
            pass  # reading the rows reports it
        if lacking:
            raise missing_notes_error(declared, file_label(file, files), lacking)


def _refuse_damaged_merges(declared: Declared, sheets: Sequence[RowsOfCells]) -> None:
    """Raise DP-DATA-024 if the places of merged cells can't be read."""
    problem: tuple[str, str] | None = None
    try:
        for sheet in sheets:
            for _ in sheet.merged():
                pass
    except UnreadableWorkbook as found:
        problem = found.args[0], found.args[1]
    if problem is not None:
        raise unreadable_error(declared, *problem, State.READ)


def _without_notes(rows: Iterator[Cells], until: str | None, footer: int) -> Iterator[Cells]:
    """Yield the rows without the last ones, which are totals and notes.

    Raises MissingNotesError if the first cell of none of the last rows begins with `until`, or if
    there are fewer rows than `footer`.
    """
    most = MOST_NOTES if until is not None else footer
    held: deque[Cells] = deque()
    for cells in rows:
        held.append(cells)
        if len(held) > most + footer:
            yield held.popleft()
    last = [*held]
    if until is not None:
        while last and not (texts_of([last[-1][min(last[-1])]])[0] or "").startswith(until):
            last.pop()
        if not last:
            raise MissingNotesError("until")
        last.pop()
    if len(last) < footer:
        raise MissingNotesError("footer")
    yield from last[: len(last) - footer]


def _are_names(names: Cells, below: Sequence[Cells]) -> bool:
    """Return whether cells look like column names: texts that don't occur in the rows below.

    There must be enough rows below, some of whose cells are not texts.
    """
    texts = list(names.values())
    return (
        len(below) >= LEAST_BELOW
        and all(isinstance(text, str) and not _is_number(text) for text in texts)
        and len(set(texts)) == len(texts)
        and any(not isinstance(cell, str) for cells in below for cell in cells.values())
        and not any(cells.get(place) == name for cells in below for place, name in names.items())
    )


def _is_number(text: str) -> bool:
    """Return whether a text is the text of a number, such as a year."""
    return text.strip().replace(",", ".").lstrip("+-").replace(".", "", 1).isdigit()
