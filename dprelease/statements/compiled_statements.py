"""Statements of one query, and the tables of public values that they read."""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.query.grouping.places import Places
from dprelease.statements.values.stored_candidates import ClampedIntegers, RoundedFloats


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Public values of one text column, to be registered as a table (code, value).

    Or positions, integers (BIGINT) instead of texts.
    """

    name: str
    values: tuple[str, ...] | Places


@dataclass(frozen=True, slots=True)
class ProfileSql:
    """Two equivalent SELECTs: rows of BIGINT `cell`, `v`, `n`, or one BIGINT `place` per row.

    `place` is cell x `candidates` + v, or one above the last for a row that does not count:
    counting places in memory is faster where they are few. With `stored` a row has `cell`, an
    integer, and `v` instead, NULL where it does not count. Then v is the stored value, and the
    counting code computes the candidate.
    """

    grouped: str
    places: str
    candidates: int
    stored: ClampedIntegers | RoundedFloats | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """SELECTs over `dp_source`.

    `sql`: rows are `cell`, then BIGINT columns m0, m1, ..., one for each name in `columns`; no
    NULL, but possibly a row of one cell above the last, for rows that do not count. Empty if there
    are none. `profiles`: for each measurement that selects among candidates, how to find the number
    of rows of each cell with each candidate. `rows`: for each row `cell`, which is one above the
    last if it does not count, and its contribution to each column; empty where contributions of
    single rows are unknown.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    columns: tuple[str, ...]
    profiles: dict[str, ProfileSql]
    rows: str = ""

    def tables(self, *, by_row: bool) -> list[KeyTable]:
        """Return the tables that the statements read; those of `rows` only if `by_row`."""
        places = (profile.places for profile in self.profiles.values())
        texts = "".join([self.text, *places, self.rows if by_row else ""])
        return [table for table in self.key_tables if table.name in texts]

    @property
    def text(self) -> str:
        """Return all statements."""
        profiles = (profile.grouped for profile in self.profiles.values())
        return ";\n\n".join(dict.fromkeys(filter(None, (self.sql, *profiles))))
