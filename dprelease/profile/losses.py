"""Which rows of the data a release does not count, and which values it moves."""

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
    """Where the rows of one table stay, reason after reason, and what becomes of its values.

    Rows that don't meet the condition are left out first, then those without a cell (`keys` says
    in how many of them each key is the reason; several may be), then those without an id, then
    what contribution bounds cut: `bounded`, None where no unit has several rows, or keys that are
    not public have yet to be selected.
    """

    query: str
    lines: int | None
    rows: int
    asked: int
    """Rows of the query: those that are read, or where a table about people is joined, all pairs of
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
    """Of each mean, ratio, variance and standard deviation, its value over all cells of the table
    before contribution bounds and after them; None without rows."""

    @classmethod
    def of(
        cls,
        query: str,
        tallies: Tallies,
        bounded: int | None,
        fractions: dict[str, tuple[float | None, float | None]],
    ) -> Losses:
        """Return the losses that were counted."""
        asked = tallies.asked
        return cls(
            query=query,
            lines=tallies.lines,
            rows=tallies.stored[ROWS, ""],
            asked=asked[ROWS, ""],
            condition=asked[CONDITION, ""],
            keys=_by_column(asked, KEY),
            no_cell=asked[NO_CELL, ""],
            no_id=asked[NO_ID, ""],
            bounded=bounded,
            unread=_by_column(tallies.stored, UNREAD),
            missing=_by_column(asked, MISSING),
            low=_by_column(asked, LOW),
            high=_by_column(asked, HIGH),
            fractions=fractions,
        )

    @property
    def remaining_rows(self) -> int:
        """Return how many rows are counted in the end."""
        return self.asked - self.condition - self.no_cell - self.no_id - (self.bounded or 0)

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "counted": self.remaining_rows,
        }


def _by_column(tally: dict[tuple[str, str], int], what: str) -> dict[str, int]:
    return {column: number for (counted, column), number in tally.items() if counted == what}
