"""The cells of PX files: numbers, numbers in place of texts, and dots in place of no number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dprelease.documents.metadata import ColumnMetadata, Role, TableMetadata
from dprelease.exports.cubes import STATUS, Cube, displayed_decimals, stored_decimals
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import max_rows
from dprelease.exports.px.px_text import plain_number
from dprelease.query.quality import (
    BLANKS,
    CODES,
    FEW_PEOPLE,
    SUPPRESSED,
    UNDEFINED,
    UNSURE_DIVISOR,
)

MOST_CELLS = 2**31 - 1
"""Maximum number of cells of a file, because PxWeb counts them with 32 bits."""

NO_ROW = "."
DOTS = {UNDEFINED: "..", UNSURE_DIVISOR: "...", SUPPRESSED: "....", FEW_PEOPLE: "....."}
"""The text in a cell without a number, by quality code."""

RATED = tuple(code for code in CODES if code not in BLANKS)
"""The quality codes of values, which are numbered from 1."""

NO_LABEL = "0"
"""The cell of a value without a label in a column of labels, which are numbered from 1."""

CODED = (Role.QUALITY, Role.FLAG, Role.LABEL)
"""Roles of columns whose values are numbered, because cells can only be numbers."""

MOST_STORED, MOST_DISPLAYED = 15, 6
"""Maximum numbers of decimals in the keywords DECIMALS and SHOWDECIMALS."""

DISPLAYED_OF_FLOATS = 4
"""Displayed decimals of floating-point numbers without declared decimals, as in workbooks."""


def max_cells(table: TableMetadata) -> int | None:
    """Return the maximum number of cells of a table's cube; None if it has no known maximum.

    The cube of a single key without declared values has only the values in the rows.
    """
    sizes = [len(key.codes.values) for key in table.keys if key.codes is not None]
    if len(sizes) < len(table.keys):
        return None if len(table.keys) > 1 else (max_rows(table) or 0) * len(table.columns)
    return math.prod(sizes) * len(table.columns)


def measures_of(cube: Cube) -> tuple[ColumnMetadata, ...]:
    """Return the columns that are values of the content variable, in the order of the table.

    These are the numbers, and the qualities, labels and flags of numbers.
    """
    coded = [
        column
        for column in cube.table.of_role(*CODED)
        if column.role == Role.FLAG or any(column.of == one.name for one in cube.numbers)
    ]
    return tuple(one for one in cube.table.columns if one in cube.numbers or one in coded)


def coding_of(
    column: ColumnMetadata, table: TableMetadata, release: PublishedRelease
) -> dict[str, str]:
    """Return the cells of a column's values that are no numbers, by value."""
    if column.role == Role.QUALITY:
        numbers = {code: str(i) for i, code in enumerate(RATED, 1)}
        return numbers | {code: f'"{text}"' for code, text in DOTS.items()}
    if column.role == Role.FLAG:
        return {"false": "0", "true": "1"}
    labels: dict[str, None] = {}
    if column.role == Role.LABEL:
        for batch in release.batches(table, [column.name]):
            labels |= dict.fromkeys(batch.column(column.name).drop_null().to_pylist())
    return {label: str(i) for i, label in enumerate(labels, 1)}


def cells_of(
    cube: Cube,
    release: PublishedRelease,
    categories: Mapping[str, Sequence[Any]],
    codings: Sequence[Mapping[str, str]],
) -> Iterator[str]:
    """Yield every cell of a cube in order: a number, or dots in quotation marks.

    `categories`: the values of each key; `codings`: the coding of each measure.
    """
    at, columns = 0, cube.numbers
    total = len(columns) * math.prod(map(len, categories.values()))
    observations = cube.observations(release, categories)
    # One iterator, repeated: each step takes as many observations as a row has.
    for row in zip(*[observations] * len(columns), strict=True):
        yield from (f'"{NO_ROW}"' for _ in range(at, row[0].place))
        reasons = {
            column.of: one.status
            for column, one in zip(columns, row, strict=True)
            if column.role == Role.VALUE
        }
        for column, coding, one in zip(columns, codings, row, strict=True):
            yield _cell(one.text, column, coding, reasons.get(column.of, ""))
        at = row[-1].place + 1
    yield from (f'"{NO_ROW}"' for _ in range(at, total))


def _cell(text: str | None, column: ColumnMetadata, coding: Mapping[str, str], reason: str) -> str:
    """Return a cell; `reason`: the status of the value to which the column belongs."""
    if text is not None:
        return coding.get(text) or plain_number(text)
    if column.role == Role.LABEL:
        return NO_LABEL
    return f'"{DOTS.get(STATUS.get(reason, reason), DOTS[UNDEFINED])}"'


def stored_in_px(column: ColumnMetadata) -> int:
    """Return the number of stored decimals, at most as many as the format can declare."""
    decimals = stored_decimals(column)
    return MOST_STORED if decimals is None else min(MOST_STORED, decimals)


def displayed_in_px(column: ColumnMetadata) -> int:
    """Return the number of displayed decimals, at most as many as the format can declare."""
    decimals = displayed_decimals(column)
    return min(
        MOST_DISPLAYED, DISPLAYED_OF_FLOATS if decimals is None else decimals, stored_in_px(column)
    )
