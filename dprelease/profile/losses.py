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

NO_ROWS = "no row was read, so all counts are those of an empty table."
NO_ROWS_IN_LINES = (
    "no row was read, because all lines of the file are declared as titles, comments or notes: see "
    "`header`, `skip`, `comment`, `footer` and `until`."
)
LOST_LINES = (
    "most lines are left out, because they do not fit the header: compare `delimiter`, `quote`, "
    "`encoding` and `ragged` with the file."
)
NO_IDS = "most rows have no id that can be read: compare the type of the id with the source."
UNKNOWN_IDS = (
    "most rows have no person, because `lookup` has no line with their '{on}': compare how both "
    "write it. As `type: text`, 1 and 01 are two ids; as `type: integer`, they are one."
)
LOST_KEYS = "most rows have no declared value of '{name}': compare its `values` with the source."
UNREAD_VALUES = (
    "most values of '{name}' can't be read as declared: compare its `type`, `format` and `strip`, "
    "and `decimal` and `thousands` of the source."
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
    other_lines: int | None
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
    looked_up: str | None = None
    """The column whose ids a correspondence table gives to persons; None without such a table."""

    @classmethod
    def of(
        cls,
        query: str,
        tallies: Tallies,
        bounded: int | None,
        fractions: dict[str, tuple[float | None, float | None]],
        looked_up: str | None = None,
    ) -> LeftOutRows:
        """Return the numbers of left-out rows and changed values, from the tallies of an engine."""
        declared = tallies.selected
        return cls(
            query=query,
            other_lines=tallies.other_lines,
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
            looked_up=looked_up,
        )

    @property
    def remaining_rows(self) -> int:
        """Return the number of rows that the query counts."""
        return self.asked - self.condition - self.no_cell - self.no_id - (self.bounded or 0)

    @property
    def likely_mistakes(self) -> tuple[str, ...]:
        """Return sentences about declarations because of which most rows or values are lost."""
        has_rows = bool(self.lines or self.rows)
        words = []
        if not has_rows:
            words.append(NO_ROWS if self.other_lines is None else NO_ROWS_IN_LINES)
        if self.lines is not None and 2 * self.rows < self.lines:
            words.append(LOST_LINES)
        if 2 * self.no_id > self.asked:
            words.append(NO_IDS if self.looked_up is None else UNKNOWN_IDS)
        words += [
            LOST_KEYS.format(name=name) for name, n in self.keys.items() if 2 * n > self.asked
        ]
        words += [
            UNREAD_VALUES.format(name=name) for name, n in self.unread.items() if 2 * n > self.rows
        ]
        return tuple(text.replace("{on}", self.looked_up or "") for text in words)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "counted": self.remaining_rows,
            "likely_mistakes": [*self.likely_mistakes],
        }


def _tally_by_column(tally: dict[tuple[str, str], int], what: str) -> dict[str, int]:
    """Return the tally of one kind (`what`) for each column."""
    return {column: number for (counted, column), number in tally.items() if counted == what}
