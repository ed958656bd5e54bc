"""Tables of Spark's catalogue, as a schema declares them."""

from __future__ import annotations

from dprelease.schema.source_types.equality import BY_CHARACTERS
from dprelease.schema.source_types.source_type import SourceType


class Catalogue(SourceType):
    """A table of Spark's catalogue.

    Columns with collations, or padded with blanks, are not read at all (DP-SPARK-002).
    """

    name = "catalogue"
    label = "a table of Spark's catalogue"
    has_tables = True
    is_read_by_spark = True
    comparisons = BY_CHARACTERS


SOURCE_TYPE = Catalogue()
