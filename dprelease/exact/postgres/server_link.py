"""Connect to PostgreSQL servers, read-only and in one snapshot.

libpq finds the server, the user and the password in a service file, a password file and environment
variables. The messages of the driver name hosts, people and values, so all of them are dropped.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dprelease.errors import DataError
from dprelease.exact.reading.sources import source_fields, unreadable_error
from dprelease.exact.reading.store_copies import StoreCopies
from dprelease.exact.settings import DEFAULT_SETTINGS, Settings
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.system.deferred_signals import reraise_handler_errors

if TYPE_CHECKING:
    import pyarrow as pa

DRIVER_PACKAGE, EXTRA_NAME = "adbc_driver_postgresql", "postgres"
LOCK_SECONDS = 30

SERVER_TABLE = "a table of a PostgreSQL server"
LEAST_VERSION = 130_000

SETTINGS = (
    ("search_path", "pg_catalog, pg_temp"),  # no function or operator of other schemas
    ("standard_conforming_strings", "on"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO"),
    ("row_security", "on"),
    ("statement_timeout", "0"),
    ("lock_timeout", f"{LOCK_SECONDS}s"),
    ("idle_in_transaction_session_timeout", "0"),
    ("transaction_timeout", "0"),
    # With these settings, the table itself is read, and its rows come in stored order.
    ("synchronize_seqscans", "off"),
    ("enable_indexscan", "off"),
    ("enable_indexonlyscan", "off"),
    ("enable_bitmapscan", "off"),
    ("max_parallel_workers_per_gather", "0"),
)
"""Settings that override those of a role, a database or a service; a server of an older version
does not have all of them."""

ENCODINGS = ("UTF8", "SQL_ASCII", "LATIN1")
"""Encodings of databases in which every text can be read. In databases with other encodings, the
server fails at texts that it can't convert to UTF-8."""

BEGIN_SQL = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

REFUSED_LOCKS = {
    "42501": (
        "this role has no permission to read it",
        "grant it SELECT on the whole table: without, nothing keeps the table as it is meanwhile",
    ),
    "55P03": ("another session has locked it", "run again when that session has finished"),
}
"""By the server's error code: why a table can't be locked, and what to do."""

NOT_A_TABLE_CODE = "42809"


class Link:
    """A connection with one transaction, in which all rows are read from one snapshot.

    The tables of a run are locked before the snapshot is taken. So no table is truncated or altered
    between the time when its statements are compiled and the time when its rows are read.
    """

    def __init__(self, declared: Declared) -> None:
        self._link: Any = _connect(declared)
        _OPEN_LINKS[id(self)] = self

    def begin(self, tables: Iterable[Declared]) -> None:
        """Lock the tables of a run, and take the snapshot from which all rows are read.

        Raises DataError: DP-DATA-001, 014 or 024 for a table that can't be locked.
        """
        tables = list(tables)
        try:
            self._prepare(tables[0])
            self.run(BEGIN_SQL)
            for declared in tables:
                self._lock_table(declared)
        except BaseException:
            self.close()
            raise

    def _prepare(self, declared: Declared) -> None:
        """Apply the settings of the session, and refuse a server that can't be read exactly."""
        failed, encoding, version = False, "", 0
        try:
            pairs = ", ".join(f"('{name.lower()}', '{value}')" for name, value in SETTINGS)
            self.ask(
                "SELECT pg_catalog.set_config(s.name, v.value, false) "
                f"FROM (VALUES {pairs}) AS v(name, value) "
                "JOIN pg_catalog.pg_settings AS s ON pg_catalog.lower(s.name) = v.name"
            )
            ((encoding, version),) = self.ask(
                "SELECT pg_catalog.current_setting('server_encoding'), "
                "pg_catalog.current_setting('server_version_num')::pg_catalog.int4"
            )
            # The server does not know the encoding of texts in SQL_ASCII. It would check them as
            # UTF-8 for such a client, and stop at the first text that is none.
            client = "SQL_ASCII" if encoding == "SQL_ASCII" else "UTF8"
            self.run(f"SET client_encoding = '{client}'")
        except OSError:
            failed = True
        if failed:
            raise unreachable_error(declared)
        if version < LEAST_VERSION:
            way = "copy the table to a file, or to a server of version 13 or later"
            raise unreadable_error(declared, "the server is older than PostgreSQL 13", way)
        if encoding not in ENCODINGS:
            reason = "its database has an encoding that can't always be converted to UTF-8"
            raise unreadable_error(
                declared, reason, "copy the table to a database in UTF8, or to a file"
            )

    def _lock_table(self, declared: Declared) -> None:
        """Lock the table against changes of its form, or raise the error of the refused lock."""
        schema, table = address_of(declared)
        name = f"{quoting.identifier(schema)}.{quoting.identifier(table)}"
        state: str | None = None
        try:
            self.run(f"LOCK TABLE {name} IN ACCESS SHARE MODE")
        except ServerError as error:
            state = error.state
        if state is None:
            return
        if state in REFUSED_LOCKS:
            raise unreadable_error(declared, *REFUSED_LOCKS[state])
        if state == NOT_A_TABLE_CODE:
            raise DataError("DP-DATA-014", table=declared.table.name)
        raise DataError("DP-DATA-001", **source_fields(declared), format=SERVER_TABLE)

    def run(self, sql: str) -> None:
        """Run a statement that has no rows.

        Raises ServerError with the server's error code alone.
        """
        self._result(sql, lambda _: None)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about the catalogue; raises ServerError if it fails."""
        found: list[tuple[Any, ...]] = self._result(sql, lambda cursor: cursor.fetchall())
        return found

    def _result(self, sql: str, get: Any) -> Any:
        """Return what `get` reads from the cursor of a statement; raises ServerError."""
        state: str | None = None
        with reraise_handler_errors():
            try:
                with self._link.cursor() as cursor:
                    cursor.execute(sql)
                    return get(cursor)
            except _driver_errors() as error:
                state = _error_code(error)
        raise ServerError(state)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement as they arrive; raises ServerError if it fails."""
        state: str | None = None
        try:
            with self._link.cursor() as cursor:
                cursor.execute(sql)
                yield from cursor.fetch_record_batch()
            return
        except _driver_errors() as error:
            state = _error_code(error)
        raise ServerError(state)

    def close(self) -> None:
        """End the transaction and the connection; a forked child leaves both alone."""
        if _OPEN_LINKS.pop(id(self), None) is None:
            return
        try:
            self._link.close()
        except _driver_errors():  # the server has ended the connection
            return


