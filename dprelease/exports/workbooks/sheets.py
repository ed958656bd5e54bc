"""Write the sheets of a workbook: cover, contents, notes, one sheet per query, and an annex.

Everything that a reader needs is in the language of the workbook. The annex has the technical
sentences of the manifest, which are in English.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from dprelease.documents.metadata import Role, TableMetadata
from dprelease.exports.export import PublishedRelease
from dprelease.exports.names import text_in
from dprelease.exports.vocabularies import guarantee_paragraph
from dprelease.exports.workbooks.book import Book, SheetLink
from dprelease.exports.workbooks.cells import TableCells, count_units, unique_titles
from dprelease.exports.workbooks.cover import reading_lines, write_cover
from dprelease.exports.workbooks.sheet_tables import SheetTable
from dprelease.exports.workbooks.words import WorkbookWords
from dprelease.planning.treatments import TreatmentRecord, treatment_sentence
from dprelease.privacy.unit import Neighbours
from dprelease.report.facts import Facts
from dprelease.schema.load import declaration_from_texts

# Write the annex of a workbook: guarantee, counted rows and computations, in English.

Note = tuple[str, str]
"""The title of a column, or an empty text, and a sentence about it."""

GUESS = (
    "An attacker who knows all other data, and who guesses whether one given protected unit is in "
    "the data, is right at most {:g} % of the time. A coin is right 50 % of the time.",
    "An attacker who knows all other data, and who guesses which of two values one given protected "
    "unit has, is right at most {:g} % of the time. A coin is right 50 % of the time.",
)
"""Sentences on the best guess, for units that are added or removed, and that change values."""

NOT_PROTECTED = "What this guarantee does not protect:"
PROCESSING = "What is done to all numbers after the noise:"
COUNTED = "Which rows and values count, before contribution limits and noise:"


def annex_rows(
    sheets: Mapping[str, SheetTable], release: PublishedRelease, language: str
) -> Iterator[Sequence[str]]:
    """Yield the rows of the annex: sheets, title of a column, and a technical sentence."""
    record = release.central
    reading = record.reading
    beliefs = ", ".join(
        f"{100 * one.prior:g} % to {math.ceil(1000 * one.posterior) / 10:g} %"
        for one in reading.largest_posterior
    )
    yield "", "", guarantee_paragraph(record, with_units=False)
    yield from rows_of_notes(
        (name, ("", unit.words))
        for name, sheet in sheets.items()
        for unit in record.privacy_unit
        if unit.query in _queries_on(sheet)
    )
    right = math.ceil(1000 * (1 - reading.least_total_error / 2)) / 10
    yield "", "", GUESS[record.guarantee.neighbours == Neighbours.REPLACE.value].format(right)
    yield "", "", f"{reading.largest_posterior_words} From {beliefs}."
    lists = {NOT_PROTECTED: record.unprotected_quantities, PROCESSING: record.post_processing}
    for heading, sentences in lists.items():
        yield from (("", "", text) for text in ([heading, *sentences] if sentences else ()))
    yield "", "", COUNTED
    yield from rows_of_notes(_counting_notes(sheets, release))
    yield from rows_of_notes(
        (name, note)
        for name, sheet in sheets.items()
        for table in sheet.tables
        for note in _computation_notes(table, sheet, release, language)
    )


def rows_of_notes(notes: Iterable[tuple[str, Note]]) -> Iterator[Sequence[str]]:
    """Yield each note once, with the sheets to which it applies."""
    found: dict[Note, dict[str, None]] = {}
    for name, note in notes:
        found.setdefault(note, {})[name] = None
    for (column, text), names in found.items():
        yield ", ".join(names), column, text


def _queries_on(sheet: SheetTable) -> set[str]:
    """Return the names of the queries of a sheet's tables, each with its keys."""
    return {table.name.rpartition("/")[2] for table in sheet.tables}


def _counting_notes(
    sheets: Mapping[str, SheetTable], release: PublishedRelease
) -> Iterator[tuple[str, Note]]:
    """Yield for each sheet its condition, which rows count, and the treatment of each column."""
    held = release.central.declaration
    queries = declaration_from_texts(held.texts, held.release, held.variables).spec.queries
    for name, sheet in sheets.items():
        query = queries.get(sheet.main.query)
        if query is not None and query.where is not None:
            yield name, ("", f"Condition of the rows that count: {query.where}")
        for record in release.central.treatments:
            if record.query in _queries_on(sheet):
                yield from ((name, note) for note in _treatment_notes(record))


def _treatment_notes(record: TreatmentRecord) -> Iterator[Note]:
    """Yield which rows of a table count, and the treatment of each column in plain words."""
    yield "", record.rows
    if record.join is not None:
        yield "", record.join
    for column, text in record.columns.items():
        yield column, treatment_sentence(text)


