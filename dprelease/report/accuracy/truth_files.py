"""Read the true values of a rehearsal from the files in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.metadata import Role, TableMetadata
from dprelease.documents.rehearsal_truth import truth_columns
from dprelease.tables import formats

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "truth"
"""Folder of the files with published and true values."""


@dataclass(frozen=True, slots=True)
class TruthFiles:
    """The true values in the folder of a rehearsal."""

    folder: Path

    def batches(
        self, table: TableMetadata, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """Yield batches with the true values of columns of a table.

        The result is None for tables with private keys too, because their files have other rows.
        """
        path = self.folder / FOLDER / table.file
        others = (column.name for column in table.columns if column.role != Role.KEY)
        true = truth_columns((key.name for key in table.keys), others).true
        names = [true[name] for name in columns]
        if not path.is_file():
            return None
        schema, rows = formats.PUBLISHED_FORMAT.shape(path)
        # The published rows and the true ones are compared one by one.
        if rows != table.rows or not set(names) <= set(schema.names):
            return None
        batches = formats.PUBLISHED_FORMAT.batches(path, names)
        return (batch.select(names).rename_columns(list(columns)) for batch in batches)
