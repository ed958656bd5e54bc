"""Write the tables of a release and its manifest into a database, in one transaction.

The table `dprelease_releases` has one row for each release in the database: its digest, its title,
the names of its tables as JSON, and its manifest. Only tables that are listed there are replaced.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb

from dprelease.documents.metadata import ColumnMetadata, Role
from dprelease.errors import OutputError
from dprelease.exports.export import PublishedRelease
from dprelease.query import quoting
from dprelease.system.files import reason_of
from dprelease.system.resource_errors import system_error

if TYPE_CHECKING:
    import pyarrow as pa


RELEASES = "dprelease_releases"
COLUMNS = ("digest", "title", "tables", "manifest")


class DatabaseError(Exception):
    """The database refused a statement; the text is the reason, without credentials."""

    refused_by: OSError | None = None
    """The refusal of the system, such as a full disk, if there is one."""


class Database(ABC):
    """An open database with one transaction, which `commit` ends; `close` undoes everything else.

    All methods raise DatabaseError.
    """

    has_comments: ClassVar[bool] = True
    longest_name: ClassVar[int | None] = None
    """The largest number of bytes of a name; longer names would be cut off silently."""
    mark: ClassVar[str] = "?"
    """The mark of the parameter with number {0} in a statement."""

    @abstractmethod
    def names(self) -> set[str]:
        """Return the names of all tables and views in the schema."""

    @abstractmethod
    def run(self, sql: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Run a statement with texts as parameters, and return its rows."""

    @abstractmethod
    def create(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Create a table with the columns and rows of a reader."""

    @abstractmethod
    def commit(self) -> None:
        """Make all changes durable and visible at once."""

    @abstractmethod
    def close(self) -> None:
        """Close the database; without `commit`, nothing has changed."""

    def qualified(self, name: str) -> str:
        """Return the quoted name of a table, with its schema if there is one."""
        return quoting.identifier(name)


def write_release(
    database: Database, release: PublishedRelease, manifest: str, *, overwrite: bool, language: str
) -> list[str]:
    """Write the tables of a release and its manifest; return the names of the tables.

    If the same release is there with all its tables, nothing is written without `overwrite`, and
    the list is empty. `manifest`: the manifest as text. `overwrite`: whether to replace releases in
    the database that have tables of the same names. The caller commits.

    Raises OutputError: DP-EXPORT-012 for a table that exists already, and is not part of a replaced
    release; DP-EXPORT-013 for a name that the database can't have. Raises DatabaseError if the
    database refuses a statement.
    """
    tables = list(release.metadata.tables_for_readers)
    names = [table.name for table in tables]
    _refuse_names(database, [*names, *(c.name for table in tables for c in table.columns)])
    there = database.names()
    digest, title = json.loads(manifest)["digest"], release.record.title
    if RELEASES in there and not overwrite and _holds_release(database, digest, names, there):
        return []
    if RELEASES not in there:
        columns = ", ".join(f"{quoting.identifier(name)} VARCHAR NOT NULL" for name in COLUMNS)
        database.run(f"CREATE TABLE {database.qualified(RELEASES)} ({columns})")
    elif overwrite:
        there -= _remove_releases(database, names)
    taken = {name.casefold() for name in there}
    for name in names:
        if name.casefold() in taken or name.casefold() == RELEASES:
            raise OutputError("DP-EXPORT-012", name=name)
    for table in tables:
        database.create(table.name, _reader(release, table.file))
        for column in table.columns if database.has_comments else ():
            _add_comment(database, table.name, column, language)
        if database.has_comments and table.label:
            comment = quoting.text(table.title(language))
            database.run(f"COMMENT ON TABLE {database.qualified(table.name)} IS {comment}")
    marks = ", ".join(database.mark.format(i) for i in range(1, len(COLUMNS) + 1))
    database.run(
        f"INSERT INTO {database.qualified(RELEASES)} VALUES ({marks})",
        (digest, title, json.dumps(names), manifest),
    )
    return names


def _refuse_names(database: Database, names: Collection[str]) -> None:
    """Raise DP-EXPORT-013 for a name that the database would cut off."""
    most = database.longest_name
    for name in names:
        if most is not None and len(name.encode()) > most:
            raise OutputError("DP-EXPORT-013", name=name, limit=most)


def _holds_release(
    database: Database, digest: str, names: Collection[str], there: Collection[str]
) -> bool:
    """Return whether the database lists a release of this digest, and has all its tables."""
    found = database.run(f"SELECT digest, tables FROM {database.qualified(RELEASES)}")
    listed = [_table_names(tables) for held, tables in found if held == digest]
    return any(tables == set(names) <= set(there) for tables in listed)


def _remove_releases(database: Database, names: Collection[str]) -> set[str]:
    """Remove the releases that have a table of one of these names; return the removed tables."""
    wanted = {name.casefold() for name in names}
    removed: set[str] = set()
    found = database.run(f"SELECT digest, tables FROM {database.qualified(RELEASES)}")
    for digest, listed in found:
        tables = _table_names(listed)
        if not wanted & {name.casefold() for name in tables}:
            continue
        for name in tables & database.names():
            database.run(f"DROP TABLE {database.qualified(name)}")
        mark = database.mark.format(1)
        database.run(
            f"DELETE FROM {database.qualified(RELEASES)} WHERE digest = {mark}", (str(digest),)
        )
        removed |= tables
    return removed


def _table_names(listed: object) -> set[str]:
    """Return the names in a list of tables, which anybody may have written."""
    try:
        names = json.loads(str(listed))
    except ValueError:
        return set()
    known = names if isinstance(names, list) else []
    return {name for name in known if isinstance(name, str) and name.casefold() != RELEASES}


def _reader(release: PublishedRelease, file: str) -> pa.RecordBatchReader:
    """Return a reader of a published table, with plain texts and without notes."""
    import pyarrow as pa

    from dprelease.tables import formats

    first = formats.part_files(release.folder / file)[0]
    schema = formats.PUBLISHED_FORMAT.shape(first)[0]
    bare = pa.schema([pa.field(field.name, field.type) for field in schema])

    def batches() -> Iterator[pa.RecordBatch]:
        """Yield the rows with the schema of the reader."""
        for batch in formats.PUBLISHED_FORMAT.batches(release.folder / file, None):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=bare)

    return pa.RecordBatchReader.from_batches(bare, batches())


def _add_comment(database: Database, table: str, column: ColumnMetadata, language: str) -> None:
    """Add the label, the unit and the description of a column as its comment."""
    label = column.label.get(language, "")
    unit = f"({column.unit})" if column.unit and column.role is not Role.KEY else ""
    words = " ".join(filter(None, (label, unit, column.description.get(language, ""))))
    if words:
        name = f"{database.qualified(table)}.{quoting.identifier(column.name)}"
        database.run(f"COMMENT ON COLUMN {name} IS {quoting.text(words)}")


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
                values = zip(*(_sqlite_values(column) for column in batch.columns), strict=True)
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


def _sqlite_values(column: pa.Array) -> list[Any]:
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
        refused_by = system_error(problem)
        # The text of DuckDB has the whole path of the file.
        reason = reason_of(refused_by) if refused_by else str(problem).partition("\n")[0]
        error = DatabaseError(reason)
        error.refused_by = refused_by
        raise error from None