def _computation_notes(
    table: TableMetadata, sheet: SheetTable, release: PublishedRelease, language: str
) -> Iterator[Note]:
    """Yield how the columns of a table on a sheet are computed and processed, in English."""
    shown = {column.metadata.name for column in sheet.columns}
    record = next(file for file in release.central.files if file.name == table.file)
    for column in table.columns:
        title, formula = column.title(language), record.computed.get(column.name, "")
        if column.role == Role.FLAG:
            if column.name in shown:
                yield title, f"Says {formula}."
            continue
        if column.unit not in count_units(release) and column.role == Role.VALUE:
            yield title, f"Unit: {column.unit}."
        if formula not in ("", f"[{column.name}]"):
            yield title, f"Computed from {formula}."
        yield from ((title, text) for text in record.post_processing.get(column.name, []))


TEXT_WIDTH = 100
"""Maximum width of a column of texts in characters."""


def write_sheets(
    book: Book,
    tables: Sequence[SheetTable],
    release: PublishedRelease,
    words: WorkbookWords,
    introduction: str = "",
) -> None:
    """Write all sheets of a workbook; `introduction`: the first text of the cover, if any."""
    sheets = {f"{words.say('table')} {i}": table for i, table in enumerate(tables, 1)}
    titles = [sheet_title(one, release, words) for one in tables]
    titled = dict(
        zip(sheets, unique_titles(titles, [one.main.name for one in tables]), strict=True)
    )
    notes, annex = words.say("notes"), words.say("annex")
    links = {notes: words.say("notes_title"), annex: words.say("annex_title")}
    # Texts before the tables say what occurs in them and where, so tables are written first.
    facts = Facts(release.central)
    raised = {name for name, one in sheets.items() if facts.is_integer_table(one.main)}
    with_estimates = raised or {*sheets}  # a workbook of estimates has no integer tables
    book.reserve_sheets([words.say("cover"), words.say("contents"), notes, *sheets, annex])
    written = {
        name: _write_table(
            book,
            sheets,
            (name, titled[name], introduction if name in with_estimates else ""),
            release,
            words,
            facts,
        )
        for name in sheets
    }
    seen = set[str]().union(*(one.seen for one in written.values()))
    write_cover(book, sheets, release, words, introduction, seen)
    contents = [(SheetLink(notes), links[notes], "")]
    for name, one in written.items():
        contents += _contents_of_sheet(name, titled[name], sheets[name], one, release, words)
    contents.append((SheetLink(annex), links[annex], ""))
    heads = [words.say("worksheet"), words.say("title"), words.say("row")]
    _write_texts(book, words, words.say("contents"), words.say("contents"), heads, contents)
    heads = [words.say("worksheet"), words.say("column"), words.say("text")]
    rows = list(_note_rows(sheets, release, words, seen))
    _write_texts(book, words, notes, links[notes], heads, rows)
    rows = list(annex_rows(sheets, release, words.language))
    _write_texts(book, words, annex, links[annex], heads, rows)


@dataclass(frozen=True, slots=True)
class SheetContents:
    """What a written sheet has: quality codes, and the row of each table's first row by name."""

    seen: Set[str]
    starts: Mapping[str, int]


def sheet_title(sheet: SheetTable, release: PublishedRelease, words: WorkbookWords) -> str:
    """Return the title of a sheet, which names all its tables."""
    titles = [table_title(table, release, words) for table in sheet.from_few_keys]
    common, parts = titles[0][0], [part for _, part in titles]
    if len(titles) == 1:
        return text_in(sheet.main.label, release.metadata, words.language) or sheet.main.query
    if any(one != common for one, _ in titles):  # tables with titles of their own
        return "; ".join(one if one != common else f"{one}: {part}" for one, part in titles)
    return f"{common}: {'; '.join(parts)}"


def table_title(
    table: TableMetadata, release: PublishedRelease, words: WorkbookWords
) -> tuple[str, str]:
    """Return the title of one table of several: that of its query, and its keys in words."""
    label = text_in(table.label, release.metadata, words.language) or table.query
    keys = ", ".join(key.title(words.language) for key in table.keys)
    if not keys:
        return label, words.say("in_all")
    return label.replace(f": {keys}", "", 1), words.say("by", keys=keys)


def _contents_of_sheet(
    name: str,
    title: str,
    sheet: SheetTable,
    written: SheetContents,
    release: PublishedRelease,
    words: WorkbookWords,
) -> Iterator[tuple[SheetLink, str, str]]:
    """Yield the lines of the contents about a sheet: one for each table that has own rows."""
    tables = [table for table in sheet.from_few_keys if table.name in written.starts]
    if len(tables) < 2:
        yield SheetLink(name), title, ""
        return
    for table in tables:
        link, row = SheetLink(name), written.starts[table.name]
        link.row = row
        yield link, ": ".join(table_title(table, release, words)), str(row)


