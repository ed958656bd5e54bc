"""Read the numbers of a table as observations: each is in one cell of the keys, with a status."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.documents.file_records import TableRecord
from dprelease.documents.metadata import ColumnMetadata, Role, TableMetadata
from dprelease.exports.csv_tables.csv_files import plain_texts
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import is_records
from dprelease.query.post import suppresses_cells
from dprelease.query.quality import FEW_PEOPLE, UNDEFINED

if TYPE_CHECKING:
    import pyarrow as pa

NUMBERS = (Role.VALUE, Role.MARGIN, Role.STANDARD_ERROR, Role.LOWER, Role.UPPER)
STATUS = {"O": UNDEFINED, "Q": FEW_PEOPLE}
"""Quality codes of missing numbers without a quality, by SDMX code (CL_OBS_STATUS)."""

NOT_FINITE = ("nan", "inf", "-inf")


@dataclass(frozen=True, slots=True)
class Observation:
    """One number: its index among all cells and numbers, its text (None if missing), its status.

    The status of a value is its quality code. A missing number without one has an SDMX code.
    """

    place: int
    text: str | None
    status: str


@dataclass(frozen=True, slots=True)
class Cube:
    """A table and its columns of numbers."""

    table: TableMetadata
    numbers: tuple[ColumnMetadata, ...]

    def categories(self, release: PublishedRelease) -> dict[str, Sequence[Any]]:
        """Return the values of every key: the declared values, or those in the rows.

        Values from rows are in the order of their first appearance.
        """
        open_ = [key.name for key in self.table.keys if key.codes is None]
        found: dict[str, dict[Any, None]] = {name: {} for name in open_}
        for batch in release.batches(self.table, open_) if open_ else ():
            for name in open_:
                found[name].update(dict.fromkeys(batch.column(name).unique().to_pylist()))
        return {
            key.name: list(found[key.name]) if key.codes is None else key.codes.values
            for key in self.table.keys
        }

    def is_dense(self, cells: int, part: int, release: PublishedRelease) -> bool:
        """Return whether a file lists a value for every cell, and not only for cells with a row.

        `cells`: the number of cells of all numbers. A file lists all cells if at least 1/`part` of
        them have a row.
        """
        rows = next((f.rows for f in release.central.files if f.name == self.table.file), 0)
        # Values from rows are in the order in which they appear, so with several keys the cells of
        # rows don't ascend, as a list of all cells needs.
        ordered = len(self.table.keys) < 2 or all(key.codes for key in self.table.keys)
        return ordered and rows * len(self.numbers) * part >= cells

    def observations(
        self, release: PublishedRelease, categories: Mapping[str, Sequence[Any]]
    ) -> Iterator[Observation]:
        """Yield the numbers of every row, row by row."""
        empty = suppressed_columns(release, self.table)
        quality = {column.of: column.name for column in self.table.of_role(Role.QUALITY)}
        sizes = [len(values) for values in categories.values()]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        for batch in release.batches(self.table):
            cells = np.zeros(batch.num_rows, dtype=np.int64)
            for (name, values), stride in zip(categories.items(), strides, strict=True):
                cells += stride * _value_indices(batch.column(name), values)
            columns = [
                _texts_and_statuses(batch, column, quality.get(column.name), column.name in empty)
                for column in self.numbers
            ]
            for row, cell in enumerate(cells.tolist()):
                first = cell * len(columns)
                for i, (numbers, statuses) in enumerate(columns):
                    yield Observation(first + i, numbers[row], statuses[row])


def cube_of(table: TableMetadata) -> Cube | None:
    """Return the cube of a table; None if it has no numbers."""
    numbers = [column for column in table.of_role(*NUMBERS) if column.is_number]
    cells = not (table.measured or is_records(table))
    has_values = any(column.role == Role.VALUE for column in numbers)
    return Cube(table, tuple(numbers)) if cells and has_values else None


def stored_decimals(column: ColumnMetadata) -> int | None:
    """Return the number of decimals of a column's numbers; None for floating-point numbers."""
    if column.kind == "double":
        return None
    return int(column.kind.rpartition(",")[2].rstrip(")")) if "(" in column.kind else 0


def displayed_decimals(column: ColumnMetadata) -> int | None:
    """Return the number of displayed decimals: the declared one, or the largest that can occur."""
    return stored_decimals(column) if column.decimals is None else column.decimals


def _value_indices(column: pa.Array, values: Sequence[Any]) -> Any:
    """Return the index of each key value in the list of the key's values.

    Raises ArrowException if a value is not in the list.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # Integer keys may have millions of values, of which no list is made.
    if isinstance(values, range) and values.step == 1:
        return column.to_numpy(zero_copy_only=False) - values.start
    places = pc.index_in(column, value_set=pa.array(list(values), type=column.type))
    if places.null_count:
        raise pa.ArrowInvalid("a key is not in its list")
    return places.to_numpy(zero_copy_only=False).astype(np.int64)


def _texts_and_statuses(
    batch: pa.RecordBatch, column: ColumnMetadata, quality: str | None, emptied: bool
) -> tuple[list[str | None], list[str]]:
    """Return the texts of a column's numbers, None for missing ones, and their statuses."""
    numbers = [
        None if text in NOT_FINITE else text
        for text in plain_texts(batch.column(column.name)).to_pylist()
    ]
    if quality is not None:
        return numbers, batch.column(quality).to_pylist()
    missing = "Q" if emptied else "O"
    return numbers, [missing if text is None else "" for text in numbers]


def suppressed_columns(release: PublishedRelease, table: TableMetadata) -> set[str]:
    """Return the columns whose small values are suppressed, according to the manifest."""
    return {
        column
        for file in release.record.files
        if file.name == table.file and isinstance(file, TableRecord)
        for column, words in file.post_processing.items()
        if suppresses_cells(words)
    }
