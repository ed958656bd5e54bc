"""Tables of DuckDB files and their columns by name, for a first schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from dprelease.exact.connection import PRIVATE
from dprelease.query import quoting
from dprelease.system.answered import answered

if TYPE_CHECKING:
    import pyarrow as pa

ATTACHED = "dp_file"
TABLES = (
    "SELECT if(schema_name = 'main', table_name, schema_name || '.' || table_name) "
    f"FROM duckdb_tables() WHERE database_name = '{ATTACHED}' ORDER BY table_oid"
)
"""Names of stored tables as `source` has them; views are none."""


@contextmanager
def _asked(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a file that is only read.

    Raises
    ------
    OSError
        If the engine can't open it, or what is asked of it fails; its own words may quote a value.
    """
    try:
        with answered(), duckdb.connect(config=PRIVATE) as link:
            path = quoting.text(str(file.absolute()))
            link.execute(f"ATTACH {path} AS {ATTACHED} (READ_ONLY, TYPE duckdb)")
            yield link
    except duckdb.Error:
        raise OSError("no DuckDB file that can be opened") from None


def _named(table: str) -> str:
    return ".".join(quoting.identifier(part) for part in (ATTACHED, *table.split(".")))


def tables_of(file: Path) -> list[str]:
    """Return the names of the tables that a file stores; raise OSError if it can't be opened."""
    with _asked(file) as link:
        return [str(name) for (name,) in link.execute(TABLES).fetchall()]


def columns_of(file: Path, table: str) -> dict[str, str]:
    """Return the columns of a table with the engine's types; raise OSError as `tables_of`."""
    with _asked(file) as link:
        rows = link.execute(f"DESCRIBE {_named(table)}").fetchall()
        return {str(row[0]): str(row[1]) for row in rows}


def rows_of(file: Path, table: str) -> pa.Table:
    """Return all rows of a table; raise OSError if they can't be read."""
    with _asked(file) as link:
        return link.sql(f"FROM {_named(table)}").to_arrow_table()
