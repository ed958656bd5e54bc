"""Write the sheets of a workbook: cover, contents, notes, one sheet per query, and an annex.

Everything that a reader needs is in the language of the workbook. The annex has the technical
sentences of the manifest, which are in English.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dprelease.exports.excel.annex import Note, annex_rows, rows_of_notes
from dprelease.exports.excel.book import Book, SheetLink
from dprelease.exports.excel.cells import TableCells, unique_titles
from dprelease.exports.excel.cover import reading_lines, write_cover
from dprelease.exports.excel.localization import WorkbookWords
from dprelease.exports.excel.sheet_tables import SheetTable
from dprelease.exports.export import PublishedRelease
from dprelease.exports.names import text_in
from dprelease.query.quality import CODES

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
    language = words.language
    sheets = {f"{words.say('table')} {i}": table for i, table in enumerate(tables, 1)}
    titles = [
        text_in(one.main.label, release.metadata, language) or one.main.query for one in tables
    ]
    titled = dict(
        zip(sheets, unique_titles(titles, [one.main.name for one in tables]), strict=True)
    )
    notes, annex = words.say("notes"), words.say("annex")
    write_cover(book, sheets, release, words, introduction)
    links = {notes: words.say("notes_title"), **titled, annex: words.say("annex_title")}
    contents = [(SheetLink(sheet), title) for sheet, title in links.items()]
    heads = [words.say("worksheet"), words.say("title")]
    _write_texts(book, words, words.say("contents"), words.say("contents"), heads, contents)
    heads = [words.say("worksheet"), words.say("column"), words.say("text")]
    rows = list(_note_rows(sheets, release, words))
    _write_texts(book, words, notes, links[notes], heads, rows)
    for name in sheets:
        _write_table(book, sheets, name, titled[name], release, words)
    rows = list(annex_rows(sheets, release, words.language))
    _write_texts(book, words, annex, links[annex], heads, rows)


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
    name: str,
    title: str,
    release: PublishedRelease,
    words: WorkbookWords,
) -> None:
    """Write the sheet of a table, row by row; below it, how to read it."""
    table = sheets[name]
    cells, language = TableCells(table, release, words), words.language
    sheet = book.add_sheet(name, [head.width for head in cells.heads])
    sheet.add_lines(f"{name}: {title}", "title")
    sheet.add_text(words.say("one_table"))
    description = text_in(table.main.description, release.metadata, language)
    if description:
        sheet.add_lines(description)
    sheet.add_heads([(head.text, head.style) for head in cells.heads], cells.key_columns)
    for row in cells.rows():
        sheet.add(row)
    sheet.end_table()
    sheet.add_text("")
    for line in reading_lines([table], words, cells.seen):
        sheet.add_lines(line)
    for text in _bounded_notes(sheets, release, words).get(name, []):
        sheet.add_lines(text)
    for column, text in dict.fromkeys(_table_notes(table, release, words)):
        sheet.add_lines(f"{column}: {text}" if column else text)


def _note_rows(
    sheets: Mapping[str, SheetTable], release: PublishedRelease, words: WorkbookWords
) -> Iterator[Sequence[str]]:
    """Yield the notes: how to read the numbers, then notes on the release, tables and columns."""
    for line in reading_lines(sheets.values(), words, CODES):
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
