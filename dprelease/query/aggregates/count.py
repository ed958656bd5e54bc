"""Counts of rows, and of the privacy units by which private keys are selected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import ROWS, Aggregate, presence_text, sum_sensitivity
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import MEASURED
from dprelease.schema.columns import Column

# Numbers of privacy units, by which private keys are selected.

UNITS = "units"


@dataclass(frozen=True, slots=True)
class Partitions(Aggregate):
    """Selection of keys; the score of a key is its number of privacy units."""

    is_vector: ClassVar[bool] = False
    selects_keys: ClassVar[bool] = True
    error_unit: ClassVar[str] = UNITS

    column: None = None

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: a privacy unit counts once in each of its groups."""
        return Sensitivity.of(
            per_group=1, within_group=1, unit=unit, neighbours=neighbours, cells=cells
        )

    @property
    def description(self) -> str:
        """Return the description of the selected keys."""
        return "keys that enough privacy units have"

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the name of the counted privacy units."""
        return UNITS


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
