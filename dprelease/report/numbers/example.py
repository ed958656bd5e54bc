"""Explain with one cell of the release how to read a margin of error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dprelease.documents.metadata import Role, TableMetadata
from dprelease.report.accuracy.quality import ColumnQuality
from dprelease.report.numbers.cells import TableCells
from dprelease.report.numbers.number_texts import NumberTexts
from dprelease.report.numbers.numbers_section import TableValues
from dprelease.report.pictures import IntervalPicture, interval_picture
from dprelease.report.section_context import Context
from dprelease.report.words import Names, Words, printable_text


@dataclass(frozen=True)
class Example:
    """One cell explained in sentences, and its picture; empty if no cell has a margin."""

    sentences: list[Markup]
    picture: IntervalPicture | None = None


@dataclass(frozen=True)
class _ExampleCell:
    """One cell of a table, with its value, its margin and the ends of its interval."""

    one: ColumnQuality
    keys: dict[str, Any]
    value: float
    margin: float
    ends: tuple[float, float]


def example_of(context: Context, read: TableValues) -> Example:
    """Return the middle cell of the first column with margins in the tables that a page shows."""
    facts, words, names = context.facts, context.words, context.names
    cell = next(_example_cells(context, read), None)
    if cell is None:
        return Example([words.say("margin.none")])
    column, table = cell.one.column, cell.one.table
    decimals = column.decimals

    def number(value: float) -> str:
        """Return a number as text, with the decimals of the column."""
        return words.number(value, decimals)

    unit = NumberTexts(context, cell.one).unit
    says = {
        "value": Markup("<strong>{}</strong>").format(number(cell.value)),
        "unit": Markup(" {}").format(unit) if unit else "",
        "margin": Markup("<strong>{}</strong>").format(number(cell.margin)),
    }
    low, high = (Markup("<strong>{}</strong>").format(number(end)) for end in cell.ends)
    even = [number(cell.value - cell.margin), number(cell.value + cell.margin)]
    is_even = even == [number(end) for end in cell.ends]
    value = words.say(
        "margin.value" if is_even else "margin.value.range", **says, low=low, high=high
    )
    where = _cell_position_text(table, cell, words, names)
    uneven = "margin.uneven.whole" if facts.is_integer_table(table) else "margin.uneven"
    sentences = [
        Markup("{} {}: {}.").format(where, names.column(column), value),
        *([] if is_even else [words.say(uneven)]),
        words.say(
            f"margin.range.{facts.limits_before_noise(table, column)}",
            low=low,
            high=high,
            confidence=words.percent(cell.one.confidence),
        ),
    ]
    sentences += [words.say("margin.zero"), words.say("margin.only")]
    title = names.plain(column.label, column.name)
    axis = {"column": title, "unit": printable_text(column.unit)}
    name = words.plain("margin.axis.unit" if unit else "margin.axis", **axis)
    return Example(sentences, interval_picture(words, name, cell.value, cell.ends, number))


def _cell_position_text(
    table: TableMetadata, cell: _ExampleCell, words: Words, names: Names
) -> Markup:
    """Return the keys of a cell and the title of its table as text."""
    title = names.table(table)
    if not cell.keys:
        return words.say("margin.cell.total", table=title)
    parts = [
        Markup("{} = {}").format(names.column(key), names.value(key, cell.keys[key.name]))
        for key in table.keys
    ]
    return words.say("margin.cell", table=title, cell=Markup(", ").join(parts))


def _example_cells(context: Context, read: TableValues) -> Iterator[_ExampleCell]:
    """Yield the middle cell of columns with margins, good examples first."""
    places = [
        (cells, place)
        for cells in read.cells.values()
        for place in cells.numeric
        if context.facts.query_of(cells.table) is not None
    ]
    for cells, place in sorted(places, key=lambda one: _example_order(one[0].columns[one[1]])):
        yield from _middle_cell(cells, place, context.most)


def _example_order(one: ColumnQuality) -> tuple[bool, bool]:
    """Return the order of columns as examples: published margins first, then identified cells."""
    return one.table.companion_of(one.column.name, Role.MARGIN) is None, not one.table.keys


def _middle_cell(cells: TableCells, place: int, most: int) -> Iterator[_ExampleCell]:
    """Yield the middle cell among the first cells of a column that have a margin, if there is one.

    Cells whose value is larger than their margin are preferred.
    """
    known = [
        (number.number, number.margin, row)
        for row in cells.rows[:most]
        if (number := row.numbers[place]).number is not None and number.margin
    ]
    sure = [one for one in known if abs(one[0]) > one[1]] or known
    if not sure:
        return
    value, margin, row = sorted(sure, key=lambda one: one[0])[len(sure) // 2]
    keys = dict(zip((key.name for key in cells.table.keys), row.keys, strict=True))
    number = row.numbers[place]
    ends = (
        value - margin if number.low is None else number.low,
        value + margin if number.high is None else number.high,
    )
    yield _ExampleCell(cells.columns[place], keys, value, margin, ends)
