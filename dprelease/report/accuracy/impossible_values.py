"""Write sentences on cells with impossible values, such as negative counts, and on empty cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from dprelease.query.quality import BLANKS
from dprelease.report.accuracy.quality import ColumnQuality
from dprelease.report.localization import Words
from dprelease.report.safe_labels import Names
from dprelease.report.section_context import Context


def impossible_value_sentences(context: Context, columns: Sequence[ColumnQuality]) -> list[Markup]:
    """Return sentences on how many cells have impossible values, are empty or are adjusted."""
    words = context.words
    negative = sum(one.counted.negative for one in columns)
    cells = sum(one.counted.cells - one.counted.empty for one in columns)
    sentences = [words.say("quality.impossible.none")]
    if negative:
        part = words.percent(negative / cells)
        cells_words = words.number(cells)
        sentences = [words.many("quality.impossible.some", negative, part=part, cells=cells_words)]
    sentences += _empty_cell_texts(words, context.names, columns)
    whole = [one for one in columns if one.adjusted_share is not None]
    adjusted = sum(one.counted.flagged for one in whole)
    if adjusted:
        part = words.percent(adjusted / sum(one.counted.cells for one in whole))
        sentences.append(words.many("quality.adjusted", adjusted, part=part))
    return sentences


def _empty_cell_texts(
    words: Words, names: Names, columns: Sequence[ColumnQuality]
) -> Iterator[Markup]:
    """Yield sentences on how many cells have no value, by the label of the reason."""
    reasons: dict[Markup, int] = {}
    for one in columns:
        for code, counts in one.counted.codes.items():
            if code in BLANKS and one.quality_column is not None:
                label = names.value(one.quality_column, code)
                reasons[label] = reasons.get(label, 0) + int(counts.sum())
    for reason, empty in reasons.items():
        yield words.many("quality.empty", empty, reason=reason)
