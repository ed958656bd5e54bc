"""Notes below a sheet on what its numbers are: below 0, raised to 0, or with ranges of no use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dprelease.documents.metadata import Role
from dprelease.exports.excel.localization import WorkbookWords
from dprelease.exports.excel.sheet_tables import SheetTable, value_of
from dprelease.report.accuracy.quality import is_number, to_floats
from dprelease.report.facts import Facts

if TYPE_CHECKING:
    import pyarrow as pa


class NumberNotes:
    """Which notes the numbers of a sheet need, from the batches that were read so far."""

    def __init__(self, sheet: SheetTable, facts: Facts) -> None:
        self._has_negative, self._full_ranges = False, dict[tuple[float, float], None]()
        self._is_raised = any(map(facts.is_integer_table, sheet.tables))
        values = ((table, column) for table in sheet.tables for column in table.values)
        pairs = [(table, column) for table, column in values if is_number(column)]
        never = {column.name for table, column in pairs if facts.is_never_negative(table, column)}
        bounds = {column.name: facts.bounds_of(table, column) for table, column in pairs}
        self._never_negative = [one.name for one in sheet.columns if one.metadata.name in never]
        ends = {(value_of(one), one.metadata.role): one.name for one in sheet.columns}
        self._ends = [
            (name, ends[value, Role.UPPER], within)
            for (value, role), name in ends.items()
            if role == Role.LOWER and (within := bounds.get(value[-1])) is not None
        ]

    def read(self, batch: pa.RecordBatch) -> None:
        """Look for numbers below 0, and for ranges as wide as the bounds."""
        self._has_negative |= any(
            bool((to_floats(batch.column(name)) < 0.0).any()) for name in self._never_negative
        )
        for lower, upper, (least, most) in self._ends:
            low, high = (to_floats(batch.column(name)) for name in (lower, upper))
            if ((low <= least) & (high >= most)).any():
                self._full_ranges[least, most] = None

    def lines(self, words: WorkbookWords) -> Iterator[str]:
        """Yield the notes."""
        if self._is_raised:
            yield words.say("raised")
        if self._has_negative:
            yield words.say("negative")
        for least, most in self._full_ranges:
            low, high = (words.number(f"{end:g}") for end in (least, most))
            yield words.say("full_range", low=low, high=high)
