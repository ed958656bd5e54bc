"""What stands outside of an aggregate's own file: its word, and its SQL."""

from __future__ import annotations

from pathlib import Path

from dprelease.query import aggregates
from dprelease.schema.aggregate_keywords import WORDS, AggregateKeyword, OfColumn, Origin
from dprelease.schema.field_types import Exact


class AtLeast(OfColumn):
    """The least value that counts, and of which column."""

    value: Exact


def register() -> None:
    """Add both, before the model of a column is made of the words."""
    WORDS["absolute_sum"] = AggregateKeyword(Origin.NOISED)
    WORDS["at_least"] = AggregateKeyword(Origin.NOISED, AtLeast)
    aggregates.__path__.append(str(Path(__file__).parent / "aggregates"))

    from dprelease.query.aggregates.absolute_sum import AbsoluteSum
    from dprelease.query.aggregates.count_at_least import CountAtLeast

    from dprelease.statements.values.row_values import WRITERS, Row

    def absolute(row: Row, total: AbsoluteSum) -> str:
        return f"abs({row.steps(total)})"

    def at_least(row: Row, count: CountAtLeast) -> str:
        return f"CASE WHEN {row.steps(count)} >= {count.least} THEN 1::BIGINT END"

    WRITERS[AbsoluteSum] = absolute
    WRITERS[CountAtLeast] = at_least
