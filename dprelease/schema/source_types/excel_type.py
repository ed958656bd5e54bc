"""Sheets of workbooks of Excel or OpenDocument, as a schema declares them."""

from __future__ import annotations

from dprelease.schema.source_types.source_type import (
    BY_CHARACTERS,
    MAPPING_OPTIONS,
    NOTE_OPTIONS,
    SHEET_OPTIONS,
    TIME_OPTIONS,
    SourceType,
)


class Excel(SourceType):
    """A sheet of a workbook, whose cells have their own types."""

    name = "excel"
    label = "a workbook"
    suffixes = (".xlsx", ".xlsm", ".ods")
    options = (
        "nulls", "decimal", "thousands",
        *MAPPING_OPTIONS, *NOTE_OPTIONS, *TIME_OPTIONS, *SHEET_OPTIONS,
    )  # fmt: skip
    has_texts_for_booleans = True
    comparisons = BY_CHARACTERS


SOURCE_TYPE = Excel()
