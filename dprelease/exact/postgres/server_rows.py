"""Read the declared columns of a server's table as Arrow batches, on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.postgres.server_link import (
    SERVER_TABLE,
    Link,
    ServerError,
    Servers,
    address_of,
)
from dprelease.exact.postgres.server_types import (
    ColumnQuery,
    StoredColumn,
    column_request,
    select_sql,
)
from dprelease.exact.reading.arrow import to_readable_type
from dprelease.exact.reading.cell_rows import wanted_columns
from dprelease.exact.reading.sources import source_fields, unreadable_error
from dprelease.query import quoting
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    import pyarrow as pa

STORED_TABLE_KINDS = ("r", "p")
"""Kinds of relations that store rows themselves or in partitions. Views, materialized views,
foreign tables and sequences are not included."""

RELATION_SQL = """
SELECT c.oid::pg_catalog.int8, c.relkind::pg_catalog.text,
  pg_catalog.row_security_active(c.oid)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = {schema} AND c.relname = {table}
"""

COLUMNS_SQL = """
WITH RECURSIVE known(place, name, computed, kind, ordering) AS (
  SELECT a.attnum, a.attname, a.attgenerated <> '', a.atttypid, a.attcollation
  FROM pg_catalog.pg_attribute AS a
  WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT k.place, k.name, k.computed, t.typbasetype, k.ordering
  FROM known AS k JOIN pg_catalog.pg_type AS t ON t.oid = k.kind WHERE t.typtype = 'd'
)
SELECT k.name::pg_catalog.text, t.typname::pg_catalog.text, t.typtype::pg_catalog.text,
  coalesce(e.extname, n.nspname)::pg_catalog.text, k.computed,
  coalesce(o.collisdeterministic, k.ordering = 0)
FROM known AS k
JOIN pg_catalog.pg_type AS t ON t.oid = k.kind AND t.typtype <> 'd'
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_depend AS d ON d.objid = t.oid AND d.deptype = 'e'
  AND d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass
LEFT JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
LEFT JOIN pg_catalog.pg_collation AS o ON o.oid = k.ordering
ORDER BY k.place
"""
"""SQL: the columns of a table, with the types of their domains."""

PARTS_SQL = """
WITH RECURSIVE parts(oid) AS (
  SELECT {oid}::pg_catalog.oid
  UNION
  SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN parts AS p ON p.oid = i.inhparent
)
SELECT DISTINCT c.relkind::pg_catalog.text
FROM parts AS p JOIN pg_catalog.pg_class AS c ON c.oid = p.oid
"""
"""SQL: the kinds of all relations whose rows a table includes: itself, partitions and children."""


@dataclass(frozen=True)
class ServerRows:
    """The declared columns that a server's table has, and its rows, which are read on request."""

    schema: pa.Schema
    link: Link
    sql: str
    columns: Sequence[ColumnQuery]
    collations: dict[str, str]

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows; the server is asked when the first batch is requested."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the statement with the declared types, in batches."""
        import pyarrow as pa

        for batch in self.link.batches(self.sql):
            if not self.columns:
                yield pa.RecordBatch.from_arrays([pa.nulls(len(batch))], schema=self.schema)
                continue
            arrays = [
                _cast_to_declared(array, field)
                for array, field in zip(batch.columns, self.schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _cast_to_declared(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column in the Arrow type of a field: only the width of numbers or texts changes."""
    import pyarrow as pa

    if pa.types.is_decimal(field.type):
        # Every query that uses the column is refused, so its values are not needed.
        return pa.nulls(len(array), field.type)
    whole = to_readable_type(
        array.cast(field.type, safe=False) if array.type != field.type else array
    )
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def server_rows(declared: Declared, servers: Servers) -> ServerRows:
    """Return the declared columns of a table of a server, without reading its rows.

    Raises DataError: DP-DATA-001 if there is no such table, DP-DATA-003 for columns that differ
    only in case, DP-DATA-004 for a type that can't be read, DP-DATA-014 if it is not a stored
    table, DP-DATA-024 for a server or a table that can't be read, DP-DATA-025 without the driver.
    """
    import pyarrow as pa

    link = servers.link(declared)
    found: CatalogueTable | None = None
    try:
        found = describe_table(link, declared)
    except ServerError:
        found = None
    if found is None:
        raise DataError("DP-DATA-001", **source_fields(declared), format=SERVER_TABLE)
    stored = {column.name: column for column in found.columns}
    wanted = wanted_columns(declared, list(stored))
    if any(stored[name].is_computed for name in wanted):
        raise DataError("DP-DATA-014", table=declared.table.name)
    columns = [column_request(name, stored[name], declared.table.columns[name]) for name in wanted]
    fields = [(name, column.arrow) for name, column in zip(wanted, columns, strict=True)]
    sql = select_sql(columns, *address_of(declared))
    # A batch without columns has no length, and the rows must be counted.
    schema = pa.schema(fields or [("dp_row", pa.null())])
    collations = {name: stored[name].comparison for name in wanted if stored[name].comparison}
    return ServerRows(schema, link, sql, columns, collations)


@dataclass(frozen=True, slots=True)
class CatalogueTable:
    """A table in the catalogue: its object id and its columns."""

    oid: int
    columns: list[StoredColumn]


def describe_table(link: Link, declared: Declared) -> CatalogueTable | None:
    """Return the catalogue's description of a table; None if it does not exist.

    Raises DataError: DP-DATA-014 or 024 for a table that exists but can't be read.
    """
    schema, table = map(quoting.text, address_of(declared))
    relations = link.ask(RELATION_SQL.format(schema=schema, table=table))
    if len(relations) != 1:
        return None
    ((oid, kind, filtered),) = relations
    kinds = {kind, *(one for (one,) in link.ask(PARTS_SQL.format(oid=oid)))}
    if not kinds <= set(STORED_TABLE_KINDS):
        raise DataError("DP-DATA-014", table=declared.table.name)
    if filtered:
        raise unreadable_error(
            declared,
            "policies limit which of its rows this role may see",
            "read it as a role to which row security does not apply",
        )
    return CatalogueTable(
        oid, [StoredColumn(*row) for row in link.ask(COLUMNS_SQL.format(oid=oid))]
    )
