"""Write the first section of a report: key figures, and each declared table with its picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from dprelease.documents.metadata import Metadata, TableMetadata
from dprelease.numerics.lattice import Floats
from dprelease.query.quality import AT_BOUND, SIGNS
from dprelease.report.facts import Facts, ReleaseFiles
from dprelease.report.numbers.cells import TableCells, all_values, read_cells
from dprelease.report.numbers.charts import MOST_BARS, Panel
from dprelease.report.numbers.number_texts import (
    NumberText,
    NumberTexts,
    full_range_note,
    limit_note,
    limits_rows,
    negative_note,
    reading_sentences,
)
from dprelease.report.numbers.panels import (
    distribution_panel,
    panels_of,
    series_places,
)
from dprelease.report.pictures import PageTable
from dprelease.report.section_context import Context

# Choose the tables that a report shows: one picture for each declared table, never all.

MOST_TABLES = 16
"""Maximum number of tables with pictures."""

MOST_OF_QUERY = 5
"""Maximum number of tables of one query with pictures, if it publishes several tables."""

FEW_ROWS = 400
"""Number of rows up to which a table of two keys and more is easily read."""

STAGES = ("tables", "", "estimates")
"""Folders of the tables of a family, in the order in which readers prefer them."""


@dataclass(frozen=True)
class TableSelection:
    """The tables of a release for a report.

    `totals`: tables without keys, for key figures. `pictured`: tables with pictures, by query.
    `others`: all further tables for readers.
    """

    totals: list[TableMetadata]
    pictured: list[tuple[str, list[TableMetadata]]]
    others: list[TableMetadata]


def select_tables(metadata: Metadata, facts: Facts) -> TableSelection:
    """Return which tables of a release are shown, and how."""
    by_query = list(_tables_by_query(metadata, facts))
    totals = [one for _, tables in by_query for one in tables if not one.keys]
    keyed = [(name, [one for one in tables if one.keys]) for name, tables in by_query]
    keyed = [(name, tables) for name, tables in keyed if tables]
    most = max(1, min(MOST_OF_QUERY, MOST_TABLES // max(1, len(keyed))))
    pictured = [(name, _readable(tables, most)) for name, tables in keyed[:MOST_TABLES]]
    shown = {one.name for _, tables in pictured for one in tables} | {one.name for one in totals}
    others = [one for one in metadata.tables_for_readers if one.name not in shown]
    return TableSelection(totals, pictured, others)


def _tables_by_query(metadata: Metadata, facts: Facts) -> Iterator[tuple[str, list[TableMetadata]]]:
    """Yield the tables of each query: of a family, those of the stage that readers prefer."""
    found: dict[str, list[TableMetadata]] = {}
    for table in metadata.tables_for_readers:
        if facts.query_of(table) is not None and any(one.is_number for one in table.values):
            found.setdefault(table.query, []).append(table)
    for query, tables in found.items():
        stages = {_stage(table) for table in tables}
        stage = next((one for one in STAGES if one in stages), min(stages))
        yield query, [table for table in tables if _stage(table) == stage]


def _stage(table: TableMetadata) -> str:
    """Return the folder of a table, which is that of a step's output."""
    return table.name.rpartition("/")[0]


def _readable(tables: Sequence[TableMetadata], most: int) -> list[TableMetadata]:
    """Return the tables of a query that are read most easily, in their order.

    Tables with few keys and few rows come first. Of tables with many areas, only one is shown, with
    the distribution of its values.
    """

    def effort(table: TableMetadata) -> tuple[bool, int, int]:
        """Return how hard a table is to read."""
        rows = table.rows or 0
        return rows > FEW_ROWS, len(table.keys), rows

    ranked = sorted(tables, key=effort)
    areas = [one for one in ranked if (one.rows or 0) > FEW_ROWS and len(one.keys) == 1][:1]
    small = [one for one in ranked if (one.rows or 0) <= FEW_ROWS]
    chosen = [*small[: most - len(areas)], *areas] or ranked[:1]
    names = {one.name for one in chosen}
    return [one for one in tables if one.name in names]


MOST_FIGURES = 6
"""Maximum number of key figures."""

MOST_READ = 200
"""Maximum number of rows that are kept of a table that is not read as a whole."""

LISTED = 60
"""Maximum number of listed further tables."""


