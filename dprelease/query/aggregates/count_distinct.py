"""Counts of different ids, or of different declared values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import IDS, Aggregate
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import MEASURED
from dprelease.schema.columns import Column


@dataclass(frozen=True, slots=True)
class CountDistinct(Aggregate):
    """The number of distinct ids (`values` is None), or of distinct declared values of a column."""

    is_distinct: ClassVar[bool] = True

    column: str
    values: int | None

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: 1 per group for ids; for values the rows, or all values."""
        # Also if other rows replace those of a unit: at most so many values disappear and at most
        # so many appear, so the number moves by no more in either direction.
        moved = 1 if self.values is None else min(unit.most_rows_per_group, self.values)
        return Sensitivity.of(
            per_row=1,
            per_group=moved,
            within_group=moved,
            unit=unit,
            neighbours=neighbours,
            cells=cells,
        )

    def counts_people(self, unit: PrivacyUnit) -> bool:
        """Return whether ids of people are counted."""
        return self.column == unit.id

    @property
    def description(self) -> str:
        """Return the description of what is counted."""
        if self.values is None:
            return f"count of distinct '{self.column}'"
        return f"count of distinct declared values of '{self.column}'"

    @property
    def reads_values(self) -> bool:
        """Whether the values of a column are counted; ids are read with every row anyway."""
        return self.values is not None

    @property
    def by_places(self) -> bool:
        """Whether declared values are counted, and not ids."""
        return self.values is not None

    @property
    def counted_kind(self) -> str:
        """Return that ids are counted: a person's number of rows in a group doesn't matter."""
        return IDS if self.values is None else ""

    @property
    def adds_up(self) -> bool:
        """Return whether ids are counted: parties have different ids, but may have equal values."""
        return self.values is None

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the name of what is counted."""
        return self.column

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit contributes to a group."""
        return "distinct values, each counted once"


def _count_distinct_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the measurement of a distinct count; None if the column has no public values."""
    if declared.column == columns.table.unit.id:
        return ColumnParts(MEASURED, [("", CountDistinct(declared.column, None))])
    values = columns.value_count(declared)
    if values is None:
        return None
    return ColumnParts(MEASURED, [("", CountDistinct(declared.column, values))])


BY_WORD = {"count_distinct": _count_distinct_parts}