class ServerError(OSError):
    """A statement failed; `state`: the server's error code, without the server's message."""

    def __init__(self, state: str) -> None:
        super().__init__("the server refused or closed the connection")
        self.state = state


class Servers:
    """The connections of a run: one for each address, with one snapshot for all tables there.

    `copies`: the copies of objects in stores, which all engines of the run read.
    """

    def __init__(self, tables: Iterable[Declared], settings: Settings = DEFAULT_SETTINGS) -> None:
        self.copies = StoreCopies(settings)
        self._tables: dict[str, dict[tuple[str, str], Declared]] = {}
        for declared in tables:
            source = declared.table.source
            if source is not None and source.kind == "postgres":
                here = self._tables.setdefault(source.path or "", {})
                here.setdefault(address_of(declared), declared)
        self._links: dict[str, Link] = {}

    def link(self, declared: Declared) -> Link:
        """Return the connection to a table's server, in whose transaction the table is locked.

        Raises DataError: DP-DATA-001, 014 or 024 if the table can't be locked, DP-DATA-025 without
        the driver.
        """
        source = declared.table.source
        path = "" if source is None else source.path or ""
        if path not in self._links:
            link = Link(declared)
            link.begin(self._tables[path].values())
            self._links[path] = link
        return self._links[path]

    def close(self) -> None:
        """Close all connections, and remove the copies."""
        self.copies.close()
        while self._links:
            self._links.popitem()[1].close()


@contextmanager
def open_servers(
    tables: Iterable[Declared], settings: Settings = DEFAULT_SETTINGS
) -> Iterator[Servers]:
    """Yield the connections of a run that reads these tables; each is opened at its first use."""
    servers = Servers(tables, settings)
    try:
        yield servers
    finally:
        servers.close()


def address_of(declared: Declared) -> tuple[str, str]:
    """Return the schema and the table that a source names; `public` if it names no schema."""
    source = declared.table.source
    schema, _, table = ("" if source is None else source.table or "").rpartition(".")
    return schema or "public", table


def unreachable_error(declared: Declared) -> DataError:
    """Return the error for a server to which no connection can be opened."""
    return unreadable_error(
        declared,
        "the connection to its server failed",
        "try psql with this address; PGSERVICEFILE names the services, PGPASSFILE the passwords",
    )


def _connect(declared: Declared) -> Any:
    """Return a connection of the driver to the server of the table, or raise an error."""
    if importlib.util.find_spec(DRIVER_PACKAGE) is None:
        raise DataError(
            "DP-DATA-025", table=declared.table.name, package=DRIVER_PACKAGE, extra=EXTRA_NAME
        )
    from adbc_driver_postgresql import dbapi

    source = declared.table.source
    link: Any = None
    with reraise_handler_errors():
        try:
            # With autocommit, the driver begins no transaction itself. `begin` can then lock the
            # tables before it takes the snapshot, at the isolation level that it needs.
            link = dbapi.connect("" if source is None else source.path or "", autocommit=True)
        except _driver_errors():
            link = None
    if link is None:
        raise unreachable_error(declared)
    return link


def _driver_errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors that the driver may raise."""
    from adbc_driver_manager import dbapi

    return (dbapi.Error, OSError, ValueError, MemoryError)


def _error_code(error: Exception) -> str:
    """Return the SQLSTATE code of an error of the driver; an empty text if there is none."""
    return str(getattr(error, "sqlstate", None) or "")


_OPEN_LINKS: dict[int, Link] = {}
"""Connections of this process."""


def _leave_to_parent() -> None:
    """Close no connection in a forked child: the server would end the connection of the parent."""
    for link in _OPEN_LINKS.values():
        # One reference too many keeps the driver's destructor from ever running in the child, where
        # it would say goodbye over the connection that parent and child share.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(link))
    _OPEN_LINKS.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
