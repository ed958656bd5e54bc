"""Count the rows that a release leaves out, and the values that it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dprelease.exact.tallies import Tallies
from dprelease.statements.lost_rows import (
    CONDITION,
    HIGH,
    KEY,
    LOW,
    MISSING,
    NO_CELL,
    NO_ID,
    ROWS,
    UNREAD,
)


@dataclass(frozen=True, slots=True)
class Losses:
    """The numbers of rows of one table that are left out, by reason, and of changed values.

    First, rows that don't meet the condition are left out, and then rows without a cell: `keys` has
    the number of rows that lack a cell because of each key, which may be several keys for one row.
    Then rows without an id are left out, and finally rows above the contribution limits. `bounded`
    is the number of these last rows; None if no unit has several rows, or if non-public keys must
    be selected first.
    """

    query: str
    lines: int | None
    rows: int
    asked: int
    """The number of rows of the query: the rows that are read or, if a table about people is
    joined, all pairs of rows that one person has in both tables."""
    condition: int
    keys: dict[str, int]
    no_cell: int
    no_id: int
    bounded: int | None
    unread: dict[str, int]
    missing: dict[str, int]
    low: dict[str, int]
    high: dict[str, int]
    fractions: dict[str, tuple[float | None, float | None]]
    """For each mean, ratio, variance and standard deviation, its value over all cells of the table
    before and after contribution limits; None without rows."""

    @classmethod
    def of(
        cls,
        query: str,
        tallies: Tallies,
        bounded: int | None,
        fractions: dict[str, tuple[float | None, float | None]],
    ) -> Losses:
        """Return the numbers of left-out rows and changed values, from the tallies of an engine."""
        declared = tallies.asked
        return cls(
            query=query,
            lines=tallies.lines,
            rows=tallies.stored[ROWS, ""],
            asked=declared[ROWS, ""],
            condition=declared[CONDITION, ""],
            keys=_by_column(declared, KEY),
            no_cell=declared[NO_CELL, ""],
            no_id=declared[NO_ID, ""],
            bounded=bounded,
            unread=_by_column(tallies.stored, UNREAD),
            missing=_by_column(declared, MISSING),
            low=_by_column(declared, LOW),
            high=_by_column(declared, HIGH),
            fractions=fractions,
        )

    @property
    def remaining_rows(self) -> int:
        """Return the number of rows that count in the release."""
        return self.asked - self.condition - self.no_cell - self.no_id - (self.bounded or 0)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "counted": self.remaining_rows,
        }


def _by_column(tally: dict[tuple[str, str], int], what: str) -> dict[str, int]:
    return {column: number for (counted, column), number in tally.items() if counted == what}
