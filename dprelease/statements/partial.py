"""Compile one resolved query for a part of its rows; the results are summed over all parts.

Every statement is the query's own up to its last step. Parts must be disjoint, and if the privacy
unit has an id, all rows of one unit must be in one part. Then contribution limits hold for the
whole, distinct ids are distinct over all parts, and sums of parts are those of the whole. Sums are
not clamped to 2^62 here, because that would not equal the clamp of the whole: fewer than 2^63 rows
of at most 2^62 steps stay below 2^125, so they fit 38 digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler

WIDE = "DECIMAL(38, 0)"
PLACE = ("part", "cell", "v")


@dataclass(frozen=True, slots=True)
class Partial:
    """A statement with rows (part, cell, v, m0, m1, ...), to be summed by the first three.

    `vectors`: names of the measurements whose sums are m0, m1, ... of part 0. `profiles`: the part,
    from 1, whose m0 is the number of occurrences of candidate v in a cell. `distinct`: the part
    with a row for each declared value v in a cell. `unbounded`: the rows of ids to be bounded
    first, if the statement reads the rows that count from `dp_kept`.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    vectors: tuple[str, ...]
    profiles: dict[str, int]
    distinct: dict[str, int]
    unbounded: str = ""

    @property
    def width(self) -> int:
        """Return the number of columns that are summed."""
        return max(len(self.vectors), 1)


def compile_partial(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> Partial:
    """Return the statement of a query over a part, from the types of stored columns.

    `bounded`: over rows whose contributions are limited elsewhere; for units with an id.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return _Partial(query, physical, joined or {}, bounded=bounded).parts()


def compile_partial_partitions(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> str:
    """Return the statement of a part's partitions: `name`, its bytes, and `m0`, its units.

    As wide as sums of several parts, so that both kinds of tables can be combined.
    """
    sql = Compiler(query, physical, joined or {}).partitions()
    return f"SELECT encode(cell) AS name, CAST(n AS {WIDE}) AS m0 FROM ({sql})"


class _Partial(Compiler):
    def parts(self) -> Partial:
        """Return all statements as one."""
        distinct = {m.name: m for m in self.query.measurements if _is_distinct(m)}
        self.vectors = [m for m in self.vectors if m.name not in distinct]
        parts: list[str] = []
        if self.vectors:
            by_rows = self.query.unit.id is not None
            sql = self._sums(by_rows=by_rows)
            parts.append(self._part(0, sql, "0::BIGINT", [f"m{j}" for j in range(self._width)]))
        numbers: dict[str, int] = {}
        profiles = {name: self._number(numbers, p.grouped) for name, p in self._profiles().items()}
        counted = {name: self._number(numbers, self._pairs(m)) for name, m in distinct.items()}
        for sql, number in numbers.items():
            added = ["n", *["0"] * (self._width - 1)]
            parts.append(self._part(number, sql, "CAST(v AS BIGINT)", added))
        sql = "\nUNION ALL\n".join(parts)
        names = tuple(measurement.name for measurement in self.vectors)
        return Partial(sql, tuple(self.key_tables), names, profiles, counted, self.unbounded)

    @property
    def _width(self) -> int:
        return max(len(self.vectors), 1)

    @staticmethod
    def _number(numbers: dict[str, int], sql: str) -> int:
        return numbers.setdefault(sql, len(numbers) + 1)

    @staticmethod
    def _part(number: int, sql: str, value: str, added: list[str]) -> str:
        sums = ", ".join(f"CAST({one} AS {WIDE}) AS m{j}" for j, one in enumerate(added))
        place = f"{number}::INTEGER AS part, CAST(cell AS BIGINT) AS cell, {value} AS v"
        return f"SELECT {place}, {sums} FROM ({sql})"

    def _pairs(self, measurement: Measurement) -> str:
        """Return the declared values in each cell, each once."""
        j = self.query.measurements.index(measurement)
        row_steps = self._row_steps(None if self.query.unit.id is not None else j)
        pairs = (
            f"SELECT DISTINCT cell, v{j} AS v, 1 AS n\nFROM {self.source} WHERE v{j} IS NOT NULL"
        )
        return self._statement([*row_steps, ("", pairs)])

    _beyond = False  # rows without a cell need not leave a part

    @staticmethod
    def _clamp_total(total: str, position: int) -> str:
        # Not yet clamped: a part may exceed the bound, although the whole does not.
        return f"CAST(coalesce({total}, 0) AS {WIDE}) AS m{position}"


def _is_distinct(measurement: Measurement) -> bool:
    """Return whether distinct declared values are counted: one may be in several parts."""
    aggregate = measurement.aggregate
    return aggregate.is_distinct and aggregate.reads_values and not measurement.finds_keys
