"""Write tables into a PostgreSQL server.

libpq finds the password, as for sources. The messages of the driver may name hosts and people, so
only the error code of the server is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from dprelease.exports.databases.database import Database, DatabaseError
from dprelease.query import quoting

if TYPE_CHECKING:
    import pyarrow as pa

PUBLIC = "public"
STATES = {
    "3F000": "it has no such schema, which must exist",
    "42501": "the role may not do this",
    "25006": "it is read-only",
    "53100": "its disk is full",
}
"""Reasons by the error codes of the server that a user can do something about."""
UNREACHABLE = "the connection to the server failed; try psql with this address"


class PostgresServer(Database):
    """A schema of a database of a PostgreSQL server, which must exist."""

    longest_name: ClassVar[int | None] = 63
    mark: ClassVar[str] = "${0}"

    def __init__(self, address: str, schema: str = PUBLIC) -> None:
        from adbc_driver_postgresql import dbapi

        self._schema = schema
        with _refusals(UNREACHABLE):
            self._link: Any = dbapi.connect(address, autocommit=False)
        # So that no function or operator in another schema can replace one of the system.
        self.run("SELECT set_config('search_path', 'pg_catalog', false)")
        # Literals double their quotes alone; with this setting off, a backslash would be an escape.
        self.run("SELECT set_config('standard_conforming_strings', 'on', false)")

    def qualified(self, name: str) -> str:
        """Return the quoted name of a table, with its schema."""
        return f"{quoting.identifier(self._schema)}.{quoting.identifier(name)}"

    def names(self) -> set[str]:
        """Return the names of all tables, views and other relations of the schema."""
        sql = (
            "SELECT c.relname::text FROM pg_class AS c "
            "JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = "
        )
        return {str(name) for (name,) in self.run(sql + quoting.text(self._schema))}

    def run(self, sql: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        with _refusals(), self._link.cursor() as cursor:
            cursor.execute(sql, tuple(values) or None)
            if cursor.description is None or not sql.startswith("SELECT"):
                return []
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def create(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Create a table from a reader."""
        with _refusals(), self._link.cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode="create", db_schema_name=self._schema)

    def commit(self) -> None:
        """Commit the transaction."""
        with _refusals():
            self._link.commit()

    def close(self) -> None:
        """Close the connection; the server undoes an open transaction."""
        with _refusals():
            self._link.rollback()
            self._link.close()


@contextmanager
def _refusals(reason: str = "the server refused it") -> Iterator[None]:
    """Raise DatabaseError with the error code of the server alone."""
    from adbc_driver_manager import dbapi

    code: object = None
    try:
        yield
        return
    except (dbapi.Error, OSError, ValueError) as problem:
        code = getattr(problem, "sqlstate", None)
    if code in STATES:
        reason = f"{reason}: {STATES[str(code)]}"
    # Outside of the handler, so that the message of the driver is not kept as a context.
    raise DatabaseError(f"{reason} (SQLSTATE {code})" if code else reason)
