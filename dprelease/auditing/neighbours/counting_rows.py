"""Rows that count: found by asking the release itself about many invented ones at once.

Conditions, expressions, joins and areas decide which rows count and where; nothing here computes
them a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dprelease.auditing.exact_pairs import Codes, Found, found_in_stack
from dprelease.auditing.neighbours.column_extremes import Extremes, extremes_of
from dprelease.auditing.neighbours.situations import Row, Rows, Situation
from dprelease.auditing.neighbours.stacks import stack, stacked_queries
from dprelease.auditing.neighbours.stored_values import AS_DECLARED
from dprelease.auditing.pairs import Tables
from dprelease.auditing.stage import Stage
from dprelease.query.expressions.computed_order import closure
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.rehearsal.column_values import Literals
from dprelease.rehearsal.draws import Draws
from dprelease.schema.columns import CategoryColumn, CutColumn, is_stored
from dprelease.schema.table import Table

ROWS = 256
"""Rows of any values that are tried first."""

BASES = 12
"""Of these that count, how many are tried again with every value of what is measured."""

MOST_CELLS = 1 << 22
"""Cells of all tables of a stack: it has as many pairs as that leaves room for."""

ODD = 0.15
"""The part of values that are odd ones."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Rows of one unit by themselves, the cell that they are in, and by how much they move it."""

    rows: Rows
    cell: int
    value: int


@dataclass(frozen=True)
class Group:
    """Queries over the same tables about people, and what their columns are tried with."""

    stage: Stage
    queries: tuple[Query, ...]
    tables: Mapping[str, Table]
    public: Tables
    literals: Literals
    draws: Draws
    known: dict[tuple[str, str], Extremes] = field(default_factory=dict)
    codes: Codes = field(default_factory=dict)

    @property
    def pairs(self) -> int:
        """Return how many pairs a stack has room for."""
        finest = {id(q.finest): q.finest.size for q in self.queries if q.finest is not None}
        cells = sum(finest.values()) + sum(query.keys.size for query in self.queries)
        return max(1, min(4096, MOST_CELLS // max(1, cells)))

    def extremes(self, table: str, column: str) -> Extremes:
        """Return what a stored column is tried with."""
        if (table, column) not in self.known:
            declared = self.tables[table].columns[column]
            self.known[table, column] = extremes_of(declared, self.literals)
        return self.known[table, column]

    def invented(self, n: int) -> list[Rows]:
        """Return n units of one row in each table, of values that are mostly usual."""
        by_table = {name: self._rows(name, n) for name in self.tables}
        return [{name: [rows[i]] for name, rows in by_table.items()} for i in range(n)]

    def _rows(self, table: str, n: int) -> list[Row]:
        rows: list[dict[str, object]] = [{} for _ in range(n)]
        unit = self.tables[table].unit.id
        for name, column in self.tables[table].columns.items():
            if not is_stored(column) or name == unit:
                continue
            tried = self.extremes(table, name)
            odd = self.draws.happens(n, ODD).tolist()
            usual = self.draws.whole(n, 0, len(tried.usual) - 1).tolist()
            strange = self.draws.whole(n, 0, len(tried.odd) - 1).tolist()
            for i, row in enumerate(rows):
                row[name] = tried.odd[strange[i]] if odd[i] else tried.usual[usual[i]]
            if isinstance(column, CategoryColumn) and column.within in rows[0]:
                _lie(rows, name, column)
        return list(rows)

    def asked(self, units: Sequence[Rows]) -> dict[tuple[str, str], Found]:
        """Return what each unit by itself adds to every measurement, by the unit's number."""
        situations = [Situation("", unit) for unit in units]
        made = stack(self.tables, situations, first=True, way=AS_DECLARED)
        queries = stacked_queries(self.queries, len(units))
        return found_in_stack(self.stage, queries, {**self.public, **made}, self.codes)


def _lie(rows: list[dict[str, object]], name: str, column: CategoryColumn) -> None:
    """Let most areas lie where they are declared to; a row that contradicts itself is tried too."""
    above = dict(zip(column.values or (), column.above, strict=False))
    for i, row in enumerate(rows):
        if i % 8:
            row[str(column.within)] = above.get(str(row[name]), row[str(column.within)])


def hits_of(group: Group) -> dict[tuple[str, str], list[Hit]]:
    """Return rows that count in each measurement: any, and those with every value it reads."""
    room = group.pairs
    units = group.invented(min(ROWS, max(room, 16)))
    hits = _hits(group, units, room)
    again: list[Rows] = []
    for query in group.queries:
        bases: dict[int, Rows] = {}
        for measurement in query.measurements:
            for hit in hits.get((query.name, measurement.name), ()):
                bases.setdefault(hit.cell, hit.rows)
        for measurement in query.measurements:
            again += _varied(group, query, measurement, [*bases.values()][:BASES])
    most = 4 * max(room, 64)
    stride = max(1, len(again) // most)
    for name, more in _hits(group, again[::stride], room).items():
        hits.setdefault(name, []).extend(more)
    return hits


def _hits(group: Group, units: Sequence[Rows], room: int) -> dict[tuple[str, str], list[Hit]]:
    hits: dict[tuple[str, str], list[Hit]] = {}
    for first in range(0, len(units), room):
        part = units[first : first + room]
        for name, found in group.asked(part).items():
            held = hits.setdefault(name, [])
            entries = zip(
                found.pair.tolist(), found.cell.tolist(), found.candidate.tolist(),
                found.value.tolist(), strict=True,
            )  # fmt: skip
            held += [
                Hit(part[pair], cell, value if candidate == 0 else candidate)
                for pair, cell, candidate, value in entries
            ]
    return hits


def _varied(
    group: Group, query: Query, measurement: Measurement, bases: Sequence[Rows]
) -> list[Rows]:
    """Return rows that count with each value of the stored columns that a measurement reads."""
    made = list[Rows]()
    columns = query.table.columns
    reads = [c.cut if isinstance(c := columns[n], CutColumn) else n for n in _reads(measurement)]
    stored = [n for n in closure(columns, query.formulas, reads) if is_stored(columns[n])]
    for table, declared in group.tables.items():
        for name in (n for n in stored if n in declared.columns and n != declared.unit.id):
            tried = group.extremes(table, name)
            for base in bases:
                for value in (*tried.usual[:8], *tried.usual[-4:], *tried.odd):
                    row = {**base[table][0], name: value}
                    made.append({**base, table: [row]})
    return made


def _reads(measurement: Measurement) -> tuple[str, ...]:
    return measurement.aggregate.reads
