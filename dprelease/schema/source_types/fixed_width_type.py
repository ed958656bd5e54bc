"""Text files whose columns have fixed places in each line, as a schema declares them."""

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


class FixedWidth(SourceType):
    """Files with a record in each line, and the fields of a record at declared places."""

    name = "fixed_width"
    label = "text of fixed width"
    suffixes = (".fwf", ".asc")
    options = (
        *MAPPING_OPTIONS, "nulls", "skip", "comment", "until", "footer",
        *TEXT_OPTIONS, *TIME_OPTIONS,
    )  # fmt: skip
    is_read_from_stores = True
    is_read_by_spark = True
    has_texts_for_booleans = True
    comparisons = BY_CHARACTERS

    def check_options(self, options: Mapping[str, object]) -> None:
        """Refuse a declaration without the places of columns."""
        if not options["columns"]:
            problem = "it must have the places of columns, such as {person: [1, 8], age: [9, 11]}"
            refuse("DP-DECL-003", problem=problem, key="columns")


SOURCE_TYPE = FixedWidth()
