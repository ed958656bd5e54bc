"""A catalogue of one Iceberg table in a folder, with which pyiceberg writes tables for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import CommitTableResponse, MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

NAME = ("tests", "t")


class FolderCatalogue(NoopCatalog, MetastoreCatalog):
    """Holds the path of the current metadata file in memory, as a server would."""

    def __init__(self, folder: Path) -> None:
        super().__init__("tests", **{"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"})
        self.folder, self.current = folder, ""

    def create(
        self, schema: Schema | pa.Schema, by: tuple[str, ...] = (), **properties: Any
    ) -> Table:
        staged = self._create_staged_table(NAME, schema, str(self.folder), properties=properties)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        self.current = staged.metadata_location
        table = self.load_table()
        with table.update_spec() as spec:
            for name in by:
                spec.add_identity(name)
        return table

    def load_table(self, identifier: Any = NAME) -> Table:
        io = self._load_file_io(location=self.current)
        metadata = FromInputFile.table_metadata(io.new_input(self.current))
        return Table(NAME, metadata, self.current, io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        staged = self._update_and_stage_table(self.load_table(), NAME, requirements, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        self.current = staged.metadata_location
        return CommitTableResponse(metadata=staged.metadata, metadata_location=self.current)
