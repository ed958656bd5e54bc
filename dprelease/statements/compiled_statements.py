"""Statements of one query, and the tables of public values that they read."""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.query.grouping.places import Places
from dprelease.statements.values.stored_candidates import ClampedIntegers, RoundedFloats


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Public values of one text column, to be registered as a table (code, value).

    Or places, whole numbers (BIGINT) in the place of texts.
    """

    name: str
    values: tuple[str, ...] | Places


@dataclass(frozen=True, slots=True)
class ProfileSql:
    """Two SELECTs for the same: rows of BIGINT `cell`, `v`, `n`, or one BIGINT `place` a row.

    `place` is cell x `candidates` + v, or one beyond the last for a row that does not count:
    counting places in memory is faster where they are few. With `stored` a row has `cell`, a whole
    number, and `v` in its place, NULL where it does not count: v is what is stored, of which a
    candidate is made where it is counted.
    """

    grouped: str
    places: str
    candidates: int
    stored: ClampedIntegers | RoundedFloats | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """SELECTs over `dp_source`.

    `sql`: rows are `cell`, then BIGINT columns m0, m1, ..., one for each name in `columns`; no
    NULL, but maybe a row of one cell beyond the last, for what does not count. Empty if there are
    none. `profiles`: how to find, for each measurement that chooses among
    candidates, how many rows of each cell have each candidate. `rows`: for each row `cell`, which
    is one beyond the last if it does not count, and what it adds to each column; empty where that
    can't be told row by row.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    columns: tuple[str, ...]
    profiles: dict[str, ProfileSql]
    rows: str = ""

    def tables(self, *, by_row: bool) -> list[KeyTable]:
        """Return the tables that the statements read, but for `rows` unless `by_row`."""
        places = (profile.places for profile in self.profiles.values())
        texts = "".join([self.text, *places, self.rows if by_row else ""])
        return [table for table in self.key_tables if table.name in texts]

    @property
    def text(self) -> str:
        """Return all statements."""
        profiles = (profile.grouped for profile in self.profiles.values())
        return ";\n\n".join(dict.fromkeys(filter(None, (self.sql, *profiles))))
