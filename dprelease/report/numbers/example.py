"""Explain with one cell of the release how to read a margin of error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from dprelease.documents.metadata import Role, TableMetadata
from dprelease.report.accuracy.quality import (
    ColumnQuality,
    column_quality,
    is_number,
    to_floats,
)
from dprelease.report.facts import Facts
from dprelease.report.localization import Words
from dprelease.report.numbers.number_texts import NumberTexts
from dprelease.report.pictures import IntervalPicture, interval_picture
from dprelease.report.safe import printable_text
from dprelease.report.safe_labels import Names
from dprelease.report.section_context import Context
from dprelease.report.source import ReleaseFiles


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


def example_of(context: Context, release: ReleaseFiles) -> Example:
    """Return the middle cell of the first column that has margins."""
    facts, words, names = context.facts, context.words, context.names
    cell = next(_example_cells(release, facts), None)
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
    where = _cell_position_text(table, cell, words, names)
    first = Markup("{} {}: {}.").format(
        where, names.column(column), words.say("margin.value", **says)
    )
    sentences = [
        first,
        words.say(
            f"margin.range.{facts.limits_before_noise(table, column)}",
            low=low,
            high=high,
            confidence=words.percent(cell.one.confidence),
        ),
    ]
    if not facts.is_consistent(table):
        apart = math.sqrt(2.0) * cell.margin
        sentences.append(words.say("margin.differ", difference=number(float(f"{apart:.3g}"))))
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


def _example_cells(release: ReleaseFiles, facts: Facts) -> Iterator[_ExampleCell]:
    """Yield the middle cell of columns with margins, good examples first."""
    columns = [
        column_quality(facts, table, column)
        for table in release.metadata.tables_for_readers
        if facts.query_of(table) is not None
        for column in table.values
        if is_number(column)
    ]
    for one in sorted(columns, key=_example_order):
        yield from _middle_cell(release, one)


def _example_order(one: ColumnQuality) -> tuple[bool, bool]:
    """Return the order of columns as examples: published margins first, then identified cells."""
    return one.table.companion_of(one.column.name, Role.MARGIN) is None, not one.table.keys


def _middle_cell(release: ReleaseFiles, one: ColumnQuality) -> Iterator[_ExampleCell]:
    """Yield the middle cell among the first cells of a column that have a margin, if there is one.

    Cells whose value is larger than their margin are preferred.
    """
    table, name = one.table, one.column.name
    keys = [key.name for key in table.keys]
    needed = list(dict.fromkeys([*keys, *one.source_columns]))
    batch = next(iter(release.batches(table, needed)), None)
    if batch is None:
        return
    values, margins = to_floats(batch.column(name)), one.margins_of(batch)
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(margins) & (margins > 0))
    if not len(known):
        return
    sure = known[np.abs(values[known]) > margins[known]]
    known = sure if len(sure) else known
    order = known[np.argsort(values[known], kind="stable")]
    row = int(order[len(order) // 2])
    value, margin = float(values[row]), float(margins[row])
    low, high = (float(end[row]) for end in one.ends_of(batch))
    cell = {key: batch.column(key)[row].as_py() for key in keys}
    yield _ExampleCell(one, cell, value, margin, (low, high))
