"""Create tables of public values, in which statements look up positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dprelease.exact.arrow_numbers import to_arrow_array
from dprelease.query.grouping.group_keys import Places
from dprelease.statements.compiled_statements import KeyTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MOST_PARAMETERS = 10_000
"""Maximum number of values that are passed as parameters, each as a Python object; more values are
passed in Arrow."""

VALUES_RELATION = "dp_keys_given"


@dataclass
class KeyTables:
    """The key tables of a connection, each of which is created only once."""

    _made: dict[str, Sequence[str] | Places] = field(default_factory=dict)

    def make(self, link: duckdb.DuckDBPyConnection, tables: Iterable[KeyTable]) -> None:
        """Create the tables that do not exist yet; raises duckdb.Error if the engine fails."""
        for table in tables:
            if self._made.get(table.name) != table.values:
                make_key_table(link, table)
                self._made[table.name] = table.values

    def drop(self, link: duckdb.DuckDBPyConnection) -> None:
        """Drop all key tables; raises duckdb.Error if the engine fails."""
        while self._made:
            link.execute(f"DROP TABLE IF EXISTS {self._made.popitem()[0]}")


def make_key_table(link: duckdb.DuckDBPyConnection, table: KeyTable) -> None:
    """Create a table (code, value) of public values or positions; may raise duckdb.Error."""
    create_sql = f"CREATE OR REPLACE TEMP TABLE {table.name} AS SELECT"
    if not isinstance(table.values, Places) and len(table.values) <= MOST_PARAMETERS:
        select_list = "unnest(range(len($1))) AS code, unnest($1::VARCHAR[]) AS value"
        link.execute(f"{create_sql} {select_list}", [list(table.values)])
        return
    link.register(VALUES_RELATION, to_arrow_table(table))
    try:
        link.execute(f"{create_sql} code, value FROM {VALUES_RELATION}")
    finally:
        link.unregister(VALUES_RELATION)


def to_arrow_table(table: KeyTable) -> pa.Table:
    """Return the codes and values of a key table as an Arrow table."""
    import pyarrow as pa

    if isinstance(table.values, Places):
        values = to_arrow_array(table.values.numbers)
    else:
        values = pa.array(list(table.values), pa.string())
    codes = to_arrow_array(np.arange(len(table.values), dtype=np.int64))
    return pa.Table.from_arrays([codes, values], names=["code", "value"])
