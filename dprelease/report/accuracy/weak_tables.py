"""Warn of tables of which most numbers are unreliable or empty."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from dprelease.query.quality import BLANKS, TO_AVOID
from dprelease.report.accuracy.quality import ColumnQuality
from dprelease.report.section_context import Context

MOST_WEAK = 0.5
"""Share of unreliable or empty numbers of a table above which the report warns of the table."""


def weak_table_sentences(context: Context, columns: Sequence[ColumnQuality]) -> list[Markup]:
    """Return a warning of tables with too many unreliable numbers, if any, and what to change."""
    weak: dict[str, int] = {}
    cells: dict[str, int] = {}
    for one in columns:
        if one.quality_column is not None:
            codes, name = one.counted.codes, one.table.name
            cells[name] = cells.get(name, 0) + sum(int(each.sum()) for each in codes.values())
            unreliable = [codes[code] for code in (*TO_AVOID, *BLANKS) if code in codes]
            weak[name] = weak.get(name, 0) + sum(int(each.sum()) for each in unreliable)
    names = [name.rpartition("/")[2] for name in weak if weak[name] > MOST_WEAK * cells[name]]
    if not names:
        return []
    tables = context.titles_of(list(dict.fromkeys(names)))
    return [context.words.say("quality.weak", tables=tables), context.words.say("quality.weak.fix")]
