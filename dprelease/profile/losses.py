"""Describe the rows that a release leaves out, and the values that it changes."""

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
class LeftOutRows:
    """The numbers of rows that one query leaves out, by reason, and of values that it changes.

    A query first leaves out the rows that don't meet its condition (`condition`), and then the rows
    without a cell (`no_cell`). `keys` has the number of rows that lack a cell because of each key;
    a row may lack a cell because of several keys. Then the query leaves out the rows without an id
    (`no_id`), and finally the rows above the contribution limits (`bounded`, which is None if each
    row is a unit, or if non-public keys must be selected first).
    """

    query: str
    lines: int | None
    rows: int
    asked: int
    """The number of rows to which the query applies: the rows that are read or, if the query joins
    a table about people, all pairs of rows that one person has in both tables."""
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
    """The values of each mean, ratio, variance and standard deviation over all cells together,
    without and with contribution limits; a value is None without rows."""

    @classmethod
    def of(
        cls,
        query: str,
        tallies: Tallies,
        bounded: int | None,
        fractions: dict[str, tuple[float | None, float | None]],
    ) -> LeftOutRows:
        """Return the numbers of left-out rows and changed values, from the tallies of an engine."""
        declared = tallies.selected
        return cls(
            query=query,
            lines=tallies.lines,
            rows=tallies.stored[ROWS, ""],
            asked=declared[ROWS, ""],
            condition=declared[CONDITION, ""],
            keys=_tally_by_column(declared, KEY),
            no_cell=declared[NO_CELL, ""],
            no_id=declared[NO_ID, ""],
            bounded=bounded,
            unread=_tally_by_column(tallies.stored, UNREAD),
            missing=_tally_by_column(declared, MISSING),
            low=_tally_by_column(declared, LOW),
            high=_tally_by_column(declared, HIGH),
            fractions=fractions,
        )

    @property
    def remaining_rows(self) -> int:
        """Return the number of rows that the query counts."""
        return self.asked - self.condition - self.no_cell - self.no_id - (self.bounded or 0)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "counted": self.remaining_rows,
        }


def _tally_by_column(tally: dict[tuple[str, str], int], what: str) -> dict[str, int]:
    """Return the tally of one kind (`what`) for each column."""
    return {column: number for (counted, column), number in tally.items() if counted == what}
