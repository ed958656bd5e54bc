"""Count the rows of the data that a release does not count, and the values it changes."""

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
    """How many rows of one table are left out, reason by reason, and how values change.

    Rows that don't meet the condition are left out first, then those without a cell (`keys`
    counts
    the rows for which each key is a reason; several may be), then those without an id, then
    those above the contribution limits: `bounded`, None if no unit has several rows, or if keys
    that
    are not public must be selected first.
    """

    query: str
    lines: int | None
    rows: int
    asked: int
    """Rows of the query: those that are read, or if a table about people is joined, all pairs of
    rows that one person has in both."""
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
        """Return the losses from their counts."""
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
        """Return the number of rows that are counted in the end."""
        return self.asked - self.condition - self.no_cell - self.no_id - (self.bounded or 0)

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "counted": self.remaining_rows,
        }


def _by_column(tally: dict[tuple[str, str], int], what: str) -> dict[str, int]:
    return {column: number for (counted, column), number in tally.items() if counted == what}
