"""Draw many columns of one unit together, such as deciles: as bars or as a heat table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from dprelease.report.numbers.cells import TableCells
from dprelease.report.numbers.charts import MOST_BARS, Bar, Panel, heat_cell
from dprelease.report.numbers.marks import Scale, mark_of
from dprelease.report.numbers.number_texts import NumberTexts
from dprelease.report.section_context import Context

FEW = 4
"""Maximum number of columns of one unit that each have a picture."""


def series_places(cells: TableCells) -> list[int]:
    """Return the positions of columns that are drawn together: more than `FEW` of one unit."""
    if len(cells.table.keys) > 1:
        return []
    units = Counter(cells.columns[place].column.unit for place in cells.numeric)
    return [place for place in cells.numeric if units[cells.columns[place].column.unit] > FEW]


def series_panels(context: Context, cells: TableCells) -> Iterator[Panel]:
    """Yield a picture for each unit of many columns: bars without keys, a heat table with one."""
    by_unit: dict[str, list[int]] = {}
    for place in series_places(cells) if cells.rows else ():
        by_unit.setdefault(cells.columns[place].column.unit, []).append(place)
    for unit, places in by_unit.items():
        title = context.unit_name(unit) if unit else context.names.table(cells.table)
        draw = _heat_of_columns if cells.table.keys else _bars_of_columns
        yield draw(context, cells, places[:MOST_BARS], title)


def _bars_of_columns(
    context: Context, cells: TableCells, places: Sequence[int], title: Markup
) -> Panel:
    """Return a bar chart of several columns of a table with one row."""
    numbers = [cells.rows[0].numbers[place] for place in places]
    scale = Scale.around(numbers)
    bars = [
        Bar(
            context.names.column(cells.columns[place].column),
            NumberTexts(context, cells.columns[place]).of(number),
            mark_of(number, scale),
        )
        for place, number in zip(places, numbers, strict=True)
    ]
    return Panel("bars", title, Markup(""), bars=bars)


def _heat_of_columns(
    context: Context, cells: TableCells, places: Sequence[int], title: Markup
) -> Panel:
    """Return a heat table of several columns of a table with one key: its first rows."""
    (key,), words = cells.table.keys, context.words
    texts = [NumberTexts(context, cells.columns[place]) for place in places]
    heads = [context.names.column(cells.columns[place].column) for place in places]
    drawn = cells.rows[: min(context.most, MOST_BARS)]
    largest = max(row.numbers[place].number or 0.0 for row in drawn for place in places)
    rows = [
        (
            context.names.value(key, row.keys[0]),
            [
                heat_cell(text, row.numbers[place], largest)
                for text, place in zip(texts, places, strict=True)
            ],
        )
        for row in drawn
    ]
    left = cells.size - len(rows)
    note = words.many("numbers.heat.first", left) if left else words.say("numbers.heat")
    return Panel("heat", title, note, heads=heads, rows=rows, corner=context.names.column(key))
