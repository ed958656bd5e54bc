"""Compile one SELECT over `dp_source` with the cells of its rows in many tables.

The SELECT reads a relation that has the key codes and values of all tables, each only once. It has
all rows with an id, whose contributions are limited later, or it fills joint tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query import quoting
from dprelease.query.expressions.used_columns import Predicate
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement
from dprelease.query.scan_planning import Joint, Scan, SharedSource
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import typed_column_sql
from dprelease.statements.values.row_values import row_value_sql, values_key


class CodedRelation:
    """Collects the columns that callers request, and renders the relation `coded` with them."""

    def __init__(self, compiler: Compiler, sources: SharedSource) -> None:
        self._compiler, self._columns = compiler, sources.columns
        self._codes: dict[tuple[str, bool], str] = {}
        self._coded: dict[str, str] = {}
        self._read: dict[object, str] = {}
        self._values: dict[str, str] = {}
        self._flags: dict[str, str] = {}

    @property
    def key_tables(self) -> tuple[KeyTable, ...]:
        """The tables of key values that the statement reads."""
        return tuple(self._compiler.key_tables)

    def cell(self, space: KeySpace, kind: str = "BIGINT") -> str:
        """Return SQL of a row's cell in the type `kind`; the SQL is NULL for rows without a cell.

        The type must be able to hold the number of every cell.
        """
        # Cast before multiplying: codes may be narrow integers, and a product that does not fit its
        # type is an error of the engine, not a larger type.
        terms = (
            f"CAST({self._code_column(key)} AS {kind}) * {stride}"
            for key, stride in zip(space.keys, space.strides, strict=True)
        )
        return " + ".join(terms) or f"0::{kind}"

    def value(self, measurement: Measurement) -> str | None:
        """Return the name of the column with each row's contribution to a measurement.

        Returns None if all rows contribute the same.
        """
        if not measurement.aggregate.reads_values:
            return None
        aggregate = measurement.aggregate
        read = values_key(aggregate) if measurement.is_choice else aggregate
        if read not in self._read:  # rendering a value may add another key table
            value = row_value_sql(self._compiler, aggregate)
            self._read[read] = self._values.setdefault(value, f"v{len(self._values)}")
            self._coded[self._values[value]] = value
        return self._read[read]

    def where(self, condition: Predicate | None, expression: str) -> str:
        """Return SQL of an expression for the rows that meet a condition, and NULL for others."""
        if condition is None:
            return expression
        name = self._flags.setdefault(condition.sql, f"w{len(self._flags)}")
        self._coded[name] = f"typed.{self._unused_name(name)}"
        return f"CASE WHEN {name} THEN {expression} END"

    def column(self, name: str, expression: str) -> str:
        """Add a column, an expression over the typed rows, and return its name."""
        self._coded[name] = expression
        return name

    def statement(self, last: str) -> str:
        """Return the complete statement whose last SELECT, `last`, reads the relation `coded`."""
        typed = self._compiler.typed_layer_sql()
        if self._flags:  # column names in a condition could be ambiguous once key tables are joined
            flags = ", ".join(
                f"({sql}) AS {self._unused_name(name)}" for sql, name in self._flags.items()
            )
            typed = f"SELECT *, {flags} FROM ({typed})"
        columns = ", ".join(f"{code} AS {name}" for name, code in self._coded.items())
        coded = f"SELECT {columns or '1 AS one'} FROM typed {' '.join(self._compiler.joins)}"
        return f"WITH typed AS (\n  {typed}\n),\ncoded AS (\n  {coded}\n)\n{last}"

    def _code_column(self, key: Key) -> str:
        """Return the name of the column with a key's codes.

        Tables that drop rows without a cell and tables that keep such rows use different columns.
        """
        which = key.column, key.rest
        if which not in self._codes:
            self._codes[which] = f"k{len(self._codes)}"
            self._coded[self._codes[which]] = self._compiler.code(key)
        return self._codes[which]

    def _unused_name(self, name: str) -> str:
        """Return a quoted name, derived from `name`, that no column of the table has."""
        start = "dp_"
        # The engine compares names without case.
        while any(column.casefold().startswith(start) for column in self._columns):
            start += "_"
        return quoting.identifier(start + name)


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of one table in a row: the index of its cell, and of each named value."""

    cells: int
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class CompiledRows:
    """A SELECT of `id`, never NULL, then of cells and values, which are NULL where a row has none.

    The SELECT leaves out rows without a cell in any table. `columns` are the columns of each table,
    by the table's name, and `wide` is the number of all columns.
    """

    sql: str
    wide: int
    key_tables: tuple[KeyTable, ...]
    columns: dict[str, TableColumns]


