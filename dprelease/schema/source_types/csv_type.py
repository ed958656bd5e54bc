"""CSV files, as a schema declares them."""

from __future__ import annotations

from dprelease.schema.source_types.source_type import (
    BY_CHARACTERS,
    LINE_OPTIONS,
    MAPPING_OPTIONS,
    TEXT_OPTIONS,
    TIME_OPTIONS,
    SourceType,
)


class Csv(SourceType):
    """CSV files: text with a delimiter between the fields of a line."""

    name = "csv"
    label = "CSV"
    suffixes = (".csv", ".tsv", ".tab", ".psv", ".txt", ".dat")
    options = (
        "delimiter", "quote", "nulls", "header",
        *MAPPING_OPTIONS, *LINE_OPTIONS, *TEXT_OPTIONS, *TIME_OPTIONS,
    )  # fmt: skip
    is_read_from_stores = True
    is_read_by_spark = True
    has_texts_for_booleans = True
    comparisons = BY_CHARACTERS


SOURCE_TYPE = Csv()
