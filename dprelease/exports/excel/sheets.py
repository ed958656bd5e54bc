"""Write the sheets of a workbook: cover, contents, notes, one sheet per query, and an annex.

Everything that a reader needs is in the language of the workbook. The annex has the technical
sentences of the manifest, which are in English.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from dprelease.documents.metadata import TableMetadata
from dprelease.exports.excel.annex import Note, annex_rows, rows_of_notes
from dprelease.exports.excel.book import Book, SheetLink
from dprelease.exports.excel.cells import TableCells, unique_titles
from dprelease.exports.excel.cover import reading_lines, write_cover
from dprelease.exports.excel.localization import WorkbookWords
from dprelease.exports.excel.sheet_tables import SheetTable
from dprelease.exports.export import PublishedRelease
from dprelease.exports.names import text_in
from dprelease.report.facts import Facts

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
class WrittenTable:
    """What a written sheet has: quality codes, and the row of each table's first row by name."""

    seen: Set[str]
    starts: Mapping[str, int]


def sheet_title(sheet: SheetTable, release: PublishedRelease, words: WorkbookWords) -> str:
    """Return the title of a sheet, which names all its tables."""
    titles = [_table_title(table, release, words) for table in sheet.from_few_keys]
    common, parts = titles[0][0], [part for _, part in titles]
    if len(titles) == 1:
        return text_in(sheet.main.label, release.metadata, words.language) or sheet.main.query
    if any(one != common for one, _ in titles):  # tables with titles of their own
        return "; ".join(one if one != common else f"{one}: {part}" for one, part in titles)
    return f"{common}: {'; '.join(parts)}"


def _table_title(
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
    written: WrittenTable,
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
        yield link, ": ".join(_table_title(table, release, words)), str(row)


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
) -> WrittenTable:
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
    return WrittenTable(cells.seen, {name: first + row for name, row in cells.starts.items()})


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