def compile_rows(
    sources: SharedSource, physical: Mapping[str, str], joined: Mapping[str, str]
) -> CompiledRows:
    """Return the SELECT of several queries, given the engine's types of all stored columns.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    combined_query = sources.query(m for query in sources.queries for m in query.measurements)
    unit = combined_query.unit.id
    if unit is None:
        raise TypeError("only rows of ids are bounded")
    coded = CodedRelation(Compiler(combined_query, physical, joined), sources)
    expressions = [coded.column("id", typed_column_sql(unit))]
    columns: dict[str, TableColumns] = {}

    def column_index(expression: str) -> int:
        """Return the index of the column with this expression, which is added if it is new."""
        if expression not in expressions:
            expressions.append(expression)
        return expressions.index(expression)

    for query in sources.queries:
        cell = coded.where(query.predicate, coded.cell(query.keys))
        values = [
            (f"v{j}", column_index(coded.value(measurement) or ""))
            for j, measurement in enumerate(query.measurements)
            if measurement.aggregate.reads_values
        ]
        columns[query.name] = TableColumns(column_index(cell), tuple(values))
    named = ", ".join(f"{expression} AS r{i}" for i, expression in enumerate(expressions) if i)
    cells = [columns[query.name].cells for query in sources.queries]
    has_a_cell = " OR ".join(f"r{cell} IS NOT NULL" for cell in cells)
    # A row without an id belongs to no person, so no limit would hold for it.
    rows = f"SELECT id, {named} FROM coded WHERE id IS NOT NULL"
    last = f"SELECT * FROM ({rows}) WHERE {has_a_cell}"
    return CompiledRows(coded.statement(last), len(expressions), coded.key_tables, columns)


MOST_32_BIT_CELLS = 2**31 - 1
"""Number of cells up to which cell numbers fit into 32-bit integers, with one for other rows."""


@dataclass(frozen=True, slots=True)
class JointTable:
    """A joint table, and the indexes of its columns in a row.

    `cells` is the index of the cell, and `added` has the index of the contribution to each vector,
    or None for a vector that counts rows. `size` is the number of cells, or of pairs of a cell and
    a candidate.
    """

    joint: Joint
    size: int
    cells: int
    added: dict[object, int | None]


@dataclass(frozen=True, slots=True)
class CompiledScan:
    """A SELECT whose rows are integers of up to 64 bits, never NULL.

    A row has its cell in each joint table, which is one above the last cell if the row does not
    count in that table. `wide` is the number of columns.
    """

    sql: str
    wide: int
    key_tables: tuple[KeyTable, ...]
    filled: tuple[JointTable, ...]


def compile_scan(
    scan: Scan, physical: Mapping[str, str], joined: Mapping[str, str]
) -> CompiledScan:
    """Return the SELECT of a scan, given the engine's types of all stored columns.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return _ScanCompiler(scan, Compiler(scan.query, physical, joined)).build_scan()


class _ScanCompiler:
    """Renders the cells and values of joint tables as columns of one SELECT."""

    def __init__(self, scan: Scan, compiler: Compiler) -> None:
        self.scan, self.coded = scan, CodedRelation(compiler, scan.sources)
        self.out: list[str] = []

    def build_scan(self) -> CompiledScan:
        """Return the statement of the scan, and how its columns fill the joint tables."""
        filled = tuple(self._add_joint_table(joint) for joint in self.scan.joints)
        sql = self.coded.statement(f"SELECT {', '.join(self.out)}\nFROM coded")
        return CompiledScan(sql, len(self.out), self.coded.key_tables, filled)

    def _add_joint_table(self, joint: Joint) -> JointTable:
        """Add the columns of a joint table to the statement; return which it reads."""
        space = joint.space
        size = space.size * (joint.candidates or 1)
        cell = self.coded.cell(space, "INTEGER" if size < MOST_32_BIT_CELLS else "BIGINT")
        added: dict[object, int | None] = {}
        for vector, measurement in joint.vectors.items():
            value = self.coded.value(measurement)
            if joint.candidates:
                cell = f"({cell}) * {joint.candidates} + {value}"
            else:
                added[vector] = (
                    None if value is None else self._column_index(f"coalesce({value}, 0)")
                )
        if joint.condition is not None or joint.candidates or not all(k.rest for k in space.keys):
            cell = f"coalesce({self.coded.where(joint.condition, cell)}, {size})"
        return JointTable(joint, size, self._column_index(cell), added)

    def _column_index(self, expression: str) -> int:
        """Return the index of an expression in a row; equal expressions share one column."""
        if expression not in self.out:
            self.out.append(expression)
        return self.out.index(expression)
