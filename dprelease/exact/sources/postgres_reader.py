"""Open tables of PostgreSQL servers; `exact.postgres` reads them, and describes them for `init`."""

from __future__ import annotations

from dprelease.errors import DataError
from dprelease.exact.postgres.server_rows import server_rows
from dprelease.exact.reading.sources import OpenedSource
from dprelease.exact.sources.source_reader import Opening, SourceReader
from dprelease.schema.load import Declared
from dprelease.schema.source_types.source import Source


class PostgresReader(SourceReader):
    """Reads tables of servers through the connections of a run."""

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the rows of a table, which arrive as Arrow; there are no files."""
        if opening.servers is None:
            raise DataError("DP-DATA-008", table=declared.table.name)
        rows = server_rows(declared, opening.servers)
        return OpenedSource(rows=rows, collations=rows.collations)


READER = PostgresReader()
