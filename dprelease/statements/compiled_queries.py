"""Compile resolved queries to SQL, for the stored types or for those that declarations imply."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.query.resolve import Query
from dprelease.statements.compiled_statements import Compiled
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import assumed_joined, assumed_types


def compile_query(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
) -> Compiled:
    """Return the SQL of a query, given the DuckDB type of every stored column that it reads.

    `joined`: the types of the joined table's columns. Raises DataError DP-DATA-004 if a stored type
    can't be read as declared.
    """
    return Compiler(query, physical, joined or {}).compile()


def compile_partitions(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> str:
    """Return the SELECT of the partitions of a query with private keys; as above."""
    return Compiler(query, physical, joined or {}).partitions()


def compile_without_data(query: Query) -> Compiled:
    """Return the SQL of a query over the types that its declaration implies."""
    return compile_query(query, assumed_types(query), assumed_joined(query))


def compile_rows_within_limits(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> tuple[str, Compiled]:
    """Return the SELECT of all rows with id units, and statements over the kept ones in `dp_kept`.

    For contribution bounding outside of the engine; otherwise as `compile_query`.
    """
    compiler = Compiler(query, physical, joined or {}, bounded=True)
    compiled = compiler.compile()
    return compiler.unbounded, compiled
