"""Compile one resolved query for one part of its rows; the caller sums the results of all parts.

A statement for a part differs from the statement for all rows only in its last expression. The
parts must be disjoint, and if the privacy unit has an id, all rows of one id must be in one part.
Then the contribution limits hold for all parts together, no id is counted in two parts, and the
sums of the parts add up to the sums over all rows. The sums of a part are not clamped to 2^62,
because the sum of clamped sums may differ from the clamped total. The sum of fewer than 2^63 rows
of at most 2^62 steps stays below 2^125, so that it fits into 38 digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler

SUM_TYPE = "DECIMAL(38, 0)"
GROUP_COLUMNS = ("part", "cell", "v")


@dataclass(frozen=True, slots=True)
class PartialQuery:
    """A statement with rows (part, cell, v, m0, m1, ...), to be summed by the first three columns.

    The column `part` tells what a row holds. `vectors` are the names of the measurements whose sums
    are m0, m1, ... in the rows of part 0. `profiles` has, for each measurement that selects among
    candidates, its part, from 1; there m0 is how often the candidate v occurs in the cell.
    `distinct` has, for each count of distinct values, the part with a row for each declared value v
    in a cell. `all_rows_sql` is the SELECT of the rows to which contribution limits must be applied
    first, if the statement reads the kept rows from `dp_kept`, and otherwise empty.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    vectors: tuple[str, ...]
    profiles: dict[str, int]
    distinct: dict[str, int]
    all_rows_sql: str = ""

    @property
    def width(self) -> int:
        """The number of columns that are summed."""
        return max(len(self.vectors), 1)


def compile_partial(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> PartialQuery:
    """Return the statement of a query over one part of the rows.

    If `bounded` is true, which requires a privacy unit with an id, the statement reads rows whose
    contributions were limited outside of the engine.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return _PartialCompiler(query, physical, joined or {}, bounded=bounded).parts()


def compile_partial_partitions(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> str:
    """Return the statement of a part's partitions: `name`, in bytes, and `m0`, its unit count.

    The types are as wide as those of sums over several parts, so that a table of one part and a
    table of such sums can be combined.
    """
    sql = Compiler(query, physical, joined or {}).partitions()
    return f"SELECT encode(cell) AS name, CAST(n AS {SUM_TYPE}) AS m0 FROM ({sql})"


class _PartialCompiler(Compiler):
    """Compiles a query into sums of parts of the rows, and into their totals."""

    def parts(self) -> PartialQuery:
        """Return all statements of the query, combined into one."""
        distinct = {m.name: m for m in self.query.measurements if _counts_distinct_values(m)}
        self.vectors = [m for m in self.vectors if m.name not in distinct]
        parts: list[str] = []
        if self.vectors:
            by_rows = self.query.unit.id is not None
            sql = self._sums_sql(by_rows=by_rows)
            parts.append(self._part_sql(0, sql, "0::BIGINT", [f"m{j}" for j in range(self._width)]))
        numbers: dict[str, int] = {}
        profiles = {
            name: self._part_number(numbers, p.grouped)
            for name, p in self._profile_statements().items()
        }
        counted = {
            name: self._part_number(numbers, self._distinct_values_sql(m))
            for name, m in distinct.items()
        }
        for sql, number in numbers.items():
            added = ["n", *["0"] * (self._width - 1)]
            parts.append(self._part_sql(number, sql, "CAST(v AS BIGINT)", added))
        sql = "\nUNION ALL\n".join(parts)
        names = tuple(measurement.name for measurement in self.vectors)
        return PartialQuery(
            sql, tuple(self.key_tables), names, profiles, counted, self.all_rows_sql
        )

    @property
    def _width(self) -> int:
        """Return the number of columns of sums, which is at least 1."""
        return max(len(self.vectors), 1)

    @staticmethod
    def _part_number(numbers: dict[str, int], sql: str) -> int:
        """Return the number of a statement; a new statement gets the next number."""
        return numbers.setdefault(sql, len(numbers) + 1)

    @staticmethod
    def _part_sql(number: int, sql: str, value: str, added: list[str]) -> str:
        """Return the SQL of the sums of one statement, with its number, cells and values."""
        sums = ", ".join(f"CAST({one} AS {SUM_TYPE}) AS m{j}" for j, one in enumerate(added))
        place = f"{number}::INTEGER AS part, CAST(cell AS BIGINT) AS cell, {value} AS v"
        return f"SELECT {place}, {sums} FROM ({sql})"

    def _distinct_values_sql(self, measurement: Measurement) -> str:
        """Return a SELECT of the different declared values in each cell."""
        j = self.query.measurements.index(measurement)
        row_steps = self._kept_row_ctes(None if self.query.unit.id is not None else j)
        pairs = (
            f"SELECT DISTINCT cell, v{j} AS v, 1 AS n\nFROM {self.source} WHERE v{j} IS NOT NULL"
        )
        return self._statement_sql([*row_steps, ("", pairs)])

    _adds_outside_cell = False  # rows without a cell are left out of the results of a part

    @staticmethod
    def _total_column_sql(total: str, position: int) -> str:
        """Return the SQL of the column of sums at this position."""
        # Not clamped: the sum of a part may exceed the bound although the total does not.
        return f"CAST(coalesce({total}, 0) AS {SUM_TYPE}) AS m{position}"


def _counts_distinct_values(measurement: Measurement) -> bool:
    """Return whether a measurement counts distinct declared values, which parts may share."""
    aggregate = measurement.aggregate
    return aggregate.is_distinct and aggregate.reads_values and not measurement.finds_keys
