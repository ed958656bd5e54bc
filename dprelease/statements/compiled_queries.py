"""Compile resolved queries to SQL, for stored types or for types that the declaration implies."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.query.resolve import Query
from dprelease.statements.compiled_statements import CompiledQuery
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import assumed_joined_types, assumed_types


def compile_query(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
) -> CompiledQuery:
    """Return the SQL of a query.

    Parameters
    ----------
    query
        The resolved query.
    physical
        The DuckDB type of every stored column that the query reads.
    joined
        The DuckDB types of the joined table's columns.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return Compiler(query, physical, joined or {}).compile()


def compile_partitions(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> str:
    """Return the SELECT of the partitions of a query with private keys.

    The parameters and the error are those of `compile_query`.
    """
    return Compiler(query, physical, joined or {}).partitions()


def compile_without_data(query: Query) -> CompiledQuery:
    """Return the SQL of a query for the column types that its declaration implies."""
    return compile_query(query, assumed_types(query), assumed_joined_types(query))


def compile_rows_within_limits(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> tuple[str, CompiledQuery]:
    """Return the SELECT of all rows with an id, and the statements over the kept rows.

    The function serves queries whose contribution limits are applied outside of the engine. The
    caller applies the limits to the rows of the SELECT, and registers the kept rows as the relation
    `dp_kept`, which the statements read. The parameters and the error are those of `compile_query`.
    """
    compiler = Compiler(query, physical, joined or {}, bounded=True)
    compiled = compiler.compile()
    return compiler.all_rows_sql, compiled
