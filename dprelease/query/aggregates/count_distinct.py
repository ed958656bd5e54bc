"""Counts of different ids, or of different declared values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import MEASURED
from dprelease.schema.columns import Column


@dataclass(frozen=True, slots=True)
class CountDistinct(Aggregate):
    """Distinct ids of the privacy unit (`values` None), or distinct declared values of a column."""

    is_distinct: ClassVar[bool] = True

    column: str
    values: int | None

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return 1 for ids; for values, one per row, but no more than the number of values."""
        moved = 1 if self.values is None else min(unit.max_rows_per_group, self.values)
        return Sensitivity.of(
            per_group=moved, within_group=moved, unit=unit, neighbours=neighbours, cells=cells
        )

    @property
    def words(self) -> str:
        """Return what is counted."""
        if self.values is None:
            return f"count of distinct '{self.column}'"
        return f"count of distinct declared values of '{self.column}'"

    @property
    def reads_values(self) -> bool:
        """Return whether values are distinguished; ids are read with every row anyway."""
        return self.values is not None

    @property
    def by_places(self) -> bool:
        """Return whether declared values are counted, rather than ids."""
        return self.values is not None

    @property
    def adds_up(self) -> bool:
        """Return True for ids: each id belongs to one party, but a value may occur with several."""
        return self.values is None

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the name of what is counted."""
        return self.column

    def each(self, rows: int) -> str:
        """Return, in words, the contribution of one privacy unit to a group."""
        return "distinct values, each counted once"


def _count_distinct(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    if declared.column == columns.table.unit.id:
        return ColumnParts(MEASURED, [("", CountDistinct(declared.column, None))])
    values = columns.values(declared)
    if values is None:
        return None
    return ColumnParts(MEASURED, [("", CountDistinct(declared.column, values))])


BY_WORD = {"count_distinct": _count_distinct}
