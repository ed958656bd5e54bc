"""Read Iceberg tables: the Parquet files of one snapshot, which its manifests list."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dprelease.exact.lakes import iceberg_metadata
from dprelease.exact.lakes.lake_version import LakeVersion
from dprelease.exact.sources.lake_reader import LakeReader
from dprelease.exact.sources.source_reader import Description
from dprelease.schema.source_types.iceberg_type import SOURCE_TYPE

CATALOGUE_NOTE = (
    "The snapshot is the current one of the newest metadata file. If the table has a catalogue, "
    "check that the catalogue names the same snapshot."
)


class IcebergReader(LakeReader):
    """Reads Iceberg tables."""

    source_type = SOURCE_TYPE

    def version_of(
        self, path: Path, version: int | None, *, can_guess: bool = False
    ) -> LakeVersion:
        """Return a snapshot of the table at a path; the current one if `version` is None."""
        return iceberg_metadata.read_version(path, version, can_guess=can_guess)

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns of the current snapshot, and its id."""
        return replace(super().describe(file, table), note=CATALOGUE_NOTE)


READER = IcebergReader()