def _write_texts(
    book: Book,
    words: WorkbookWords,
    name: str,
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> None:
    """Write a sheet with a table of texts."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    sheet = book.add_sheet(name, widths, most_width=TEXT_WIDTH)
    sheet.add_text(title, "title")
    sheet.add_text(words.say("one_table"))
    sheet.add_heads([(head, "head") for head in heads])
    for row in rows:
        sheet.add([(cell, "text") for cell in row])
    sheet.end_table()


def _write_table(
    book: Book,
    sheets: Mapping[str, SheetTable],
    named: tuple[str, str, str],
    release: PublishedRelease,
    words: WorkbookWords,
    facts: Facts,
) -> SheetContents:
    """Write a sheet, row by row; below it, how to read it. `named`: its name, title and note."""
    name, title, note = named
    table = sheets[name]
    cells, language = TableCells(table, release, words, facts), words.language
    sheet = book.add_sheet(name, [head.width for head in cells.heads])
    sheet.add_lines(f"{name}: {title}", "title")
    sheet.add_text(words.say("one_table"))
    description = text_in(table.main.description, release.metadata, language)
    if description:
        sheet.add_lines(description)
    sheet.add_heads([(head.text, head.style) for head in cells.heads], cells.key_columns)
    first = sheet.next_row
    for row in cells.rows():
        sheet.add(row)
    sheet.end_table()
    sheet.add_text("")
    for line in filter(None, [note, *cells.notes.lines(words)]):
        sheet.add_lines(line)
    for line in reading_lines([table], words, cells.seen):
        sheet.add_lines(line)
    for text in _bounded_notes(sheets, release, words).get(name, []):
        sheet.add_lines(text)
    for column, text in dict.fromkeys(_table_notes(table, release, words)):
        sheet.add_lines(f"{column}: {text}" if column else text)
    return SheetContents(cells.seen, {name: first + row for name, row in cells.starts.items()})


def _note_rows(
    sheets: Mapping[str, SheetTable],
    release: PublishedRelease,
    words: WorkbookWords,
    seen: Set[str],
) -> Iterator[Sequence[str]]:
    """Yield the notes: how to read the numbers, then notes on the release, tables and columns.

    `seen`: the quality codes of all cells.
    """
    for line in reading_lines(sheets.values(), words, seen):
        yield "", "", line
    bounded = _bounded_notes(sheets, release, words).values()
    for line in dict.fromkeys(line for lines in bounded for line in lines):
        yield "", "", line
    for note in release.metadata.about.notes:
        yield "", "", text_in(note, release.metadata, words.language)
    yield from rows_of_notes(
        (name, note)
        for name, table in sheets.items()
        for note in _table_notes(table, release, words)
    )


def _bounded_notes(
    sheets: Mapping[str, SheetTable], release: PublishedRelease, words: WorkbookWords
) -> dict[str, list[str]]:
    """Return for each sheet the notes on tables that limits keep from adding up, if any."""
    found: dict[str, list[str]] = {}
    for record in release.central.differently_bounded:
        queries = {
            name: {table.query for table in sheet.tables}
            for name, sheet in sheets.items()
            if any(table.name.rpartition("/")[2] in record.tables for table in sheet.tables)
        }
        here = {query for of_sheet in queries.values() for query in of_sheet}
        others = {  # tables of another workbook
            table.query: text_in(table.label, release.metadata, words.language) or table.query
            for table in release.metadata.tables_for_readers
            if table.name.rpartition("/")[2] in record.tables and table.query not in here
        }
        text = words.say("bounded", tables=", ".join([*queries, *others.values()]))
        for name in queries:
            found.setdefault(name, []).append(text)
    return found


def _table_notes(
    table: SheetTable, release: PublishedRelease, words: WorkbookWords
) -> Iterator[Note]:
    """Yield the notes on the tables of a sheet, and on their columns.

    If a column has different labels in several tables, such as other contribution limits, a note
    lists the keys of the tables with each label.
    """
    metadata, language = release.metadata, words.language
    for column in table.columns:
        titles = table.titles(column.metadata.name, language)
        for title, tables in titles.items() if len(titles) > 1 else ():
            keys = [", ".join(key.title(language) for key in one.keys) for one in tables]
            yield title, "; ".join(one or words.total for one in keys)
    for one in table.tables:
        for note in one.footnotes:
            yield "", text_in(note, metadata, language)
    for one in table.tables:
        for published in one.columns:
            for texts in (published.description, *published.footnotes):
                if texts:
                    yield published.title(language), text_in(texts, metadata, language)