@dataclass(frozen=True)
class TableValues:
    """The cells of the shown tables by name, and all values of columns whose rows are not drawn."""

    shown: TableSelection
    cells: Mapping[str, TableCells]
    values: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyFigure:
    """One number of the release in large type, with what it is and its table."""

    label: Markup
    where: Markup
    number: NumberText
    unit: Markup


@dataclass(frozen=True)
class TableSection:
    """One table of the page: its title, its notes, its pictures and its rows.

    `bounded`: the note below the pictures that limits keep its numbers from adding up, or nothing.
    """

    name: str
    title: Markup
    description: Markup
    notes: list[Markup]
    panels: list[Panel]
    bounded: Markup
    table: PageTable
    summary: Markup
    rest: Markup


@dataclass(frozen=True)
class NumbersSection:
    """The content of the first section, ready for the page."""

    lead: Markup
    reading: list[Markup]
    figures: list[KeyFigure]
    bounded: list[Markup]
    tables: list[TableSection]
    classes: list[tuple[str, str, Markup]]
    others: list[Markup]
    more: int


def read_tables(release: ReleaseFiles, facts: Facts) -> TableValues:
    """Return the cells of the tables that a report shows."""
    shown = select_tables(release.metadata, facts)
    tables = [*shown.totals, *(one for _, tables in shown.pictured for one in tables)]
    cells = {one.name: read_cells(release, facts, one, MOST_READ) for one in tables}
    values = {}
    for table in tables:
        if len(table.keys) == 1 and (table.rows or 0) > MOST_BARS:
            column = next(one for one in table.values if one.is_number)
            values[table.name] = all_values(release, table, column)
    return TableValues(shown, cells, values)


def numbers_section(context: Context, read: TableValues, agreeing: Sequence[str]) -> NumbersSection:
    """Return the content of the first section; `agreeing`: queries whose tables add up exactly."""
    tables = [one for _, of_query in read.shown.pictured for one in of_query]
    totals = [one for one in read.shown.totals if len(one.values) > 1]
    shown = [_table_section(context, read, one, i) for i, one in enumerate([*totals, *tables])]
    others = read.shown.others
    return NumbersSection(
        lead=context.words.say("numbers.lead", unit=context.protected_unit),
        reading=reading_sentences(context, [*read.cells.values()], agreeing),
        figures=_key_figures(context, read),
        bounded=_notes_on_figures(context, read),
        tables=shown,
        classes=_classes(context, read),
        others=[_other_table(context, one) for one in others[: min(LISTED, context.most)]],
        more=max(0, len(others) - min(LISTED, context.most)),
    )


def _key_figures(context: Context, read: TableValues) -> list[KeyFigure]:
    """Return the numbers of tables without keys; without these, of the smallest table."""
    found: list[KeyFigure] = []
    for table in read.shown.totals:
        cells = read.cells[table.name]
        together = series_places(cells)
        for place in (one for one in cells.numeric if cells.rows and one not in together):
            where = context.names.table(table)
            found.append(_key_figure(context, cells, 0, place, where))
    if found:
        return found[:MOST_FIGURES]
    pictured = [
        one for _, tables in read.shown.pictured for one in tables if read.cells[one.name].rows
    ]
    smallest = min(pictured, key=lambda one: (len(one.keys), one.rows or 0), default=None)
    if smallest is None:
        return []
    cells = read.cells[smallest.name]
    place = cells.numeric[0]
    values = [row.numbers[place].number or 0.0 for row in cells.rows]
    ranked = sorted(range(len(values)), key=lambda i: -values[i])[:4]
    for i in sorted(ranked):
        keys = zip(smallest.keys, cells.rows[i].keys, strict=True)
        where = Markup(" · ").join(context.names.value(key, code) for key, code in keys)
        found.append(_key_figure(context, cells, i, place, where))
    return found


def _key_figure(
    context: Context, cells: TableCells, row: int, place: int, where: Markup
) -> KeyFigure:
    one = cells.columns[place]
    texts = NumberTexts(context, one)
    return KeyFigure(
        context.names.column(one.column), where, texts.of(cells.rows[row].numbers[place]),
        texts.unit,
    )  # fmt: skip


