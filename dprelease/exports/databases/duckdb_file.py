"""Write tables into a DuckDB file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from dprelease.exports.databases.database import Database, DatabaseError

if TYPE_CHECKING:
    import pyarrow as pa

Setting = str | bool | int | float | list[str]
# An export must not download an extension.
CONFIG: dict[str, Setting] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class DuckDBFile(Database):
    """A DuckDB file, which is created if it does not exist."""

    def __init__(self, path: str) -> None:
        with _refusals():
            self._link = duckdb.connect(str(Path(path).absolute()), config=CONFIG)
            self._link.execute("BEGIN")

    def names(self) -> set[str]:
        """Return the names of all tables and views of the schema `main`."""
        sql = (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' "
            # DuckDB also lists the tables of other databases that are attached.
            "AND table_catalog = current_database()"
        )
        return {str(name) for (name,) in self.run(sql)}

    def run(self, sql: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        with _refusals():
            return self._link.execute(sql, list(values)).fetchall()

    def create(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Create a table from a reader."""
        with _refusals():
            self._link.register("dp_export_rows", rows)
            self._link.execute(
                f"CREATE TABLE {self.qualified(name)} AS SELECT * FROM dp_export_rows"
            )
            self._link.unregister("dp_export_rows")

    def commit(self) -> None:
        """Commit the transaction."""
        self.run("COMMIT")

    def close(self) -> None:
        """Close the file; DuckDB undoes an open transaction."""
        self._link.close()


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise DatabaseError for errors of DuckDB."""
    try:
        yield
    except (duckdb.Error, OSError) as problem:
        raise DatabaseError(str(problem).partition("\n")[0]) from None
