"""Compile one resolved query to one SELECT over `dp_source`: a row for each non-empty cell.

Sums are 128-bit integers. With at most 2^62 steps per row and fewer than 2^63 rows, a sum stays
below 2^125, so that it can't overflow. Each sum is then clamped to 2^62. Clamping never moves two
values further apart, so the sensitivity also holds for the result that the database returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from dprelease.privacy.unit import PrivacyUnit
from dprelease.query import quoting
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.grouping.group_keys import Key, KeySpace, Places, key_of
from dprelease.query.grouping.private_keys import UNKNOWN
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.columns import CutColumn
from dprelease.statements.allocated_areas import allocated_rows_sql
from dprelease.statements.bounding import Ctes, limited_count_ctes, limited_row_ctes
from dprelease.statements.coarser import FINEST_RELATION, containing_cell_sql
from dprelease.statements.compiled_statements import CompiledQuery, KeyTable, ProfileSql
from dprelease.statements.layers import (
    cut_case_sql,
    grouped_names,
    grouping_columns,
    has_text_ids,
    physical_types,
    typed_column_sql,
    typed_rows_sql,
)
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.raw_keys import partition_sql, raw_key_sql
from dprelease.statements.totals import (
    clamped_total_sql,
    clipped_rows_sql,
    presence_condition_sql,
    total_sql,
)
from dprelease.statements.values.categories import (
    is_short_list,
    listed_position_sql,
    position_or_sql,
    substituted_position_sql,
)
from dprelease.statements.values.lattice_steps import WITHOUT_STEPS, steps
from dprelease.statements.values.row_values import (
    NARROW,
    group_total_terms,
    row_value_sql,
    values_key,
)
from dprelease.statements.values.stored_candidates import stored_candidates
from dprelease.statements.values.stored_keys import (
    found_as_numbers,
    found_as_texts,
    number_table_sql,
    run_position_sql,
)

KEPT_RELATION = "dp_kept"
"""The relation of rows whose contributions were limited outside of the engine."""


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
        self.bounded, self.all_rows_sql = bounded, ""
        self.source = clipped_rows_sql(KEPT_RELATION if bounded else "kept", query.measurements)
        self.physical = physical_types(query, stored, joined)
        self.as_numbers = found_as_numbers(query, self.physical)
        texts = found_as_texts(query, self.physical)
        self.untyped, self.unread = self.as_numbers | texts, grouping_columns(query) - texts
        self.space, self.columns = query.finest or query.keys, query.table.columns
        self.vectors = [m for m in query.measurements if m.is_vector and not m.finds_keys]
        self.key_tables: list[KeyTable] = []
        self._named: dict[tuple[str, tuple[str, ...]], str] = {}
        self._kept_row_ctes = cache(self._build_kept_row_ctes)  # as long as all values of a row
        self.joins: list[str] = []

    def compile(self) -> CompiledQuery:
        """Return all statements of the query."""
        distinct = any(m.aggregate.is_distinct for m in self.query.measurements)
        by_rows = self.query.unit.id is not None or distinct
        sql, profiles = "", {}
        if self.vectors:
            sql = self._sums_sql(by_rows=by_rows)
        if any(measurement.is_choice for measurement in self.query.measurements):
            profiles = self._profile_statements()
        names = tuple(measurement.name for measurement in self.vectors)
        summed = distinct or self.query.finest is not None or not self.vectors
        rows = "" if summed else self._contributions_sql()
        return CompiledQuery(sql, tuple(self.key_tables), names, profiles, rows)

    def _sums_sql(self, *, by_rows: bool) -> str:
        """Return the statement that sums all vectors."""
        if by_rows:
            return self._statement_sql(self._single_row_ctes())
        present = presence_condition_sql(self.query, self.vectors)
        return self._statement_sql(self._grouped_row_ctes(), grouping_columns(self.query), present)

    def _statement_sql(
        self, ctes: Ctes, as_stored: frozenset[str] = frozenset(), present: str = ""
    ) -> str:
        """Return one statement of common table expressions, the last of which is its result."""
        if len(ctes) == 1:
            return ctes[0][1]  # the statement reads rows that were selected before
        *named, (_, last) = [("typed", self.typed_layer_sql(as_stored, present)), *ctes]
        with_sql = ",\n".join(f"{name} AS (\n  {text}\n)" for name, text in named)
        return f"WITH {with_sql}\n{last}"

    def _profile_statements(self) -> dict[str, ProfileSql]:
        """Return the SELECTs that count candidates, for each measurement that selects among them.

        Contribution limits use all values that the query reads, as for its other measurements.
        """
        by_name: dict[str, ProfileSql] = {}
        known: dict[object, ProfileSql] = {}
        for j, measurement in enumerate(self.query.measurements):
            same = values_key(measurement.aggregate) if measurement.is_choice else None
            if same in known:
                by_name[measurement.name] = known[same]
            elif measurement.is_choice:
                by_name[measurement.name] = known[same] = self._profile_statement(j, measurement)
        return by_name

    def _profile_statement(self, j: int, measurement: Measurement) -> ProfileSql:
        """Return the SELECTs that count the candidates of one measurement in each cell."""
        aggregate, is_row = measurement.aggregate, self.query.unit.id is None
        size = aggregate.candidates
        row_steps = self._kept_row_ctes(j if is_row else None)
        present = f"FROM {self.source} WHERE v{j} IS NOT NULL"
        grouped = f"SELECT cell, v{j} AS v, count(*) AS n\n{present} GROUP BY cell, v{j}"
        by_group = self._statement_sql([*row_steps, ("", grouped)])
        outside = self.query.keys.size * size
        kind = "INTEGER" if outside < NARROW else "BIGINT"
        stored = stored_candidates(aggregate, self.columns, self.physical) if is_row else None
        if stored is not None:
            rows = self._rows_sql([], kind, f", {stored.sql} AS v")
            pairs = self._statement_sql([("kept", rows), ("", "SELECT cell, v FROM kept")])
            return ProfileSql(by_group, pairs, size, stored)
        place = position_or_sql(f"cell * {size} + v{j}", outside)
        places = f"SELECT CAST({place} AS {kind}) AS place\nFROM {self.source}"
        if is_row:  # the engine is faster without a filter on computed values
            row_steps = [("kept", self._rows_sql([j]))]
        return ProfileSql(by_group, self._statement_sql([*row_steps, ("", places)]), size)

    def _rows_sql(self, read: list[int], kind: str = "BIGINT", stored: str = "") -> str:
        """Return a SELECT of each row's id, cell and values; the cell may be NULL.

        `read` are the indexes of the measurements whose values are selected; `stored` is SQL of
        further columns.
        """
        self.joins = []
        cell = self._cell_sql([raw_key_sql(self.query, key) for key in self.space.keys], kind)
        values = stored + "".join(
            f", {row_value_sql(self, self.query.measurements[j].aggregate)} AS v{j}" for j in read
        )
        unit = self.query.unit
        person = "NULL" if unit.id is None else typed_column_sql(unit.id)
        return f"SELECT {person} AS id, {cell} AS cell{values} FROM typed {' '.join(self.joins)}"

    def typed_layer_sql(self, as_stored: frozenset[str] = frozenset(), present: str = "") -> str:
        """Return a SELECT of typed rows, in which the columns `as_stored` keep their types."""
        untyped = as_stored | self.untyped
        inner = typed_rows_sql(self.query, self.stored, self.joined, untyped, present)
        predicate = self.query.predicate
        return self.allocated_sql(
            inner if predicate is None else f"SELECT * FROM ({inner}) WHERE {predicate.sql}"
        )

    def allocated_sql(self, rows: str) -> str:
        """Return a SELECT of typed rows with the codes to which rows without one are assigned."""
        table = None if self.query.private else self._key_table_name  # keys have no tables yet
        return allocated_rows_sql(rows, self.columns, grouped_names(self.query), table)

    def _code_sql(self, key: Key, raw: str, *, of_groups: bool = False) -> str:
        """Return SQL of the position of a key's cell; a text key may add a join of a key table."""
        if key.kind != "text" or isinstance(self.columns.get(key.column), CutColumn):
            return raw
        by_number, texts = key.column in self.as_numbers and not of_groups, key.texts
        code = (
            run_position_sql(texts, raw)
            if by_number
            else listed_position_sql(texts, raw, groups=of_groups)
        )
        if code is None:
            name = self._key_table_name(key)
            values = f"{number_table_sql(name)} {name}" if by_number else name
            join = f"LEFT JOIN {values} ON {raw} = {name}.value"
            if join not in self.joins:
                self.joins.append(join)
            code = f"{name}.code"
        return substituted_position_sql(code, raw, key)

    def _key_table_name(self, key: Key) -> str:
        """Return the name of the table of a key's values, which all statements of a query share."""
        values = key.texts
        if (key.column, values) not in self._named:
            self._named[key.column, values] = self._add_key_table(values)
        return self._named[key.column, values]

    def _cell_sql(self, raws: list[str], kind: str = "BIGINT", *, of_groups: bool = False) -> str:
        """Return the SQL of a cell's number, from the stored values of its keys."""
        keys, strides = self.space.keys, self.space.strides
        terms = [
            f"CAST({self._code_sql(key, raw, of_groups=of_groups)} AS {kind}) * {stride}"
            for key, raw, stride in zip(keys, raws, strides, strict=True)
        ]
        return " + ".join(terms) or f"0::{kind}"

    def null_if_missing_sql(self, column: str) -> str:
        """Return SQL that is NULL where a column is missing in the sense of conditions."""
        declared = self.columns[column]
        if isinstance(declared, CutColumn):  # a number outside all intervals has no label
            return cut_case_sql(declared, as_label=True)
        return typed_column_sql(column)

    def has_null_value(self, column: str) -> bool:
        """Return whether the declaration replaces missing numbers of a column."""
        return getattr(self.columns[column], "fill_value", None) is not None

    def steps(self, aggregate: Aggregate) -> str:
        """Return SQL of a value as a BIGINT number of steps within the bounds; NULL if missing."""
        name, lattice = aggregate.column or "", aggregate.lattice
        column = self.columns[name]
        if lattice is None or isinstance(column, WITHOUT_STEPS):
            raise TypeError("only numbers, dates and booleans have steps")
        return steps(typed_column_sql(name), lattice, column, self.physical[name])

    def value_position_sql(self, column: str) -> str:
        """Return SQL of a value's position among the column's declared values, or NULL."""
        key = key_of(column, self.columns[column])
        if isinstance(key, str):
            raise TypeError("distinct values are resolved for declared values only")
        return self.code(key)

    def code(self, key: Key) -> str:
        """Return SQL of a row's position among the values of a key; NULL for dropped rows."""
        code = self._code_sql(key, raw_key_sql(self.query, key))
        needs_one = key.kind == "text" or isinstance(self.columns.get(key.column), CutColumn)
        return position_or_sql(code, len(key.values)) if key.rest and needs_one else code

    def _grouped_row_ctes(self) -> Ctes:
        """Return the expressions of a query whose privacy unit is a row: group, then find cells.

        The engine first groups rows by stored keys, and then finds the cell of each group: by a
        search in short lists of values, and by a join with a table of longer lists.
        """
        keys = self.space.keys
        raws = [f"{raw_key_sql(self.query, key)} AS k{i}" for i, key in enumerate(keys)]
        added: dict[str, str] = {}
        totals = [self._group_total_sql(measurement, added) for measurement in self.vectors]
        raws += [f"{sql} AS {name}" for sql, name in added.items()]
        by = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        grouped = f"SELECT {', '.join(raws)} FROM typed{by}"
        columns = "".join(f", {name}" for name in added.values())
        meaning = [("grouped", grouped)]
        if self.unread:
            meant = f"SELECT {', '.join(self._key_values_sql())}{columns} FROM {meaning[-1][0]}"
            meaning.append(("meant", meant))
        meaning[-1] = ("meant", meaning[-1][1])
        cell = self._cell_sql([f"k{i}" for i in range(len(keys))], of_groups=True)
        placed = f"SELECT {cell} AS cell{columns} FROM meant {' '.join(self.joins)}"
        last = self._total_ctes(totals, "placed WHERE cell IS NOT NULL")
        if self.query.finest is None and self._adds_outside_cell:
            last = self._total_ctes(totals, "placed", f"coalesce(cell, {self.space.size}) AS cell")
        return [*meaning, ("placed", placed), *last]

    def _group_total_sql(self, measurement: Measurement, added: dict[str, str]) -> str:
        """Return SQL of a total over groups; `added` collects the columns that it needs."""
        if not measurement.aggregate.reads_values:
            return f"sum({added.setdefault('count(*)', f'a{len(added)}')})"
        terms = []
        for sql, factor in group_total_terms(self, measurement.aggregate):
            total = f"sum({added.setdefault(sql, f'a{len(added)}')})"
            terms.append(total if factor == 1 else f"{total} * {quoting.integer(factor)}::HUGEINT")
        return " + ".join(terms)

    def _key_values_sql(self) -> list[str]:
        """Return SQL of the keys of a group, with stored values converted to declared values."""
        zone, values = self.query.table.time_zone, []
        for i, key in enumerate(self.space.keys):
            value = f"k{i}"
            if key.column in self.unread:
                column, kind = self.columns[key.column], self.physical[key.column]
                short = is_short_list(key.texts)
                known = "" if short else f"SELECT value FROM {self._key_table_name(key)}"
                value = f"{typed_value_sql(key.column, column, kind, zone, known, value)} AS k{i}"
            values.append(value)
        return values

    @property
    def _has_row_counts(self) -> bool:
        """Whether each kept row stands for `n` equal rows."""
        measured = self.query.measurements
        return self.query.unit.id is not None and not any(
            m.aggregate.reads_values for m in measured
        )

    # a subclass for parts of a table does not clamp
    _total_column_sql = staticmethod(clamped_total_sql)
    # groups without a cell are one additional cell: a filter on computed values is slow to plan
    _adds_outside_cell = True

    def _single_row_ctes(self) -> Ctes:
        """Return the expressions of a query that must compute the cell of every single row."""
        totals = [
            total_sql(m, self.query.measurements.index(m), counted=self._has_row_counts)
            for m in self.vectors
        ]
        return [*self._kept_row_ctes(), *self._total_ctes(totals, self.source)]

    def _total_ctes(self, totals: list[str], rows: str, cell: str = "cell") -> Ctes:
        """Return the last CTEs: the sum of each cell, from rows or from sums of finest cells."""
        if self.query.finest is None:
            bounded = [self._total_column_sql(total, j) for j, total in enumerate(totals)]
            return [("", f"SELECT {cell}, {', '.join(bounded)}\nFROM {rows} GROUP BY cell")]
        sums = "".join(f", {total} AS a{j}" for j, total in enumerate(totals))
        finest = f"SELECT cell{sums} FROM {rows} GROUP BY cell"
        return [(FINEST_RELATION, finest), ("", self.finest_total_sql(self.query.finest))]

    def finest_total_sql(self, finest: KeySpace, relation: str = FINEST_RELATION) -> str:
        """Return a SELECT that sums, for each cell, the finest cells that lie in the cell."""
        cell, joins = containing_cell_sql(finest, self.query.keys, self._add_key_table, relation)
        totals = [self._total_column_sql(f"sum(a{j})", j) for j in range(len(self.vectors))]
        return f"SELECT {cell} AS cell, {', '.join(totals)}\nFROM {relation}{joins} GROUP BY 1"

    def _add_key_table(self, values: tuple[str, ...] | Places) -> str:
        """Add a table (code, value) of public values to the statement, and return its name."""
        name = f"dp_keys_{len(self.key_tables)}"
        self.key_tables.append(KeyTable(name, values))
        return name

    def _contributions_sql(self) -> str:
        """Return the statement that selects each row's contribution to every vector."""
        added: list[str] = []
        for measurement in self.vectors:
            one = "n" if self._has_row_counts else "1"
            if measurement.aggregate.reads_values:
                one = f"coalesce(v{self.query.measurements.index(measurement)}, 0)"
            added.append(f"CAST({one} AS BIGINT) AS m{len(added)}")
        outside = self.space.size
        last = f"SELECT coalesce(cell, {outside}) AS cell, {', '.join(added)}\nFROM {self.source}"
        if self.query.unit.id is not None:
            return self._statement_sql([*self._kept_row_ctes(), ("", last)])
        read = [j for j, m in enumerate(self.query.measurements) if m.aggregate.reads_values]
        return self._statement_sql([("kept", self._rows_sql(read)), ("", last)])

    def partitions(self) -> str:
        """Return a SELECT of partitions: `cell`, the partition's text, and `n`, its unit count."""
        unit = self.query.unit
        person = "NULL" if unit.id is None else typed_column_sql(unit.id)
        rows = f"SELECT {person} AS id, {partition_sql(self.query)} AS cell FROM typed"
        known = "" if unit.id is None else " AND id IS NOT NULL"
        coded = f"SELECT * FROM ({rows}) WHERE cell IS NOT NULL{known}"
        bounded = [("kept", "SELECT * FROM coded")]
        if unit.id is not None:
            groups = PrivacyUnit(unit.id, unit.most_groups)
            bounded = limited_count_ctes(
                groups, UNKNOWN, text=has_text_ids(self.query), text_cells=True
            )
        last = "SELECT cell, count(*) AS n\nFROM kept GROUP BY cell"
        return self._statement_sql([("coded", coded), *bounded, ("", last)])

    def _build_kept_row_ctes(self, only: int | None = None) -> Ctes:
        """Return the expressions up to the kept rows.

        `only`: the index of the only measurement that the rows are for; None for all measurements.
        """
        unit, measured = self.query.unit, enumerate(self.query.measurements)
        read = [j for j, m in measured if m.aggregate.reads_values and only in (None, j)]
        rows = self._rows_sql(read)
        known = "" if unit.id is None else " AND id IS NOT NULL"
        coded = f"SELECT * FROM ({rows}) WHERE cell IS NOT NULL{known}"
        if self.bounded:
            self.all_rows_sql = self._statement_sql([("coded", coded), ("", "SELECT * FROM coded")])
            return []
        if unit.id is None:
            bounded = [("kept", "SELECT * FROM coded")]
        elif read:
            names = [f"v{j}" for j in read]
            bounded = limited_row_ctes(unit, names, self.space.size, text=has_text_ids(self.query))
        else:
            bounded = limited_count_ctes(unit, self.space.size, text=has_text_ids(self.query))
        return [("coded", coded), *bounded]
