"""Warn of numbers that may mislead, and of sums of finer tables that differ from published totals.

Only published tables are used. Tables with independent noise differ by about as much as the noise
explains. A larger difference is caused by processing after the noise, or by rows that only one of
the tables counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from markupsafe import Markup

from dprelease.documents.metadata import ColumnMetadata, TableMetadata
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.query.post import PostProcessing
from dprelease.query.quality import BLANKS, TO_AVOID
from dprelease.report.accuracy.quality import ColumnQuality, to_floats
from dprelease.report.facts import Facts, ReleaseFiles
from dprelease.report.section_context import Context
from dprelease.report.words import Names, Words

MOST_PAIRS = 200
"""Maximum number of compared pairs; the report counts the omitted pairs."""

MOST_ROWS = 2_000_000
"""Maximum number of rows of a finer table that is summed."""

MOST_TOTALS = 100_000
"""Maximum number of rows of a coarser table."""

ROUNDING_ERROR = 1e-9
"""Maximum relative rounding error of a sum of floats."""

Pair = tuple[TableMetadata, TableMetadata]
Sums = Mapping[tuple[object, ...], Floats]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One column in two tables: how much the sums of the finer table differ from the totals.

    `expected`: the root mean square difference that the noise of both tables causes. It is 0 for
    consistent tables, and None if it does not follow from the noise of one vector of each table.
    `changed`: whether values were clipped or rounded after the noise, so that sums can't agree.
    """

    fine: TableMetadata
    coarse: TableMetadata
    column: ColumnMetadata
    totals: int
    differing: int
    root_mean_square: float
    largest: float
    expected: float | None
    changed: bool


def disagreements(release: ReleaseFiles, facts: Facts) -> tuple[list[Disagreement], int]:
    """Return the differences between tables, and the number of pairs that were skipped.

    Pairs are skipped if their tables are too large, or if there are too many pairs.
    """
    pairs = list(_table_pairs(release, facts))
    small = [
        (fine, coarse)
        for fine, coarse in pairs
        if (fine.rows or 0) <= MOST_ROWS and (coarse.rows or 0) <= MOST_TOTALS
    ]
    compared = small[:MOST_PAIRS]
    found = [one for pair in compared for one in _find_disagreements(release, facts, pair)]
    return found, len(pairs) - len(compared)


def agreeing_queries(found: Sequence[Disagreement]) -> list[str]:
    """Return the queries whose finer tables add up exactly to their coarser ones."""
    apart = {one.fine.query for one in found if one.differing}
    return [name for name in dict.fromkeys(one.fine.query for one in found) if name not in apart]


def _table_pairs(release: ReleaseFiles, facts: Facts) -> Iterator[Pair]:
    """Yield pairs of a finer and a coarser table of one query.

    The finer table has all keys of the coarser table and some more, and no table of the query lies
    between the two.
    """
    families: dict[tuple[str, str], list[TableMetadata]] = {}
    for table in release.metadata.tables_for_readers:
        if facts.query_of(table) is not None:
            made = table.name.rpartition("/")[0]
            families.setdefault((table.query, made), []).append(table)
    for tables in families.values():
        yield from _adjacent_pairs(tables)


def _adjacent_pairs(tables: Sequence[TableMetadata]) -> Iterator[Pair]:
    """Yield finer and coarser tables without a table of the same query in between."""
    keys = {table.name: frozenset(key.name for key in table.keys) for table in tables}
    for coarse, fine in product(tables, tables):
        low, high = keys[coarse.name], keys[fine.name]
        if low < high and not any(low < other < high for other in keys.values()):
            yield fine, coarse


def _find_disagreements(release: ReleaseFiles, facts: Facts, pair: Pair) -> Iterator[Disagreement]:
    """Yield the differences between two tables, one for each numeric column."""
    fine, coarse = pair
    there = {column.name for column in fine.values}
    columns = [
        column
        for column in coarse.values
        if column.name in there and column.is_number and facts.adds_up(coarse, column)
    ]
    if not columns:
        return
    names, keys = [one.name for one in columns], [key.name for key in coarse.keys]
    sums = _sums_by_key(release, fine, keys, names)
    totals = _sums_by_key(release, coarse, keys, names)
    nothing = np.zeros(len(names))
    # A total without finer rows, as with private keys, has parts that add up to 0.
    off = np.array([sums.get(cell, nothing) - total for cell, total in totals.items()])
    sizes = np.array(list(totals.values()))
    for place, column in enumerate(columns):
        known = np.isfinite(off[:, place]) if len(off) else np.zeros(0, bool)
        if not known.any():
            continue
        apart = np.abs(off[known, place])
        limit = ROUNDING_ERROR * np.maximum(1.0, np.abs(sizes[known, place]))
        yield Disagreement(
            fine=fine,
            coarse=coarse,
            column=column,
            totals=len(apart),
            differing=int((apart > limit).sum()),
            root_mean_square=math.sqrt(float(np.mean(apart**2))),
            largest=float(apart.max()),
            expected=_expected_difference(facts, pair, column),
            changed=not known.all() or any(_is_changed(facts, one, column) for one in pair),
        )


def _sums_by_key(
    release: ReleaseFiles, table: TableMetadata, keys: Sequence[str], names: Sequence[str]
) -> Sums:
    """Return the sums of columns over all rows with the same keys; NaN if a value is missing."""
    import pyarrow as pa

    sums: dict[tuple[object, ...], Floats] = {}
    for batch in release.batches(table, [*keys, *names]):
        numbers = {name: to_floats(batch.column(name)) for name in names}
        arrays = {key: batch.column(key) for key in keys} | {
            name: pa.array(values) for name, values in numbers.items()
        }
        totals = [(name, "sum") for name in names]
        added = pa.table(arrays).group_by(list(keys)).aggregate(totals)
        cells = zip(*(added.column(key).to_pylist() for key in keys), strict=True)
        values = np.column_stack([to_floats(added.column(f"{name}_sum")) for name in names])
        for cell, value in zip(cells if keys else [()], values, strict=True):
            sums[cell] = sums[cell] + value if cell in sums else value
    return sums


def _expected_difference(facts: Facts, pair: Pair, column: ColumnMetadata) -> float | None:
    """Return the root mean square difference that the noise alone causes; None if unknown."""
    fine, coarse = pair
    if facts.is_consistent(fine):
        return 0.0
    own = [next(one for one in table.values if one.name == column.name) for table in pair]
    mechanisms = [facts.noise_of(table, one) for table, one in zip(pair, own, strict=True)]
    steps = [facts.query_column(table, one) for table, one in zip(pair, own, strict=True)]
    if None in mechanisms or None in steps or not fine.rows or not coarse.rows:
        return None
    spreads = [
        mechanism.standard_deviation * float(output.step or 1)
        for mechanism, output in zip(mechanisms, steps, strict=True)
        if mechanism is not None and output is not None
    ]
    parts = fine.rows / coarse.rows
    expected = math.sqrt(parts * spreads[0] ** 2 + spreads[1] ** 2)
    return expected if math.isfinite(expected) else None


def _is_changed(facts: Facts, table: TableMetadata, column: ColumnMetadata) -> bool:
    """Return whether values of a column are processed after noise is added."""
    output = facts.query_column(table, column)
    return output is not None and output.post != PostProcessing()


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
