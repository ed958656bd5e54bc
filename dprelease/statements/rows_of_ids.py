"""Compile one SELECT over `dp_source` of rows with an id, and their cells in several tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.scans.shared_sources import SharedSource
from dprelease.statements.coded_rows import CodedRelation
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import typed_column


@dataclass(frozen=True, slots=True)
class Columns:
    """The column of a table's cells in a row, and its value columns by name in the statements."""

    cells: int
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class CompiledRows:
    """A SELECT of `id`, never NULL, then cells and values, which are NULL where there are none.

    `columns`: those of each table, by name. Rows without a cell in any table are left out. `wide`:
    the number of columns.
    """

    sql: str
    wide: int
    key_tables: tuple[KeyTable, ...]
    columns: dict[str, Columns]


def compile_rows(
    sources: SharedSource, physical: Mapping[str, str], joined: Mapping[str, str]
) -> CompiledRows:
    """Return the SELECT, given the engine's types of all stored columns.

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
    expressions = [coded.column("id", typed_column(unit))]
    columns: dict[str, Columns] = {}

    def place(expression: str) -> int:
        if expression not in expressions:
            expressions.append(expression)
        return expressions.index(expression)

    for query in sources.queries:
        cell = coded.where(query.predicate, coded.cell(query.keys))
        values = [
            (f"v{j}", place(coded.value(measurement) or ""))
            for j, measurement in enumerate(query.measurements)
            if measurement.aggregate.reads_values
        ]
        columns[query.name] = Columns(place(cell), tuple(values))
    named = ", ".join(f"{expression} AS r{i}" for i, expression in enumerate(expressions) if i)
    some = " OR ".join(f"r{columns[query.name].cells} IS NOT NULL" for query in sources.queries)
    rows = f"SELECT id, {named} FROM coded WHERE id IS NOT NULL"
    last = f"SELECT * FROM ({rows}) WHERE {some}"
    return CompiledRows(coded.statement(last), len(expressions), coded.key_tables, columns)
