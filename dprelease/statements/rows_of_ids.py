"""Compile one SELECT over `dp_source` of all rows with an id, with their cells in many tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.scans.shared_sources import SharedSource
from dprelease.statements.coded_rows import CodedRelation
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import typed_column_sql


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
    rows = f"SELECT id, {named} FROM coded WHERE id IS NOT NULL"
    last = f"SELECT * FROM ({rows}) WHERE {has_a_cell}"
    return CompiledRows(coded.statement(last), len(expressions), coded.key_tables, columns)
