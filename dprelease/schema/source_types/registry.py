"""The list of source types: their names, and the modules that declare them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from dprelease.schema.field_types import refuse
from dprelease.schema.source_types.source_type import SourceType
from dprelease.schema.source_types.without_format import WITHOUT_FORMAT

SOURCE_TYPES = {
    "parquet": "dprelease.schema.source_types.parquet_type",
    "csv": "dprelease.schema.source_types.csv_type",
    "fixed_width": "dprelease.schema.source_types.fixed_width_type",
    "json_lines": "dprelease.schema.source_types.json_lines_type",
    "duckdb": "dprelease.schema.source_types.duckdb_type",
    "sqlite": "dprelease.schema.source_types.sqlite_type",
    "excel": "dprelease.schema.source_types.excel_type",
    "stat_package": "dprelease.schema.source_types.stat_package_type",
    "postgres": "dprelease.schema.source_types.postgres_type",
    "delta": "dprelease.schema.source_types.delta_type",
    "iceberg": "dprelease.schema.source_types.iceberg_type",
}
"""The module that defines `SOURCE_TYPE` for each name that `format` may declare.

Modules are named by strings, so that a schema can be checked without the reader of its source.
"""


@cache
def source_type(name: str) -> SourceType:
    """Return the source type of a listed name."""
    if name in WITHOUT_FORMAT:
        return WITHOUT_FORMAT[name]
    found: SourceType = importlib.import_module(SOURCE_TYPES[name]).SOURCE_TYPE
    return found


def declarable_types() -> Iterator[SourceType]:
    """Yield all types that `format` may declare, in the order of the list."""
    return map(source_type, SOURCE_TYPES)


def type_of_suffix(suffix: str) -> SourceType | None:
    """Return the source type whose file names have this ending; None if there is none."""
    return next((one for one in declarable_types() if suffix in one.suffixes), None)


def type_of_address(path: str) -> SourceType | None:
    """Return the source type of a server's address; None for any other path."""
    return next((one for one in declarable_types() if path.startswith(one.schemes)), None)


def _known_format(value: object) -> object:
    """Return the name of a source type; refuse an unknown name."""
    if not (isinstance(value, str) and value in SOURCE_TYPES):
        *names, last = map(repr, SOURCE_TYPES)
        refuse("DP-DECL-003", problem=f"it must be {', '.join(names)} or {last}")
    return value


Format = Annotated[
    str, BeforeValidator(_known_format), WithJsonSchema({"enum": [*SOURCE_TYPES], "type": "string"})
]
"""The name of a listed source type."""
