"""Counts of rows."""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import ROWS, Aggregate, presence_text, sum_sensitivity
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import MEASURED


@dataclass(frozen=True, slots=True)
class Count(Aggregate):
    """Rows, or rows in which neither `column` nor one of the columns `beside` is missing."""

    column: str | None = None
    beside: tuple[str, ...] = ()

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: all rows of a unit in a group may appear, or disappear."""
        return sum_sensitivity(1, 1, unit, neighbours, cells)

    def counts_people(self, unit: PrivacyUnit) -> bool:
        """Return whether each person has at most one row in a cell."""
        return unit.id is None or unit.most_rows_per_group == 1

    @property
    def description(self) -> str:
        """Return the description of the counted rows."""
        if self.column is None:
            return "count of rows"
        return f"count of rows in which '{self.column}' is not missing{presence_text(self.beside)}"

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that must not be missing."""
        return () if self.column is None else (self.column, *self.beside)

    @property
    def counted_kind(self) -> str:
        """Return that rows are counted."""
        return ROWS

    @property
    def adds_up(self) -> bool:
        """Return True: the counts of parties can be added, as every row belongs to one party."""
        return True


def _count_parts(_columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts:
    """Return the measurement of a count of rows, or of values of a column."""
    return ColumnParts(MEASURED, [("", Count(None if declared.column == "*" else declared.column))])


BY_WORD = {"count": _count_parts}
