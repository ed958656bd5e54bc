"""Warn of numbers that may mislead: impossible values, empty cells, weak tables, biased numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from markupsafe import Markup

from dprelease.mechanisms.base import Mechanism
from dprelease.query.quality import BLANKS, TO_AVOID
from dprelease.report.accuracy.quality import ColumnQuality
from dprelease.report.localization import Words
from dprelease.report.safe_labels import Names
from dprelease.report.section_context import Context

# Compute the bias of small numbers if negative values are published as 0.

SPREADS = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""True values for which the bias is shown, in standard deviations of the noise."""

PIECES = 400
"""Number of intervals in which the probability below 0 is summed."""

MOST_DEVIATIONS = 40.0
"""Distance from 0, in standard deviations, at which the sum of probabilities ends."""


def bias_at_zero(mechanism: Mechanism) -> Sequence[tuple[int, float]]:
    """Return (true value, mean error) in noise steps, if negative values are published as 0.

    E max(t + K, 0) - t - E K is the sum of P(K <= -t - j) over j >= 1. The result is empty if the
    noise has no standard deviation.
    """
    spread = mechanism.standard_deviation
    if not math.isfinite(spread):
        return ()
    places = dict.fromkeys(round(float(part) * spread) for part in SPREADS)
    return [(true, _tail_sum(mechanism, true, spread)) for true in places]


def _tail_sum(mechanism: Mechanism, true: int, spread: float) -> float:
    """Return the sum of P(K <= -t - j) over j >= 1; for wide noise, over several steps at once."""
    # An illustration for readers, and no bound: the trapezoid rule in floats is enough.
    piece = max(1, math.ceil(MOST_DEVIATIONS * spread / PIECES))
    added, j = 0.0, 1
    while j <= MOST_DEVIATIONS * spread + 1:
        ends = (float(mechanism.tail(-true - k, False).mid()) for k in (j, j + piece - 1))
        part = piece * sum(ends) / 2.0
        added += part
        if part <= 1e-9 * added:
            break
        j += piece
    return added


# Warn of tables of which most numbers are unreliable or empty.

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
