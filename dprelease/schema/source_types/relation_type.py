"""DuckDB relations, which a program passes in place of a declared path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dprelease.schema.source_types.duckdb_type import DuckDB
from dprelease.schema.source_types.equality import Rule
from dprelease.schema.source_types.source_type import SourceType

COMPARISONS = {
    words: Rule(rule.equal, f"{rule.spelled} COLLATE C")
    for words, rule in DuckDB.comparisons.items()
}


class Relation(SourceType):
    """A relation, whatever source is behind it."""

    name = "relation"
    label = "a relation"
    comparisons: ClassVar[Mapping[str, Rule]] = COMPARISONS


SOURCE_TYPE = Relation()
