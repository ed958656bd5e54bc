"""Files of SPSS, Stata and SAS, as a schema declares them."""

from __future__ import annotations

from dprelease.schema.source_types.source_type import (
    BY_CHARACTERS,
    MAPPING_OPTIONS,
    TIME_OPTIONS,
    SourceType,
)


class StatPackage(SourceType):
    """A file of SPSS, Stata or SAS, whose numbers are codes with labels."""

    name = "stat_package"
    label = "a file of SPSS, Stata or SAS"
    suffixes = (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
    # Old files of these programs don't say which encoding their texts have.
    options = ("encoding", "nulls", *MAPPING_OPTIONS, *TIME_OPTIONS)
    has_texts_for_booleans = True
    comparisons = BY_CHARACTERS


SOURCE_TYPE = StatPackage()
