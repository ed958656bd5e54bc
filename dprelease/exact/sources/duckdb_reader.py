"""Read tables of DuckDB files by the engine, and describe their columns for a first schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from dprelease.errors import DataError
from dprelease.exact.connection import CONNECTION_OPTIONS
from dprelease.exact.reading.sources import (
    OpenedSource,
    file_stamp,
    files_of_source,
    stored_columns,
)
from dprelease.exact.sources.source_reader import (
    Description,
    Opening,
    RunMetadataQuery,
    SourceReader,
    choose_table,
)
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.schema.source_types.source import Source
from dprelease.statements.values.source_equality import EXACT, engine_collations
from dprelease.system.deferred_signals import reraise_handler_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.inputs import Input

PROPOSED_TYPES: dict[str, str] = {
    **dict.fromkeys(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"], "integer"),
    **dict.fromkeys(["UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"], "integer"),
    **dict.fromkeys(["FLOAT", "DOUBLE", "DECIMAL"], "number"),
    **dict.fromkeys(["VARCHAR", "ENUM"], "text"),
    **dict.fromkeys(["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP"], "timestamp"),
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "BOOLEAN": "boolean",
    "DATE": "date",
}
"""Types that `init` proposes, by the engine's types."""

ATTACHED_NAME = "dp_file"
TABLE_NAMES_SQL = (
    "SELECT if(schema_name = 'main', table_name, schema_name || '.' || table_name) "
    f"FROM duckdb_tables() WHERE database_name = '{ATTACHED_NAME}' ORDER BY table_oid"
)
"""A statement that returns the names of stored tables, as `source` writes them; without views."""


class DuckDBReader(SourceReader):
    """Reads tables of DuckDB files, which the engine attaches."""

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the relation of a table of the first file."""
        files = files_of_source(declared, source)[:1]
        stamps = tuple(map(file_stamp, files))
        path = quoting.text(str(files[0]))
        parts = [quoting.identifier(part) for part in (source.table or "").split(".")]
        attach = f"ATTACH {path} AS {opening.database} (READ_ONLY, TYPE duckdb)"
        return OpenedSource(files, stamps, (attach,), ".".join([opening.database, *parts]))

    def relation(
        self, given: Input, relation: str, ask: RunMetadataQuery, *, can_use_arrow: bool
    ) -> str:
        """Return the relation of a table whose texts are compared as they are.

        With a collation, one row's spelling would represent all equal ones: for a group of rows the
        engine returns any of them. The columns that had a collation are recorded.

        Raises
        ------
        DataError
            DP-DATA-014 for a view, or a computed column.
        """
        _refuse_computed(given.declared, relation.split(".", 1)[0], ask)
        names = {str(name) for name, *_ in ask(f"DESCRIBE {relation}")}
        stored = [name for name in stored_columns(given.declared) if name in names]
        given.collations = engine_collations(stored, partial(_binds, relation, ask))
        plain = (
            f"{quoting.identifier(name)} COLLATE {EXACT[1]} AS {quoting.identifier(name)}"
            for name in given.collations
        )
        replaced = ", ".join(plain)
        return f"(SELECT * REPLACE ({replaced}) FROM {relation})" if replaced else relation

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns of a table, by the engine's types."""
        try:
            names = tables_of(file)
            table_name = choose_table(table, names)
            if table_name is None:
                return Description(several=tuple(names) if table is None else ())
            columns = [(name, propose_type(kind)) for name, kind in columns_of(file, table_name)]
            collations = collations_in(file, table_name, [name for name, _ in columns])
        except OSError:
            return Description()
        return Description(columns, {"table": table_name}, collations=collations)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all rows of a table."""
        table_name = self.describe(file, table).source.get("table")
        if table_name is None:
            raise OSError("no columns")
        with _read_only_connection(file) as link:
            return link.sql(f"FROM {_table_identifier(str(table_name))}").to_arrow_table()


def propose_type(kind: str) -> str:
    """Return the proposed type for a type of the engine, or the reason why there is none."""
    # The text after the first bracket may hold names and values, such as those of an ENUM.
    base = "list" if kind.endswith("]") else kind.partition("(")[0].strip()
    return PROPOSED_TYPES.get(base) or f"{base.lower()} columns can't be used"


def _refuse_computed(declared: Declared, database: str, ask: RunMetadataQuery) -> None:
    """Raise DP-DATA-014 unless the table of a DuckDB file stores the values that it returns.

    A view may compute a row from other rows, or return different rows each time it is read.
    """
    name = "" if declared.table.source is None else declared.table.source.table or ""
    *schema, table = name.split(".")
    where = (
        f"database_name = {quoting.text(database)} "
        f"AND lower(schema_name) = lower({quoting.text('.'.join(schema) or 'main')})"
    )
    # The engine finds names in any case.
    same = f"{where} AND lower({{}}) = lower({quoting.text(table)})"
    views = ask(f"SELECT 1 FROM duckdb_views() WHERE {same.format('view_name')}")
    computed = ask(
        "SELECT column_name FROM duckdb_columns() "
        f"WHERE {same.format('table_name')} AND generation_expression IS NOT NULL"
    )
    names = {column for (column,) in computed} & set(stored_columns(declared))
    if views or names:
        raise DataError("DP-DATA-014", table=declared.table.name)


def _binds(relation: str, ask: RunMetadataQuery, expression: str) -> bool:
    """Return whether the engine can evaluate an expression over a relation; reads no row."""
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
        with reraise_handler_errors(), duckdb.connect(config=CONNECTION_OPTIONS) as link:
            path = quoting.text(str(file.absolute()))
            link.execute(f"ATTACH {path} AS {ATTACHED_NAME} (READ_ONLY, TYPE duckdb)")
            yield link
    except duckdb.Error:
        raise OSError("not a DuckDB file, or can't be opened") from None


def _table_identifier(table: str) -> str:
    """Return the quoted name of a table in the attached database."""
    return ".".join(quoting.identifier(part) for part in (ATTACHED_NAME, *table.split(".")))


def tables_of(file: Path) -> list[str]:
    """Return the names of the tables that a file stores; raise OSError if it can't be opened."""
    with _read_only_connection(file) as link:
        return [str(name) for (name,) in link.execute(TABLE_NAMES_SQL).fetchall()]


def columns_of(file: Path, table: str) -> list[tuple[str, str]]:
    """Return the columns of a table with the engine's types; raise OSError as `tables_of`."""
    with _read_only_connection(file) as link:
        rows = link.execute(f"DESCRIBE {_table_identifier(table)}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]


def collations_in(file: Path, table: str, names: Sequence[str]) -> dict[str, str]:
    """Return the comparisons of columns of a table; raise OSError if it can't be read."""
    with _read_only_connection(file) as link:

        def binds(expression: str) -> bool:
            """Return whether the engine accepts this expression on the table."""
            try:
                link.execute(f"SELECT {expression} FROM {_table_identifier(table)} LIMIT 0")
            except duckdb.BinderException:
                return False
            return True

        return engine_collations(names, binds)


READER = DuckDBReader()
