"""Delta Lake tables, as a schema declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dprelease.schema.source_types.parquet_type import SOURCE_TYPE as PARQUET
from dprelease.schema.source_types.source_type import EqualityRule, SourceType


class Delta(SourceType):
    """One version of a Delta Lake table in a local folder, whose rows are in Parquet files."""

    name = "delta"
    label = "a Delta Lake table"
    options = ("version",)
    version_key = "version"
    comparisons: ClassVar[Mapping[str, EqualityRule]] = PARQUET.comparisons

    def table_folder(self, path: str) -> str:
        """Return the path itself, which is that of the folder with `_delta_log`."""
        return path


SOURCE_TYPE = Delta()
