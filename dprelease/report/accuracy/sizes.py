"""Count margins and quality classes by size of the number, for the section on quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dprelease.documents.metadata import ROWS_UNIT
from dprelease.query.quality import BLANKS, CODES, SIGNS
from dprelease.report.accuracy.quality import (
    CLASSES,
    CellCounts,
    ColumnQuality,
    class_bounds,
)
from dprelease.report.localization import Words
from dprelease.report.pictures import PageTable, Share, shares_of
from dprelease.report.section_context import Context

RATED = tuple(code for code in CODES if code not in BLANKS)
"""Quality codes of values, from the best to the worst."""


@dataclass(frozen=True)
class SizeTable:
    """Margins and quality classes by size of the number, for all columns of a unit.

    `shares`: for each row, the parts of a stacked bar; empty without quality columns.
    """

    table: PageTable
    shares: list[list[Share]]


def size_tables(
    context: Context, columns: Sequence[ColumnQuality]
) -> tuple[list[SizeTable], Markup]:
    """Return a table of margins and quality classes by size of the number for each unit.

    The second result is a sentence with the units that are left out of a page that would be too
    large, or empty.
    """
    by_unit: dict[str, list[ColumnQuality]] = {}
    for one in columns:
        unit = ROWS_UNIT if context.is_count(one.column.unit) else one.column.unit
        by_unit.setdefault(unit, []).append(one)
    tables = [(unit, _size_table(context, unit, group)) for unit, group in by_unit.items()]
    filled = [(unit, one) for unit, one in tables if one.table.rows]
    left = [_title(context, unit) for unit, _ in filled[context.most :]]
    units = Markup(", ").join(left)
    note = context.words.say("quality.size.left", units=units) if left else units
    return [one for _, one in filled[: context.most]], note


def _title(context: Context, unit: str) -> Markup:
    """Return the title of the table of a unit."""
    if unit == ROWS_UNIT:
        return context.words.say("size.title.counts")
    if not unit:
        return context.words.say("size.title.none")
    return context.words.say("size.title", unit=context.unit_name(unit))


def _size_table(context: Context, unit: str, group: Sequence[ColumnQuality]) -> SizeTable:
    """Return the margins of the columns of a unit by size of the number."""
    words, rows, shares = context.words, [], []
    counts = [one.counted for one in group]
    has_codes = any(one.codes for one in counts)
    for size in range(CLASSES):
        cells = sum(int(one.by_class[size]) for one in counts)
        sizes, margins = (
            sum(float(of[size]) for of in sums)
            for sums in ([one.sizes for one in counts], [one.margins for one in counts])
        )
        if not cells:
            continue
        share = words.percent(margins / sizes if sizes else None)
        rows.append(context.cells(_class_text(words, size), words.number(cells), share))
        letters = [(SIGNS.get(code, code), _cells_of_code(counts, code, size)) for code in RATED]
        shares.append(shares_of(letters, words) if has_codes else [])
    heads = [words.say(f"size.head.{name}") for name in ("size", "cells", "margin")]
    title = _title(context, unit)
    return SizeTable(PageTable(title, heads, rows), shares)


def _cells_of_code(counts: Sequence[CellCounts], code: str, size: int) -> int:
    """Return the number of cells with a quality code in a size class."""
    return sum(int(one.codes[code][size]) for one in counts if code in one.codes)


def _class_text(words: Words, size: int) -> str:
    low, high = class_bounds(size)
    ends = {"low": words.number(low), "high": words.number(high)}
    return words.plain("size.row" if low else "size.row.first", **ends)
