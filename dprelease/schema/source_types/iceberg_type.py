"""Iceberg tables, as a schema declares them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

from dprelease.schema.source_types.parquet_type import SOURCE_TYPE as PARQUET
from dprelease.schema.source_types.source_type import EqualityRule, SourceType
from dprelease.system.lake_tables import ICEBERG_SUFFIXES


class Iceberg(SourceType):
    """One snapshot of an Iceberg table in a local folder, whose rows are in Parquet files."""

    name = "iceberg"
    label = "an Iceberg table"
    options = ("snapshot",)
    version_key = "snapshot"
    comparisons: ClassVar[Mapping[str, EqualityRule]] = PARQUET.comparisons

    def table_folder(self, path: str) -> str:
        """Return the folder above `metadata` for the path of a metadata file, or the path."""
        is_file = path.endswith(ICEBERG_SUFFIXES)
        # Metadata files lie in the folder `metadata` of their table.
        return os.path.join(os.path.dirname(path), os.pardir) if is_file else path


SOURCE_TYPE = Iceberg()
