"""JSON lines files, as a schema declares them."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.schema.field_types import refuse
from dprelease.schema.source_types.source_type import (
    BY_CHARACTERS,
    MAPPING_OPTIONS,
    TEXT_OPTIONS,
    TIME_OPTIONS,
    SourceType,
)


class JsonLines(SourceType):
    """Files with one JSON object in each line."""

    name = "json_lines"
    label = "JSON lines"
    suffixes = (".jsonl", ".ndjson")
    options = (*MAPPING_OPTIONS, *TEXT_OPTIONS, *TIME_OPTIONS)
    is_read_from_stores = True
    is_read_by_spark = True
    comparisons = BY_CHARACTERS

    def check_options(self, options: Mapping[str, object]) -> None:
        """Refuse a point as thousands separator, because it is the decimal point of JSON."""
        if options["thousands"] == ".":
            reason = "numbers in JSON always have a decimal point"
            refuse("DP-SCHEMA-014", key="thousands", reason=reason)


SOURCE_TYPE = JsonLines()
