"""One resolved query over a part of its rows: what can be added up over all parts.

Every statement is a query's own up to its last step. Parts have to be disjoint, and where the
privacy unit has an id, all rows of a unit have to be in one of them: then bounds hold for the
whole, distinct ids are distinct over all parts, and sums of parts are those of the whole. Sums
leave without the clamp to 2^62, which would not be that of the whole: fewer than 2^63 rows of at
most 2^62 steps stay below 2^125, so they fit 38 digits.
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
    """A statement with rows (part, cell, v, m0, m1, ...), to be added up by the first three.

    `vectors`: names of the measurements that m0, m1, ... of part 0 are the sums of. `profiles`: the
    part, from 1, that has in m0 how often the candidate v stands in a cell. `distinct`: the part
    that has a row for each declared value v that stands in a cell. `unbounded`: the rows of ids to
    be bounded before, if the statement reads those that count from `dp_kept`.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    vectors: tuple[str, ...]
    profiles: dict[str, int]
    distinct: dict[str, int]
    unbounded: str = ""

    @property
    def width(self) -> int:
        """Return the number of columns that are added up."""
        return max(len(self.vectors), 1)


def compile_partial(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> Partial:
    """Return the statement of a query over a part, given the types of stored columns.

    `bounded`: over the rows that count, which somebody else chooses; for units with an id.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return _Partial(query, physical, joined or {}, bounded=bounded).parts()


def compile_partial_partitions(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> str:
    """Return the statement of the partitions in a part: `name`, its bytes, and `m0`, its units.

    As wide as sums of several parts, for a table of these may stand beside that of one.
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
        """Return the declared values that stand in each cell, each once."""
        j = self.query.measurements.index(measurement)
        kept = self._row_steps(None if self.query.unit.id is not None else j)
        pairs = (
            f"SELECT DISTINCT cell, v{j} AS v, 1 AS n\nFROM {self.source} WHERE v{j} IS NOT NULL"
        )
        return self._statement([*kept, ("", pairs)])

    _beyond = False  # what is of no cell need not leave a part

    @staticmethod
    def _clamp_total(total: str, position: int) -> str:
        # Not yet: a part may lie beyond the bound, and the whole within.
        return f"CAST(coalesce({total}, 0) AS {WIDE}) AS m{position}"


def _is_distinct(measurement: Measurement) -> bool:
    """Return whether distinct declared values are counted: the same may be in several parts."""
    aggregate = measurement.aggregate
    return aggregate.is_distinct and aggregate.reads_values and not measurement.finds_keys