def _table_section(
    context: Context, read: TableValues, table: TableMetadata, i: int
) -> TableSection:
    cells, words = read.cells[table.name], context.words
    panels = panels_of(context, cells)
    values = read.values.get(table.name)
    if values is not None and len(values):
        column = cells.columns[cells.numeric[0]]
        panels.insert(1, distribution_panel(context, column, values))
    shown = min(context.most, len(cells.rows))
    says = {"shown": words.number(shown), "all": words.number(cells.size)}
    file = context.names.name(table.file)
    rest = "numbers.rest.all" if shown == cells.size else "numbers.rest.some"
    if not cells.is_whole and shown < cells.size:
        rest = "numbers.rest.largest"
    return TableSection(
        name=f"t{i + 1}",
        title=context.names.table(table),
        description=context.names.paragraph(table.description),
        notes=_notes(context, cells),
        panels=panels,
        bounded=_bounded_note(context, table),
        table=_page_table(context, cells, shown),
        summary=words.many("numbers.table", cells.size),
        rest=words.say(rest, file=file, **says),
    )


def _bounded_note(context: Context, table: TableMetadata) -> Markup:
    """Return a sentence on the tables with which limits keep a table from adding up, if any."""
    others = context.facts.differently_bounded_with(table)
    if not others:
        return Markup("")
    return context.words.say("numbers.bounded")


def _notes_on_figures(context: Context, read: TableValues) -> list[Markup]:
    """Return sentences on limits that cut key figures, and on those that need not add up."""
    shown = {one.name for one in read.shown.totals if len(one.values) == 1}
    queries = [context.facts.query_of(one) for one in read.shown.totals]
    limited = [one for one in queries if one and limits_rows(one)]
    return [context.words.say("numbers.limited.figures")] * bool(limited) + [
        context.words.say("quality.totals.bounded", tables=context.titles_of(one.tables))
        for one in context.facts.central.differently_bounded
        if shown & {*one.tables}
    ]


def _notes(context: Context, cells: TableCells) -> list[Markup]:
    """Return the declared footnotes of a table, and notes on its numbers and on limits."""
    table = cells.table
    notes = [context.names.paragraph(note) for note in table.footnotes]
    for column in table.columns:
        notes += [context.names.paragraph(note) for note in column.footnotes]
    return [
        *negative_note(context, cells), *full_range_note(context, cells),
        *limit_note(context, table), *dict.fromkeys(notes),
    ][:12]  # fmt: skip


def _page_table(context: Context, cells: TableCells, shown: int) -> PageTable:
    """Return the first rows of a table, with an interval and a quality for each number."""
    names, words = context.names, context.words
    heads = [names.column(key) for key in cells.table.keys] or [words.say("numbers.all")]
    for one in cells.columns:
        heads.append(NumberTexts(context, one).title)
        if one.column.is_number:
            heads.append(words.say("numbers.head.margin", confidence=words.percent(one.confidence)))
        if one.quality_column is not None:
            heads.append(words.say("numbers.head.quality"))
    rows = []
    for row in cells.rows[:shown]:
        keys = zip(cells.table.keys, row.keys, strict=True)
        texts: list[object] = [names.value_with_code(key, code) for key, code in keys]
        texts = texts or [names.table(cells.table)]
        for one, number in zip(cells.columns, row.numbers, strict=True):
            text, is_cut = NumberTexts(context, one).of(number), number.quality == AT_BOUND
            texts.append(f"{text.value} {SIGNS[AT_BOUND]}" if is_cut else text.value)
            texts += [text.margin or text.interval or "–"] if one.column.is_number else []
            texts += [text.badge or text.label] if one.quality_column is not None else []
        rows.append(context.cells(*texts))
    return PageTable(names.table(cells.table), heads, rows, len(cells.table.keys))


def _classes(context: Context, read: TableValues) -> list[tuple[str, str, Markup]]:
    """Return the legend of quality classes and signs: the code, its letter or sign, its label."""
    columns = [one.quality_column for cells in read.cells.values() for one in cells.columns]
    rated = [(one, one.codes.values) for one in columns if one is not None and one.codes]
    if not rated:
        return []
    there = {
        number.quality
        for cells in read.cells.values()
        for row in cells.rows
        for number in row.numbers
    }
    codes = [str(code) for code in rated[0][1] if code in there]
    legend = []
    for code in codes:
        labels = dict.fromkeys(context.names.value(one, code) for one, _ in rated)
        legend += [(code, SIGNS.get(code, code), text) for text in labels]
    return legend


def _other_table(context: Context, table: TableMetadata) -> Markup:
    """Return the title of a table that is not shown, its number of rows and its file."""
    says = {
        "title": context.names.table(table),
        "file": context.names.name(table.file),
    }
    if table.rows is None:
        return context.words.say("numbers.other", number=context.words.number(None), **says)
    return context.words.many("numbers.other", table.rows, **says)
