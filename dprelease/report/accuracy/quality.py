"""Measure the quality of published numbers from the published tables, batch by batch.

No number here is computed from data about people: all are computed from published noisy values,
from the declaration, or from the distribution of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from dprelease.documents.metadata import ROWS_UNIT, ColumnMetadata, Role, TableMetadata
from dprelease.numerics.lattice import Floats, Integers
from dprelease.query.quality import BLANKS, CODES, SIGNS
from dprelease.report.facts import ErrorBeforeRun, Facts, ReleaseFiles
from dprelease.report.pictures import PageTable, Share, shares_of
from dprelease.report.section_context import Context
from dprelease.report.words import Words

if TYPE_CHECKING:
    import pyarrow as pa


CLASSES = 16
"""Number of size classes: below 10, 10 to 100, and so on; the last one has all larger values."""

Z95 = 1.959964
"""Number of standard errors in a margin at 95 %, for tables that publish only standard errors."""


def size_class_of(values: Floats) -> Integers:
    """Return the size class of each value: its digits before the decimal point, less one."""
    # Numbers below 10 form one class, so that 0 has a class, too.
    digits = np.log10(np.maximum(np.abs(values), 1.0))
    return np.minimum(digits, CLASSES - 1).astype(np.int64)


def sum_by_class(classes: Integers, weights: Floats) -> Floats:
    """Return the sum of weights in each size class."""
    return np.bincount(classes, weights, CLASSES).astype(np.float64)


def class_bounds(size: int) -> tuple[int, int]:
    """Return the ends of a size class: 0 to 10, 10 to 100, ..."""
    return (0 if size == 0 else 10**size), 10 ** (size + 1)


def zeros_by_class() -> Floats:
    """Return a zero for each size class."""
    return np.zeros(CLASSES)


@dataclass
class CellCounts:
    """Counts of a column's published cells, in total and by size class.

    `empty`: cells without a value. `wide`: cells whose margin exceeds their value. `by_class`,
    `sizes` and `margins` describe cells with a value and a margin: their number, the sum of their
    values and the sum of their margins. `codes`: the number of cells of each quality code by size
    class; cells without a value are in the first class.
    """

    cells: int = 0
    empty: int = 0
    negative: int = 0
    flagged: int = 0
    wide: int = 0
    by_class: Floats = field(default_factory=zeros_by_class)
    sizes: Floats = field(default_factory=zeros_by_class)
    margins: Floats = field(default_factory=zeros_by_class)
    codes: dict[str, Floats] = field(default_factory=dict)

    @property
    def cells_with_margin_count(self) -> int:
        """Return the number of cells with a value and a margin."""
        return int(self.by_class.sum())


@dataclass(frozen=True)
class ColumnQuality:
    """The quality of one published column: its expected error, and counts of its published cells.

    `never_negative`: whether no true value can be below 0.
    """

    table: TableMetadata
    column: ColumnMetadata
    expected: ErrorBeforeRun | None
    never_negative: bool = False
    counted: CellCounts = field(default_factory=CellCounts)

    @property
    def adjusted_share(self) -> float | None:
        """Return the share of cells of an integer table outside their interval; None elsewhere."""
        counted = self.counted
        if self._flag_column is None or "/" not in self.table.name or not counted.cells:
            return None
        return counted.flagged / counted.cells

    @property
    def expected_error(self) -> float | None:
        """Return the expected mean error in the unit of the value; None if its unit differs."""
        fixed = self.expected
        return fixed.error if fixed is not None and fixed.unit == self.column.unit else None

    @property
    def wide_share(self) -> float | None:
        """Return the share of cells whose margin exceeds the value; None without margins."""
        known = self.counted.cells_with_margin_count
        return self.counted.wide / known if known else None

    @property
    def classes(self) -> list[int]:
        """Return the size classes that have cells with a margin."""
        return [int(size) for size in np.flatnonzero(self.counted.by_class)]

    @property
    def _flag_column(self) -> ColumnMetadata | None:
        """Return the flag column of the value column; None if there is none."""
        return self.table.companion_of(self.column.name, Role.FLAG)

    @property
    def _margin_column(self) -> ColumnMetadata | None:
        """Return the margin column of the value column; None if there is none."""
        return self.table.companion_of(self.column.name, Role.MARGIN)

    @property
    def _error_column(self) -> ColumnMetadata | None:
        """Return the column of standard errors; None if there is none."""
        return self.table.companion_of(self.column.name, Role.STANDARD_ERROR)

    @property
    def quality_column(self) -> ColumnMetadata | None:
        """Return the column of quality codes; None if there is none."""
        return self.table.companion_of(self.column.name, Role.QUALITY)

    @property
    def end_columns(self) -> tuple[ColumnMetadata, ColumnMetadata] | None:
        """Return the columns of the lower and upper ends of the interval; None without them."""
        low = self.table.companion_of(self.column.name, Role.LOWER)
        high = self.table.companion_of(self.column.name, Role.UPPER)
        return None if low is None or high is None else (low, high)

    @property
    def companions(self) -> list[ColumnMetadata]:
        """Return the companions from which margins, intervals and quality are read."""
        found = (self._margin_column, self._error_column, self._flag_column, self.quality_column)
        return [one for one in (*found, *(self.end_columns or ())) if one is not None]

    @property
    def source_columns(self) -> list[str]:
        """Return the names of the columns from which the quality is computed."""
        return [self.column.name, *(one.name for one in self.companions)]

    @property
    def confidence(self) -> float:
        """Return the confidence of margins and intervals."""
        published = next((one for one in self.companions if one.confidence), None)
        if published is not None:
            return float(published.confidence)
        return self.expected.confidence if self.expected is not None else 0.95

    def ends_of(self, batch: pa.RecordBatch) -> tuple[Floats, Floats]:
        """Return the ends of the interval of each cell of a batch; NaN for cells without one."""
        if self.end_columns is not None:
            low, high = (to_floats(batch.column(end.name)) for end in self.end_columns)
            return low, high
        values, margins = to_floats(batch.column(self.column.name)), self.margins_of(batch)
        return values - margins, values + margins

    def margins_of(self, batch: pa.RecordBatch) -> Floats:
        """Return the margin of each cell of a batch; NaN for cells without a margin.

        The margin of an interval with unequal sides is half of its width.
        """
        if self._margin_column is not None:
            return to_floats(batch.column(self._margin_column.name))
        if self._error_column is not None:
            return Z95 * to_floats(batch.column(self._error_column.name))
        if self.end_columns is not None:
            low, high = (to_floats(batch.column(end.name)) for end in self.end_columns)
            return (high - low) / 2.0
        fixed = self.expected
        known = fixed is not None and fixed.rows is None and fixed.unit == self.column.unit
        return np.full(len(batch), fixed.margin if fixed is not None and known else math.nan)

    def count(self, batch: pa.RecordBatch) -> None:
        """Add the cells of a batch to the counts."""
        counted = self.counted
        values, margins = to_floats(batch.column(self.column.name)), self.margins_of(batch)
        there = ~np.isnan(values)
        sizes = np.abs(values)
        counted.cells += len(values)
        counted.empty += int((~there).sum())
        if self.never_negative:
            counted.negative += int((values < 0).sum())
        if self._flag_column is not None:
            counted.flagged += batch.column(self._flag_column.name).true_count
        self._count_codes(batch, np.where(there, values, 0.0))
        # A share of cells with wide margins is meant, so cells without a margin do not count.
        both = there & np.isfinite(margins)
        classes, sizes, margins = size_class_of(values[both]), sizes[both], margins[both]
        counted.wide += int((margins > sizes).sum())
        counted.by_class += sum_by_class(classes, np.ones_like(sizes))
        counted.sizes += sum_by_class(classes, sizes)
        counted.margins += sum_by_class(classes, margins)

    def _count_codes(self, batch: pa.RecordBatch, values: Floats) -> None:
        """Add the quality codes of a batch to the counts, by the size class of the value."""
        if self.quality_column is None:
            return
        codes = np.array(batch.column(self.quality_column.name).to_pylist(), dtype=object)
        classes, counts = size_class_of(values), self.counted.codes
        for code in sorted({str(code) for code in codes}):
            found = sum_by_class(classes, (codes == code).astype(np.float64))
            counts[code] = counts[code] + found if code in counts else found


def to_floats(array: pa.Array) -> Floats:
    """Return numbers as floats, with NaN for missing numbers."""
    import pyarrow as pa

    found: Floats = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def quality_of(release: ReleaseFiles, facts: Facts) -> Iterator[ColumnQuality]:
    """Yield the quality of every published numeric column for readers, table by table."""
    for table in release.metadata.tables_for_readers:
        found = [column_quality(facts, table, column) for column in table.values]
        found = [one for one in found if one.column.is_number and facts.query_of(table)]
        if found:
            for batch in release.batches(table, _all_source_columns(found)):
                for one in found:
                    one.count(batch)
        yield from found


def column_quality(facts: Facts, table: TableMetadata, column: ColumnMetadata) -> ColumnQuality:
    """Return the expected quality of a column, before its cells are counted."""
    one = ColumnQuality(table, column, facts.expected_error_of(table, column))
    output = facts.query_column(table, column)
    if output is None:
        return one
    return replace(one, never_negative=facts.is_never_negative(table, column))


def official_figures(columns: Sequence[ColumnQuality]) -> list[ColumnQuality]:
    """Return the columns without estimates of tables that are also published with integers."""
    integers = {one.table.query for one in columns if one.table.name.startswith("tables/")}
    return [
        one
        for one in columns
        if not (one.table.name.startswith("estimates/") and one.table.query in integers)
    ]


def _all_source_columns(columns: Sequence[ColumnQuality]) -> list[str]:
    """Return the names of all columns from which several qualities are computed."""
    return list(dict.fromkeys(name for one in columns for name in one.source_columns))


RATED = tuple(code for code in CODES if code not in BLANKS)
"""Quality codes of values, from the best to the worst."""


@dataclass(frozen=True)
class SizeTable:
    """Margins and quality classes by size of the number, for all columns of a unit.

    `shares`: for each row, the parts of a stacked bar; empty without quality columns.
    """

    table: PageTable
    shares: list[list[Share]]


def size_tables(
    context: Context, columns: Sequence[ColumnQuality]
) -> tuple[list[SizeTable], Markup]:
    """Return a table of margins and quality classes by size of the number for each unit.

    The second result is a sentence with the units that are left out of a page that would be too
    large, or empty.
    """
    by_unit: dict[str, list[ColumnQuality]] = {}
    for one in columns:
        unit = ROWS_UNIT if context.is_count(one.column.unit) else one.column.unit
        by_unit.setdefault(unit, []).append(one)
    tables = [(unit, _size_table(context, unit, group)) for unit, group in by_unit.items()]
    filled = [(unit, one) for unit, one in tables if one.table.rows]
    left = [_title(context, unit) for unit, _ in filled[context.most :]]
    units = Markup(", ").join(left)
    note = context.words.say("quality.size.left", units=units) if left else units
    return [one for _, one in filled[: context.most]], note


def _title(context: Context, unit: str) -> Markup:
    """Return the title of the table of a unit."""
    if unit == ROWS_UNIT:
        return context.words.say("size.title.counts")
    if not unit:
        return context.words.say("size.title.none")
    return context.words.say("size.title", unit=context.unit_name(unit))


def _size_table(context: Context, unit: str, group: Sequence[ColumnQuality]) -> SizeTable:
    """Return the margins of the columns of a unit by size of the number."""
    words, rows, shares = context.words, [], []
    counts = [one.counted for one in group]
    has_codes = any(one.codes for one in counts)
    for size in range(CLASSES):
        cells = sum(int(one.by_class[size]) for one in counts)
        sizes, margins = (
            sum(float(of[size]) for of in sums)
            for sums in ([one.sizes for one in counts], [one.margins for one in counts])
        )
        if not cells:
            continue
        share = words.percent(margins / sizes if sizes else None)
        rows.append(context.cells(_class_text(words, size), words.number(cells), share))
        letters = [(SIGNS.get(code, code), _cells_of_code(counts, code, size)) for code in RATED]
        shares.append(shares_of(letters, words) if has_codes else [])
    heads = [words.say(f"size.head.{name}") for name in ("size", "cells", "margin")]
    title = _title(context, unit)
    return SizeTable(PageTable(title, heads, rows), shares)


def _cells_of_code(counts: Sequence[CellCounts], code: str, size: int) -> int:
    """Return the number of cells with a quality code in a size class."""
    return sum(int(one.codes[code][size]) for one in counts if code in one.codes)


def _class_text(words: Words, size: int) -> str:
    low, high = class_bounds(size)
    ends = {"low": words.number(low), "high": words.number(high)}
    return words.plain("size.row" if low else "size.row.first", **ends)
