"""Tables of DuckDB files: read by the engine, and their columns for a first schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from dprelease.errors import DataError
from dprelease.exact.connection import PRIVATE
from dprelease.exact.inputs import Input
from dprelease.exact.reading.sources import stored_columns
from dprelease.exact.reading.stored_types import Ask, refuse_computed
from dprelease.query import quoting
from dprelease.statements.values.source_equality import EXACT, engine_collations
from dprelease.system.signal_propagation import reraise_handler_errors

if TYPE_CHECKING:
    import pyarrow as pa

ATTACHED = "dp_file"
TABLES = (
    "SELECT if(schema_name = 'main', table_name, schema_name || '.' || table_name) "
    f"FROM duckdb_tables() WHERE database_name = '{ATTACHED}' ORDER BY table_oid"
)
"""Names of stored tables as in `source`, without views."""


def database_relation(given: Input, relation: str, ask: Ask) -> str:
    """Return the relation of a table of a DuckDB file, whose texts are compared as they are.

    With a collation, one row's spelling would represent all equal ones: for a group of rows the
    engine returns any of them. The columns that had a collation are recorded.

    Raises
    ------
    DataError
        DP-DATA-014 for a view, or a computed column.
    """
    refuse_computed(given.declared, relation.split(".", 1)[0], ask)
    names = {str(name) for name, *_ in ask(f"DESCRIBE {relation}")}
    stored = [name for name in stored_columns(given.declared) if name in names]
    given.collations = engine_collations(stored, partial(_binds, relation, ask))
    plain = (
        f"{quoting.identifier(name)} COLLATE {EXACT[1]} AS {quoting.identifier(name)}"
        for name in given.collations
    )
    replaced = ", ".join(plain)
    return f"(SELECT * REPLACE ({replaced}) FROM {relation})" if replaced else relation


def _binds(relation: str, ask: Ask, expression: str) -> bool:
    try:
        ask(f"SELECT {expression} FROM {relation} LIMIT 0")
    except DataError as problem:
        if problem.code != "DP-DATA-001":  # lack of memory, or a fork
            raise
        return False
    return True


@contextmanager
def _read_only_connection(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a read-only connection to a file.

    Raises
    ------
    OSError
        If the engine can't open it, or a statement fails; the engine's message may quote a value.
    """
    try:
        with reraise_handler_errors(), duckdb.connect(config=PRIVATE) as link:
            path = quoting.text(str(file.absolute()))
            link.execute(f"ATTACH {path} AS {ATTACHED} (READ_ONLY, TYPE duckdb)")
            yield link
    except duckdb.Error:
        raise OSError("not a DuckDB file, or can't be opened") from None


def _table_identifier(table: str) -> str:
    return ".".join(quoting.identifier(part) for part in (ATTACHED, *table.split(".")))


def tables_of(file: Path) -> list[str]:
    """Return the names of the tables that a file stores; raise OSError if it can't be opened."""
    with _read_only_connection(file) as link:
        return [str(name) for (name,) in link.execute(TABLES).fetchall()]


def columns_of(file: Path, table: str) -> dict[str, str]:
    """Return the columns of a table with the engine's types; raise OSError as `tables_of`."""
    with _read_only_connection(file) as link:
        rows = link.execute(f"DESCRIBE {_table_identifier(table)}").fetchall()
        return {str(row[0]): str(row[1]) for row in rows}


def collations_in(file: Path, table: str, names: Sequence[str]) -> dict[str, str]:
    """Return the `RULES` for columns of a table; raise OSError if it can't be read."""
    with _read_only_connection(file) as link:

        def binds(expression: str) -> bool:
            try:
                link.execute(f"SELECT {expression} FROM {_table_identifier(table)} LIMIT 0")
            except duckdb.BinderException:
                return False
            return True

        return engine_collations(names, binds)


def rows_of(file: Path, table: str) -> pa.Table:
    """Return all rows of a table; raise OSError if they can't be read."""
    with _read_only_connection(file) as link:
        return link.sql(f"FROM {_table_identifier(table)}").to_arrow_table()
