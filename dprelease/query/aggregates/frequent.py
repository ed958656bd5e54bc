"""The most frequent of a column's declared values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import ROWS, Aggregate
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import LABEL
from dprelease.schema.columns import Column


@dataclass(frozen=True, slots=True)
class Frequent(Aggregate):
    """The most frequent declared value of a column, or the value of a later rank.

    A value of `rank` 1 is the most frequent value. Each rank selects among the values that the
    smaller ranks of the same column have not selected. The score of a value is its number of rows.
    """

    is_vector: ClassVar[bool] = False
    is_choice: ClassVar[bool] = True
    by_rank: ClassVar[bool] = True
    by_places: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[str, ...]] = ("permute_and_flip", "exponential")
    error_unit: ClassVar[str] = ROWS

    column: str
    values: int
    rank: int = 1

    @property
    def candidates(self) -> int:
        """The number of selectable values."""
        return self.values

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return how far a unit can move two scores of a cell apart, and in how many cells."""
        rows = unit.most_rows_per_group
        return Sensitivity.of(
            per_row=1,
            per_group=rows,
            # A row that changes its value lowers one score and raises another, which moves the two
            # apart twice.
            within_group=2 * rows,
            unit=unit,
            neighbours=neighbours,
            cells=cells,
            is_choice=True,
        )

    @property
    def description(self) -> str:
        """Return the description of the selected value."""
        return f"the declared value of '{self.column}' with rank {self.rank} by number of rows"

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return an empty unit: a label is published."""
        return ""

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit contributes to a group."""
        return f"{rows} rows that move the difference of any two scores"


def _frequent_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return a measurement for each rank of the frequent values; None if there is an error."""
    values, ranks = columns.value_count(declared), declared.spec.ranks
    if values is None:
        return None
    if ranks > values:
        columns.refuse_column("DP-QUERY-012", declared, asked=ranks, values=values)
        return None
    rank_measurements = [Frequent(declared.column, values, rank) for rank in range(1, ranks + 1)]
    return ColumnParts(
        LABEL, [(str(one.rank) if ranks > 1 else "", one) for one in rank_measurements]
    )


BY_WORD = dict.fromkeys(("mode", "top_k"), _frequent_parts)
