"""Compile one resolved query to one SELECT over `dp_source`: a row for each non-empty cell.

Sums are 128-bit: at most 2^62 steps a row and fewer than 2^63 rows stay below 2^125, so they can
neither wrap nor raise. The result is clamped to 2^62, which never moves two values further apart,
so the sensitivity holds for the result of the database.

The sums of a cell, as SQL: over its rows, and within 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.numerics.lattice import LIMIT
from dprelease.query import quoting
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.grouping.group_keys import Key, KeySpace, key_of
from dprelease.query.grouping.places import Places
from dprelease.query.grouping.private_keys import UNKNOWN
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.columns import CutColumn, IntegerColumn, NumberColumn
from dprelease.statements.bounding import counts_within_limits, rows_within_limits
from dprelease.statements.coarser import FINEST, coarser
from dprelease.statements.compiled_statements import Compiled, KeyTable, ProfileSql
from dprelease.statements.layers import (
    cut_case,
    grouped_as_stored,
    physical_of,
    typed_column,
    typed_rows,
)
from dprelease.statements.meanings import typed_value
from dprelease.statements.partition_counts import partition
from dprelease.statements.present_rows import is_present
from dprelease.statements.raw_keys import raw_key
from dprelease.statements.values.categories import is_short, or_else, position_in, with_stand_ins
from dprelease.statements.values.lattice_steps import steps
from dprelease.statements.values.row_values import NARROW, group_total, row_value, same_values
from dprelease.statements.values.stored_candidates import stored_candidates
from dprelease.statements.values.stored_numbers import (
    found_as_numbers,
    run_position,
    table_of_numbers,
)
from dprelease.statements.values.stored_texts import (
    found_as_texts,
)


def bounded_total(total: str, position: int) -> str:
    """Return the BIGINT column `m<position>` of a total, clamped to 2^62."""
    # NULL first: greatest(NULL, x) is x in DuckDB, which would turn a missing value into a bound.
    known = f"coalesce({total}, 0)"
    inside = f"least(greatest({known}, -{LIMIT}::HUGEINT), {LIMIT}::HUGEINT)"
    return f"CAST({inside} AS BIGINT) AS m{position}"


def total_of(measurement: Measurement, j: int, *, counted: bool) -> str:
    """Return the aggregate over `kept`, whose rows stand for n equal ones if `counted`."""
    aggregate = measurement.aggregate
    if aggregate.is_distinct:
        return f"count(DISTINCT {f'v{j}' if aggregate.reads_values else 'id'})"
    if aggregate.reads_values:
        return f"sum(v{j})"
    return "sum(n)" if counted else "count(*)"


KEPT = "dp_kept"
"""The relation of rows that were bounded outside of the engine."""


class Compiler:
    """Builds the statements of one query, step by step."""

    def __init__(
        self,
        query: Query,
        stored: Mapping[str, str],
        joined: Mapping[str, str],
        *,
        bounded: bool = False,
    ) -> None:
        self.query, self.stored, self.joined = query, stored, joined
        self.space = query.finest or query.keys
        self.source, self.unbounded = KEPT if bounded else "kept", ""
        self.physical = physical_of(query, stored, joined)
        self.as_numbers = found_as_numbers(query, self.physical)
        texts = found_as_texts(query, self.physical)
        self.untyped, self.unread = self.as_numbers | texts, grouped_as_stored(query) - texts
        self.columns = query.table.columns
        self.vectors = [m for m in query.measurements if m.is_vector and not m.finds_keys]
        self.key_tables: list[KeyTable] = []
        self._named: dict[tuple[str, tuple[str, ...]], str] = {}
        self.joins: list[str] = []

    def compile(self) -> Compiled:
        distinct = any(m.aggregate.is_distinct for m in self.query.measurements)
        by_rows = self.query.unit.id is not None or distinct
        sql, profiles = "", {}
        if self.vectors:
            sql = self._sums(by_rows=by_rows)
        if any(measurement.is_choice for measurement in self.query.measurements):
            profiles = self._profiles()
        names = tuple(measurement.name for measurement in self.vectors)
        summed = distinct or self.query.finest is not None or not self.vectors
        rows = "" if summed else self._by_row()
        return Compiled(sql, tuple(self.key_tables), names, profiles, rows)

    def _sums(self, *, by_rows: bool) -> str:
        """Return the statement of all vectors."""
        if by_rows:
            return self._statement(self._row_by_row())
        present = is_present(self.query, self.vectors)
        return self._statement(self._grouped_first(), grouped_as_stored(self.query), present)

    def _statement(
        self,
        steps_: list[tuple[str, str]],
        as_stored: frozenset[str] = frozenset(),
        present: str = "",
    ) -> str:
        if len(steps_) == 1:
            return steps_[0][1]  # over rows that exist already
        *named, (_, last) = [("typed", self.typed_layer(as_stored, present)), *steps_]
        ctes = ",\n".join(f"{name} AS (\n  {text}\n)" for name, text in named)
        return f"WITH {ctes}\n{last}"

    def _profiles(self) -> dict[str, ProfileSql]:
        """Return how often each candidate occurs in each cell, for measurements that select.

        Contributions are limited by all values that the query reads, as for its other measurements.
        """
        by_name: dict[str, ProfileSql] = {}
        known: dict[object, ProfileSql] = {}
        for j, measurement in enumerate(self.query.measurements):
            same = same_values(measurement.aggregate) if measurement.is_choice else None
            if same in known:
                by_name[measurement.name] = known[same]
            elif measurement.is_choice:
                by_name[measurement.name] = known[same] = self._profile(j, measurement)
        return by_name

    def _profile(self, j: int, measurement: Measurement) -> ProfileSql:
        aggregate, is_row = measurement.aggregate, self.query.unit.id is None
        size = aggregate.candidates
        row_steps = self._row_steps(j if is_row else None)
        present = f"FROM {self.source} WHERE v{j} IS NOT NULL"
        grouped = f"SELECT cell, v{j} AS v, count(*) AS n\n{present} GROUP BY cell, v{j}"
        by_group = self._statement([*row_steps, ("", grouped)])
        outside = self.query.keys.size * size
        kind = "INTEGER" if outside < NARROW else "BIGINT"
        stored = stored_candidates(aggregate, self.columns, self.physical) if is_row else None
        if stored is not None:
            rows = self._rows([], kind, f", {stored.sql} AS v")
            pairs = self._statement([("kept", rows), ("", "SELECT cell, v FROM kept")])
            return ProfileSql(by_group, pairs, size, stored)
        place = f"cell * {size} + v{j}"
        places = f"SELECT CAST({or_else(place, outside)} AS {kind}) AS place\nFROM {self.source}"
        if is_row:  # the engine is faster without a filter on computed values
            row_steps = [("kept", self._rows([j]))]
        return ProfileSql(by_group, self._statement([*row_steps, ("", places)]), size)

    def _rows(self, read: list[int], kind: str = "BIGINT", stored: str = "") -> str:
        """Return a SELECT of the cell of each row, which may be missing, and of its values.

        `read`: indexes of the measurements of the values; `stored` are other values.
        """
        self.joins = []
        cell = self._cell([raw_key(self.query, key) for key in self.space.keys], kind)
        values = stored + "".join(
            f", {row_value(self, self.query.measurements[j].aggregate)} AS v{j}" for j in read
        )
        unit = self.query.unit
        person = "NULL" if unit.id is None else typed_column(unit.id)
        return f"SELECT {person} AS id, {cell} AS cell{values} FROM typed {' '.join(self.joins)}"

    def typed_layer(self, as_stored: frozenset[str] = frozenset(), present: str = "") -> str:
        """Return the layer in which columns have their declared types, except those as stored."""
        untyped = as_stored | self.untyped
        inner = typed_rows(self.query, self.stored, self.joined, untyped, present)
        predicate = self.query.predicate
        return inner if predicate is None else f"SELECT * FROM ({inner}) WHERE {predicate.sql}"

    def _code(self, key: Key, raw: str, *, of_groups: bool = False) -> str:
        """Return the position of a key's cell; may join the key table of a text key."""
        if key.kind != "text" or isinstance(self.columns.get(key.column), CutColumn):
            return raw
        by_number, texts = key.column in self.as_numbers and not of_groups, key.texts
        code = run_position(texts, raw) if by_number else position_in(texts, raw, groups=of_groups)
        if code is None:
            name = self._own_table(key)
            values = f"{table_of_numbers(name)} {name}" if by_number else name
            join = f"LEFT JOIN {values} ON {raw} = {name}.value"
            if join not in self.joins:
                self.joins.append(join)
            code = f"{name}.code"
        return with_stand_ins(code, raw, key)

    def _own_table(self, key: Key) -> str:
        """Return the name of the table of a key's values, one for all statements of the query."""
        values = key.texts
        if (key.column, values) not in self._named:
            self._named[key.column, values] = self._key_table(values)
        return self._named[key.column, values]

    def _cell(self, raws: list[str], kind: str = "BIGINT", *, of_groups: bool = False) -> str:
        keys, strides = self.space.keys, self.space.strides
        terms = [
            f"CAST({self._code(key, raw, of_groups=of_groups)} AS {kind}) * {stride}"
            for key, raw, stride in zip(keys, raws, strides, strict=True)
        ]
        return " + ".join(terms) or f"0::{kind}"

    def null_if_missing(self, column: str) -> str:
        """Return an expression that is NULL where a column is missing, as in a condition."""
        declared = self.columns[column]
        if isinstance(declared, CutColumn):  # a number outside all bands has none
            return cut_case(declared, as_label=True)
        return typed_column(column)

    def has_null_value(self, column: str) -> bool:
        """Return whether a missing number is replaced."""
        return getattr(self.columns[column], "null_value", None) is not None

    def steps(self, aggregate: Aggregate) -> str:
        """Return a BIGINT number of steps within the bounds; NULL where the value is missing."""
        name, lattice = aggregate.column or "", aggregate.lattice
        column = self.columns[name]
        if lattice is None or not isinstance(column, IntegerColumn | NumberColumn):
            raise TypeError("sums are resolved for numbers only")
        return steps(typed_column(name), lattice, column, self.physical[name])

    def place(self, column: str) -> str:
        """Return the position among the declared values of a column; NULL for other values."""
        key = key_of(column, self.columns[column])
        if isinstance(key, str):
            raise TypeError("distinct values are resolved for declared values only")
        return self.code(key)

    def code(self, key: Key) -> str:
        """Return the position of a row's cell of one key; NULL for rows that are dropped."""
        code = self._code(key, raw_key(self.query, key))
        needs_one = key.kind == "text" or isinstance(self.columns.get(key.column), CutColumn)
        return or_else(code, len(key.values)) if key.rest and needs_one else code

    def _grouped_first(self) -> list[tuple[str, str]]:
        """Return the steps of a query with row units: group by raw keys, then find the cells.

        Short lists of values are searched for the few groups, longer ones are joined to them.
        """
        keys = self.space.keys
        raws = [f"{raw_key(self.query, key)} AS k{i}" for i, key in enumerate(keys)]
        added: dict[str, str] = {}
        totals = [self._over_groups(measurement, added) for measurement in self.vectors]
        raws += [f"{sql} AS {name}" for sql, name in added.items()]
        by = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        grouped = f"SELECT {', '.join(raws)} FROM typed{by}"
        columns = "".join(f", {name}" for name in added.values())
        meaning = [("grouped", grouped)]
        if self.unread:
            meant = f"SELECT {', '.join(self._key_values())}{columns} FROM {meaning[-1][0]}"
            meaning.append(("meant", meant))
        meaning[-1] = ("meant", meaning[-1][1])
        cell = self._cell([f"k{i}" for i in range(len(keys))], of_groups=True)
        placed = f"SELECT {cell} AS cell{columns} FROM meant {' '.join(self.joins)}"
        last = self._added_up(totals, "placed WHERE cell IS NOT NULL")
        if self.query.finest is None and self._beyond:
            last = self._added_up(totals, "placed", f"coalesce(cell, {self.space.size}) AS cell")
        return [*meaning, ("placed", placed), *last]

    def _over_groups(self, measurement: Measurement, added: dict[str, str]) -> str:
        """Return the total of a measurement over groups; columns it needs are named in `added`."""
        if not measurement.aggregate.reads_values:
            return f"sum({added.setdefault('count(*)', f'a{len(added)}')})"
        terms = []
        for sql, factor in group_total(self, measurement.aggregate):
            total = f"sum({added.setdefault(sql, f'a{len(added)}')})"
            terms.append(total if factor == 1 else f"{total} * {quoting.integer(factor)}::HUGEINT")
        return " + ".join(terms)

    def _key_values(self) -> list[str]:
        """Return what rows are grouped by; keys grouped as stored become declared values."""
        zone, values = self.query.table.time_zone, []
        for i, key in enumerate(self.space.keys):
            value = f"k{i}"
            if key.column in self.unread:
                column, kind = self.columns[key.column], self.physical[key.column]
                short = is_short(key.texts)
                known = "" if short else f"SELECT value FROM {self._own_table(key)}"
                value = f"{typed_value(key.column, column, kind, zone, known, value)} AS k{i}"
            values.append(value)
        return values

    @property
    def _has_row_counts(self) -> bool:
        """Whether a row that counts stands for n equal ones."""
        measured = self.query.measurements
        return self.query.unit.id is not None and not any(
            m.aggregate.reads_values for m in measured
        )

    _clamp_total = staticmethod(bounded_total)  # parts of a table are clamped after they are summed
    # groups without a cell are one group: a filter on computed values takes long to plan
    _beyond = True

    def _row_by_row(self) -> list[tuple[str, str]]:
        """Return the steps of a query that must compute the cell of every single row."""
        totals = [
            total_of(m, self.query.measurements.index(m), counted=self._has_row_counts)
            for m in self.vectors
        ]
        return [*self._row_steps(), *self._added_up(totals, self.source)]

    def _added_up(self, totals: list[str], rows: str, cell: str = "cell") -> list[tuple[str, str]]:
        """Return the last steps: all sums of each cell, possibly from the finest cells."""
        if self.query.finest is None:
            bounded = [self._clamp_total(total, j) for j, total in enumerate(totals)]
            return [("", f"SELECT {cell}, {', '.join(bounded)}\nFROM {rows} GROUP BY cell")]
        sums = "".join(f", {total} AS a{j}" for j, total in enumerate(totals))
        finest = f"SELECT cell{sums} FROM {rows} GROUP BY cell"
        return [(FINEST, finest), ("", self.of_finest(self.query.finest))]

    def of_finest(self, finest: KeySpace, relation: str = FINEST) -> str:
        """Return a SELECT of each cell's sums over the finest cells that lie in it."""
        cell, joins = coarser(finest, self.query.keys, self._key_table, relation)
        totals = [self._clamp_total(f"sum(a{j})", j) for j in range(len(self.vectors))]
        return f"SELECT {cell} AS cell, {', '.join(totals)}\nFROM {relation}{joins} GROUP BY 1"

    def _key_table(self, values: tuple[str, ...] | Places) -> str:
        """Return the name of a table (code, value) of public values."""
        name = f"dp_keys_{len(self.key_tables)}"
        self.key_tables.append(KeyTable(name, values))
        return name

    def _by_row(self) -> str:
        """Return the statement with each counted row's contribution to every vector."""
        added: list[str] = []
        for measurement in self.vectors:
            one = "n" if self._has_row_counts else "1"
            if measurement.aggregate.reads_values:
                one = f"coalesce(v{self.query.measurements.index(measurement)}, 0)"
            added.append(f"CAST({one} AS BIGINT) AS m{len(added)}")
        outside = self.space.size
        last = f"SELECT coalesce(cell, {outside}) AS cell, {', '.join(added)}\nFROM {self.source}"
        if self.query.unit.id is not None:
            return self._statement([*self._row_steps(), ("", last)])
        read = [j for j, m in enumerate(self.query.measurements) if m.aggregate.reads_values]
        return self._statement([("kept", self._rows(read)), ("", last)])

    def partitions(self) -> str:
        """Return a SELECT of partitions: `cell`, its text, and `n`, its number of privacy units."""
        unit = self.query.unit
        person = "NULL" if unit.id is None else typed_column(unit.id)
        rows = f"SELECT {person} AS id, {partition(self.query)} AS cell FROM typed"
        known = "" if unit.id is None else " AND id IS NOT NULL"
        coded = f"SELECT * FROM ({rows}) WHERE cell IS NOT NULL{known}"
        bounded = [("kept", "SELECT * FROM coded")]
        if unit.id is not None:
            bounded = counts_within_limits(unit, UNKNOWN, text=self._text_ids(), text_cells=True)
        last = "SELECT cell, count(*) AS n\nFROM kept GROUP BY cell"
        return self._statement([("coded", coded), *bounded, ("", last)])

    def _row_steps(self, only: int | None = None) -> list[tuple[str, str]]:
        """Return the steps up to the rows that count; `only` one measurement's values if set."""
        measurements, unit = self.query.measurements, self.query.unit
        read = [
            j for j, m in enumerate(measurements) if m.aggregate.reads_values and only in (None, j)
        ]
        rows = self._rows(read)
        known = "" if unit.id is None else " AND id IS NOT NULL"
        coded = f"SELECT * FROM ({rows}) WHERE cell IS NOT NULL{known}"
        if self.source == KEPT:
            self.unbounded = self._statement([("coded", coded), ("", "SELECT * FROM coded")])
            return []
        if unit.id is None:
            bounded = [("kept", "SELECT * FROM coded")]
        elif read:
            names = [f"v{j}" for j in read]
            bounded = rows_within_limits(unit, names, self.space.size, text=self._text_ids())
        else:
            bounded = counts_within_limits(unit, self.space.size, text=self._text_ids())
        return [("coded", coded), *bounded]

    def _text_ids(self) -> bool:
        unit = self.query.unit.id
        return unit is not None and not isinstance(self.columns[unit], IntegerColumn)
