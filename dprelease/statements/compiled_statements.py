"""The SQL statements of one query, and the tables of public values that the statements read."""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.query.grouping.group_keys import Places
from dprelease.statements.values.stored_candidates import ClampedIntegers, RoundedFloats


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table (code, value) of public values, to be registered in the engine before a statement.

    The values are the declared texts of one column, or positions, which are integers (BIGINT).
    """

    name: str
    values: tuple[str, ...] | Places


@dataclass(frozen=True, slots=True)
class ProfileSql:
    """Two equivalent SELECTs that count how often each candidate occurs in each cell.

    The SELECT `grouped` returns the BIGINT columns `cell`, `v` (the candidate) and `n` (the number
    of rows). The SELECT `places` returns one BIGINT `place` for each row: cell x `candidates` + v,
    or one above the last such number for a row that does not count. Counting these numbers in
    memory is faster than grouping if there are few of them.

    If `stored` is set, the SELECT `places` returns an integer `cell` and a stored value `v` for
    each row instead, which are NULL where the row does not count. The code that counts then
    computes the candidate from the stored value.
    """

    grouped: str
    places: str
    candidates: int
    stored: ClampedIntegers | RoundedFloats | None = None


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """The SELECTs of one query over the relation `dp_source`.

    `sql` returns one row for each cell: `cell`, then BIGINT columns m0, m1, ..., one for each name
    in `columns`. No number is NULL. An additional cell, one above the last, may hold the rows that
    do not count. `sql` is empty if the query sums nothing.

    `profiles` has, for each measurement that selects among candidates, the SELECTs that count how
    often each candidate occurs in each cell.

    `rows` returns for each stored row its `cell`, which is one above the last if the row does not
    count, and the row's contribution to each column. `rows` is empty if the contributions of single
    rows are unknown.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    columns: tuple[str, ...]
    profiles: dict[str, ProfileSql]
    rows: str = ""

    def tables(self, *, by_row: bool) -> list[KeyTable]:
        """Return the tables that the statements read; `by_row` includes the statement `rows`."""
        places = (profile.places for profile in self.profiles.values())
        texts = "".join([self.text, *places, self.rows if by_row else ""])
        return [table for table in self.key_tables if table.name in texts]

    @property
    def text(self) -> str:
        """The text of all statements, separated by semicolons."""
        profiles = (profile.grouped for profile in self.profiles.values())
        return ";\n\n".join(dict.fromkeys(filter(None, (self.sql, *profiles))))
