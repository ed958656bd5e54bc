"""Write tables into a file of DuckDB or SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb

from dprelease.exports.databases.database import Database, DatabaseError
from dprelease.query import quoting

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


class SQLiteFile(Database):
    """A SQLite file, which is created if it does not exist.

    SQLite has no types for booleans, dates and decimals: booleans are 0 and 1, dates and decimals
    are texts with all digits. It has no NaN, which becomes NULL.
    """

    has_comments: ClassVar[bool] = False

    def __init__(self, path: str) -> None:
        with _refusals():
            # Otherwise the module begins transactions by itself.
            self._link = sqlite3.connect(Path(path).absolute(), isolation_level=None)
            self._link.execute("BEGIN IMMEDIATE")

    def names(self) -> set[str]:
        """Return the names of all tables and views."""
        return {str(name) for (name,) in self.run("SELECT name FROM sqlite_master")}

    def run(self, sql: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        with _refusals():
            return self._link.execute(sql, tuple(values)).fetchall()

    def create(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Create a table from a reader."""
        columns = ", ".join(
            f"{quoting.identifier(field.name)} {_type_name(field.type)}" for field in rows.schema
        )
        self.run(f"CREATE TABLE {self.qualified(name)} ({columns})")
        marks = ", ".join("?" * len(rows.schema))
        insert = f"INSERT INTO {self.qualified(name)} VALUES ({marks})"
        with _refusals():
            for batch in rows:
                values = zip(*(_stored(column) for column in batch.columns), strict=True)
                self._link.executemany(insert, values)

    def commit(self) -> None:
        """Commit the transaction."""
        self.run("COMMIT")

    def close(self) -> None:
        """Close the file; SQLite undoes an open transaction."""
        self._link.close()


def _type_name(type_: pa.DataType) -> str:
    """Return the declared type of a column in SQLite."""
    import pyarrow as pa

    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return "INTEGER"
    return "REAL" if pa.types.is_floating(type_) else "TEXT"


def _stored(column: pa.Array) -> list[Any]:
    """Return the values of a column as SQLite stores them."""
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        # As a REAL, a decimal would be rounded to a float.
        return [None if value is None else f"{value:f}" for value in column.to_pylist()]
    if pa.types.is_temporal(column.type):
        return [None if value is None else value.isoformat() for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise DatabaseError for errors of both libraries, and for integers beyond 64 bits."""
    try:
        yield
    except (duckdb.Error, sqlite3.Error, OSError, OverflowError) as problem:
        raise DatabaseError(str(problem).partition("\n")[0]) from None
