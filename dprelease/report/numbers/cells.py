"""Read the cells of published tables: values with their intervals and quality, as published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.documents.metadata import Code, ColumnMetadata, TableMetadata
from dprelease.numerics.lattice import Floats
from dprelease.report.accuracy.quality import ColumnQuality, column_quality, to_floats
from dprelease.report.facts import Facts, ReleaseFiles

if TYPE_CHECKING:
    import pyarrow as pa

MOST_WHOLE = 5_000
"""Maximum rows of a table that is read as a whole; of a larger one, only its largest cells are."""


NO_NUMBERS = (type(None), str, date)
"""Types of published values that are no numbers."""


@dataclass(frozen=True, slots=True)
class Number:
    """One published value with its margin and the ends of its interval; None where it has none.

    `quality`: the code of its quality; empty if the release has no quality columns. `value`: a
    number, or the label's code of a column that is no number.
    """

    value: Any
    margin: float | None = None
    low: float | None = None
    high: float | None = None
    quality: str = ""

    @property
    def number(self) -> float | None:
        """Return the value as a float; None if it is missing or no number."""
        return None if isinstance(self.value, NO_NUMBERS) else float(self.value)

    def fills(self, bounds: tuple[float, float] | None) -> bool:
        """Return whether the interval is as wide as the bounds of the column, if it has some."""
        if bounds is None or self.low is None or self.high is None:
            return False
        return self.low <= bounds[0] and self.high >= bounds[1]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: the values of its keys, and one number for each value column."""

    keys: tuple[Code, ...]
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class TableCells:
    """The rows of a table in their order, or the rows with the largest first values."""

    table: TableMetadata
    columns: tuple[ColumnQuality, ...]
    rows: tuple[Row, ...]
    size: int

    @property
    def is_whole(self) -> bool:
        """Return whether all rows of the table were read."""
        return len(self.rows) == self.size

    @property
    def numeric(self) -> list[int]:
        """Return the positions of the columns that hold numbers."""
        return [i for i, one in enumerate(self.columns) if one.column.is_number]


def read_cells(release: ReleaseFiles, facts: Facts, table: TableMetadata, most: int) -> TableCells:
    """Return the rows of a table; if it is large, the `most` rows with the largest values."""
    columns = tuple(column_quality(facts, table, column) for column in table.values)
    batches = release.batches(table, _needed_columns(table, columns))
    rows: list[Row] = []
    size = 0
    whole = (table.rows or 0) <= MOST_WHOLE
    first = next((one.column.name for one in columns if one.column.is_number), None)
    for batch in batches:
        size += len(batch)
        if whole or first is None:
            rows += _rows_of(table, columns, batch)[: MOST_WHOLE - len(rows)]
            continue
        values = np.nan_to_num(to_floats(batch.column(first)), nan=-np.inf)
        # Stable, so that the same release always gives the same page.
        largest = np.sort(np.argsort(-values, kind="stable")[:most])
        rows = _largest_rows([*rows, *_rows_of(table, columns, batch.take(largest))], most)
    return TableCells(table, columns, tuple(rows), size)


def _largest_rows(rows: Sequence[Row], most: int) -> list[Row]:
    """Return the rows with the largest first numbers, in their order."""
    # By identity, because the hash of a row would be computed from all of its numbers.
    places = {id(row): i for i, row in enumerate(rows)}
    ordered = sorted(rows, key=lambda row: -(first_number(row) or 0.0))[:most]
    return sorted(ordered, key=lambda row: places[id(row)])


def first_number(row: Row) -> float | None:
    """Return the first number of a row; None if it has none."""
    return next((one.number for one in row.numbers if one.number is not None), None)


def _needed_columns(table: TableMetadata, columns: Sequence[ColumnQuality]) -> list[str]:
    """Return the names of the keys, the values and their companions that a page shows."""
    names = [key.name for key in table.keys]
    for one in columns:
        names += [one.column.name, *(each.name for each in one.companions)]
    return list(dict.fromkeys(names))


def _rows_of(
    table: TableMetadata, columns: Sequence[ColumnQuality], batch: pa.RecordBatch
) -> list[Row]:
    keys = [batch.column(key.name).to_pylist() for key in table.keys]
    numbers = [list(_numbers_of(one, batch)) for one in columns]
    return [
        Row(tuple(key[i] for key in keys), tuple(of[i] for of in numbers))
        for i in range(len(batch))
    ]


def _numbers_of(one: ColumnQuality, batch: pa.RecordBatch) -> Iterator[Number]:
    values = batch.column(one.column.name).to_pylist()
    codes = _texts(batch, one.quality_column)
    if not one.column.is_number:
        yield from (Number(value, quality=code) for value, code in zip(values, codes, strict=True))
        return
    margins, (lows, highs) = one.margins_of(batch), one.ends_of(batch)
    for i, value in enumerate(values):
        yield Number(
            value, _finite(margins, i), _finite(lows, i), _finite(highs, i), codes[i] or ""
        )


def _texts(batch: pa.RecordBatch, column: ColumnMetadata | None) -> list[str]:
    """Return the texts of a column; empty texts if there is no column."""
    return [""] * len(batch) if column is None else batch.column(column.name).to_pylist()


def _finite(numbers: Floats, i: int) -> float | None:
    """Return a number of an array; None if it is not finite."""
    return float(numbers[i]) if np.isfinite(numbers[i]) else None


def all_values(release: ReleaseFiles, table: TableMetadata, column: ColumnMetadata) -> Floats:
    """Return all published values of a numeric column that are not missing."""
    parts = [to_floats(batch.column(0)) for batch in release.batches(table, [column.name])]
    values: Floats = np.concatenate(parts) if parts else np.zeros(0)
    return values[np.isfinite(values)]
