"""Read Delta Lake tables: the Parquet files of one version, which their log lists."""

from __future__ import annotations

from pathlib import Path

from dprelease.exact.lakes import delta_log
from dprelease.exact.lakes.lake_version import LakeVersion
from dprelease.exact.sources.lake_reader import LakeReader
from dprelease.schema.source_types.delta_type import SOURCE_TYPE


class DeltaReader(LakeReader):
    """Reads Delta Lake tables."""

    source_type = SOURCE_TYPE

    def version_of(
        self, path: Path, version: int | None, *, can_guess: bool = False
    ) -> LakeVersion:
        """Return a version of the table in a folder; the latest one if `version` is None."""
        return delta_log.read_version(path, version)


READER = DeltaReader()
