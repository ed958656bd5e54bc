"""CSV files, as a schema declares them."""

from __future__ import annotations

from dprelease.schema.source_types.equality import BY_CHARACTERS
from dprelease.schema.source_types.source_type import TEXT_OPTIONS, TIME_OPTIONS, SourceType


class Csv(SourceType):
    """CSV files, with a header."""

    name = "csv"
    label = "CSV"
    suffixes = (".csv", ".tsv")
    options = ("delimiter", "quote", "nulls", *TEXT_OPTIONS, *TIME_OPTIONS)
    is_read_from_stores = True
    is_read_by_spark = True
    has_texts_for_booleans = True
    comparisons = BY_CHARACTERS


SOURCE_TYPE = Csv()
