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
    """Return the columns that are values of the content variable, in the order of the table."""
    return tuple(
        column for column in cube.table.columns if column in cube.numbers or column.role in CODED
    )


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
    at, width = 0, len(cube.numbers)
    total = width * math.prod(map(len, categories.values()))
    for one in cube.observations(release, categories):
        yield from (f'"{NO_ROW}"' for _ in range(at, one.place))
        column = one.place % width
        if one.text is not None:
            yield codings[column].get(one.text) or plain_number(one.text)
        elif cube.numbers[column].role == Role.LABEL:
            yield NO_LABEL
        else:
            yield f'"{DOTS.get(STATUS.get(one.status, one.status), DOTS[UNDEFINED])}"'
        at = one.place + 1
    yield from (f'"{NO_ROW}"' for _ in range(at, total))


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
