"""Compile records to one SELECT over `dp_source`: a row for each stored record.

The SELECT has no join, no filter and no grouping, because no value in a record may decide whether
the record is included. `noise/noised_vectors.py` puts the records into random order. The SELECT
returns the keys of text columns as texts; the code that reads the rows finds their positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from dprelease.query import quoting
from dprelease.query.grouping.group_keys import Key
from dprelease.query.local_records import RecordColumn, Records
from dprelease.schema.columns import Column, CutColumn, IntegerColumn, NumberColumn
from dprelease.statements.allocated_areas import (
    allocated_code_sql,
    allocating_columns,
    listed_values_sql,
)
from dprelease.statements.layers import SOURCE, cut_case_sql
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.values.lattice_steps import steps
from dprelease.statements.values.physical import DECLARED_AS


@dataclass(frozen=True, slots=True)
class CompiledRecords:
    """A SELECT with columns c0, c1, ...: BIGINT numbers, never NULL, or texts.

    `texts` has an entry i for each column ci of texts: the key among whose values the texts are
    looked up.
    """

    sql: str
    columns: tuple[str, ...]
    texts: Mapping[int, Key]


def stored_columns_of(records: Records) -> tuple[str, ...]:
    """Return the stored columns that the records are read from, in schema order."""
    columns = records.declared.table.columns
    read = set()
    for column in records.columns:
        declared = columns[column.name]
        read.add(declared.cut if isinstance(declared, CutColumn) else column.name)
        read |= {*allocating_columns(columns, column.name)}
    return tuple(name for name in columns if name in read)


def assumed_types_of(records: Records) -> dict[str, str]:
    """Return the column types that a plan assumes for the source without its data."""
    columns = records.declared.table.columns
    return {
        name: DECLARED_AS[getattr(columns[name], "type", "")] for name in stored_columns_of(records)
    }


def compile_records(records: Records, physical: Mapping[str, str]) -> CompiledRecords:
    """Return the SQL of records, given the DuckDB type of every stored column that they need.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    table = records.declared.table
    columns, zone = table.columns, table.time_zone
    parts = [
        f"{typed_value_sql(name, columns[name], physical[name], zone)} AS "
        f"{quoting.identifier(name)}"
        for name in stored_columns_of(records)
    ]
    texts, values = {}, []
    for i, column in enumerate(records.columns):
        declared = columns[column.name]
        if column.key is not None and column.key.kind == "text" and not _is_cut(declared):
            texts[i] = column.key
        if allocating_columns(columns, column.name):
            known = partial(listed_values_sql, columns)
            values.append(f"{allocated_code_sql(columns, column.name, known)} AS c{i}")
        else:
            values.append(f"{_column_sql(column, declared, physical)} AS c{i}")
    sql = f"SELECT {', '.join(values)}\nFROM (SELECT {', '.join(parts)} FROM {SOURCE}) typed"
    return CompiledRecords(sql, tuple(column.name for column in records.columns), texts)


def _is_cut(column: Column) -> bool:
    """Return whether a column is computed from the intervals of a number."""
    return isinstance(column, CutColumn)


def _column_sql(column: RecordColumn, declared: Column, physical: Mapping[str, str]) -> str:
    """Return the SQL of the steps, or of the index of the value, of a record's column."""
    if isinstance(declared, CutColumn):
        return f"CAST({cut_case_sql(declared, as_label=False, key=column.key)} AS BIGINT)"
    value = f"typed.{quoting.identifier(column.name)}"
    lattice, key = column.measurement.aggregate.lattice, column.key
    if isinstance(declared, IntegerColumn | NumberColumn) and lattice is not None:
        return steps(value, lattice, declared, physical[column.name])
    if key is None or key.kind == "text":
        return value
    if key.kind == "boolean":
        code = f"CASE WHEN {value} THEN 1 ELSE 0 END"
    else:  # dates outside the bounds have already been replaced by NULL
        code = f"CAST({value} - {quoting.day(key.days[0])} AS BIGINT)"
    return f"CAST(CASE WHEN {value} IS NULL THEN {key.nulls} ELSE {code} END AS BIGINT)"
