"""Write the sheets of a workbook: a cover, contents, notes, and one sheet per table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dprelease.documents.manifest import CentralManifest
from dprelease.documents.metadata import Code, ColumnMetadata, Role, TableMetadata, code_text
from dprelease.exports.csv_tables.csv_text import plain_texts
from dprelease.exports.cubes import NOT_FINITE, suppressed_columns
from dprelease.exports.excel.book import Book, Cell, ExactNumber, SheetLink, exact_number
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import TableLayout
from dprelease.exports.names import (
    nonempty_properties,
    text_in_first_language,
    texts_in_first_language,
)

if TYPE_CHECKING:
    import pyarrow as pa

TITLE, NAME = 180, 48
"""Maximum characters of a title in a column's head, and of the name after it; Excel allows 255."""

LEFT_EMPTY, NO_VALUE = "[c]", "[x]"
SHORTHAND = {
    LEFT_EMPTY: "left empty: the noised value is below the declared threshold",
    NO_VALUE: "no value: not defined, such as a mean if the noised count is below 1",
}
"""Shorthands for cells without a number, as recommended for the UK government's analysts."""

ONE_TABLE = "This worksheet contains one table."


@dataclass(frozen=True, slots=True)
class TitledTable:
    """A table with the name of its sheet and its title."""

    sheet: str
    layout: TableLayout
    title: str


def write_sheets(book: Book, tables: Sequence[TableLayout], release: PublishedRelease) -> None:
    """Write all sheets of a release."""
    metadata = release.metadata
    names = [layout.table.name for layout in tables]
    titles = [
        text_in_first_language(layout.table.label, metadata) or layout.table.name
        for layout in tables
    ]
    titled = [
        TitledTable(f"Table {i}", layout, title)
        for i, (layout, title) in enumerate(
            zip(tables, unique_titles(titles, names), strict=True), 1
        )
    ]
    _write_cover(book, release)
    contents = [(SheetLink("Notes"), "Background of the numbers")]
    contents += [(SheetLink(one.sheet), one.title) for one in titled]
    _write_texts(book, "Contents", ("Worksheet", "Title"), contents)
    notes = list(note_rows(titled, release))
    _write_texts(book, "Notes", ("Note", "Worksheets", "Column", "Text"), notes)
    for one in titled:
        _write_table(book, one, release)


def _write_cover(book: Book, release: PublishedRelease) -> None:
    """Write the cover: the content, the contact, who is protected and how strongly."""
    record, metadata = release.central, release.metadata
    about = metadata.about
    properties = {
        "Published by": about.publisher,
        "Contact": about.contact,
        "Licence": about.licence,
        "Reference period": about.period,
        "Area": about.area,
        "Version": about.version,
        "Replaces": about.replaces,
        "Methodology": about.methodology,
    }
    units = [unit.words.removesuffix(".") for unit in record.privacy_unit]
    sentences = dict.fromkeys(sentence for text in units for sentence in text.split(". "))
    sections = {
        "": [text_in_first_language(about.description, metadata)],
        "About": [f"{name}: {text}" for name, text in nonempty_properties(properties).items()],
        "Who is protected": [f"{sentence}." for sentence in sentences],
        "How well": _guarantee_sentences(record),
        "What is not protected": record.unprotected_quantities,
        "Processing of the numbers": record.post_processing,
    }
    sheet = book.add_sheet("Cover", [46])
    sheet.add_text(about.heading(metadata.language), "title")
    for heading, texts in sections.items():
        lines = [text for text in texts if text]
        if heading and lines:
            sheet.add_text(heading, "head")
        for line in lines:
            sheet.add_text(line, "text")


def _guarantee_sentences(record: CentralManifest) -> list[str]:
    """Return sentences on epsilon and delta, and on their meaning for an attacker's guess."""
    parameters, reading = record.privacy_parameters, record.reading
    exact = record.guarantee.invariants
    but = f", except the values that are published exactly: {', '.join(exact)}" if exact else ""
    beliefs = ", ".join(
        f"{100 * one.prior:g} % to {100 * one.posterior:.3g} %" for one in reading.largest_posterior
    )
    return [
        f"Differential privacy with epsilon {float(parameters.epsilon):.4g} and delta "
        f"{float(parameters.delta):.4g}: noise was added to every number in every table{but}.",
        f"{reading.least_total_error_words} It is {reading.least_total_error:.3g}.",
        f"{reading.largest_posterior_words} From {beliefs}.",
    ]


def _write_texts(
    book: Book, name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Write a sheet with a table of texts."""
    sheet = book.add_sheet(name, [max(map(len, column)) for column in zip(*rows, strict=True)])
    sheet.add_text(name, "title")
    sheet.add_text(ONE_TABLE, "text")
    sheet.add_heads(heads, len(rows))
    for row in rows:
        sheet.add(row, ["text"] * len(row))


def _write_table(book: Book, titled: TitledTable, release: PublishedRelease) -> None:
    """Write the sheet of a table, row by row."""
    layout, language = titled.layout, release.metadata.language
    heads = unique_heads_of(layout, language)
    sheet = book.add_sheet(titled.sheet, [len(head) for head in heads])
    sheet.add_text(f"{titled.sheet}: {titled.title}", "title")
    for line in (ONE_TABLE, *_header_lines(titled, release)):
        sheet.add_text(line)
    sheet.add_heads(heads, layout.row_count or 0)
    empty = suppressed_columns(release, layout.table)
    columns = [column.metadata for column in layout.columns]
    labels = [value_labels(column, language) for column in columns]
    missing = [LEFT_EMPTY if column.name in empty else NO_VALUE for column in columns]
    formats = [_number_format(column) for column in columns]
    for batch in layout.batches(release):
        cells = map(_column_cells, batch.columns, columns, labels, missing)
        for row in zip(*cells, strict=True):
            sheet.add(row, formats)


def _header_lines(titled: TitledTable, release: PublishedRelease) -> Iterator[str]:
    """Yield the lines above a table on its sheet."""
    layout = titled.layout
    text = text_in_first_language(layout.table.description, release.metadata)
    if text:
        yield text
    if (
        layout.totals is not None and "/" not in layout.table.name
    ):  # in a folder, a step made the totals consistent
        yield "Totals have separate noise: the cells of a row need not add up to them."
    yield f"Shorthand: {'; '.join(f'{mark} {meaning}' for mark, meaning in SHORTHAND.items())}."


def value_labels(column: ColumnMetadata, language: str) -> dict[Code, str]:
    """Return the label of each value of a column; empty for a column without labels.

    If two values have the same label, each label is followed by the value's code.
    """
    if column.codes is None or not column.codes.labels:
        return {}
    labels = {code: column.codes.label(code, language) for code in column.codes.values}
    often = Counter(labels.values())
    return {
        code: label if often[label] == 1 else f"{label} ({code_text(code)})"
        for code, label in labels.items()
    }


def _column_cells(
    array: pa.Array, column: ColumnMetadata, labels: dict[Code, str], missing: str
) -> Iterator[Cell]:
    """Yield the cells of a column, one per row; `labels`: the labels of its values, if any."""
    if labels:
        yield from (missing if v is None else labels[v] for v in array.to_pylist())
    elif column.kind == "bool":
        yield from (missing if v is None else v for v in array.to_pylist())
    else:
        is_text = column.kind == "string" or column.kind.startswith("date")
        cell = str if is_text else ExactNumber if column.kind == "double" else exact_number
        none = {None} if is_text else {None, *NOT_FINITE}
        yield from (missing if v in none else cell(v) for v in plain_texts(array).to_pylist())


def _number_format(column: ColumnMetadata) -> str:
    """Return the number format of a column; empty for a key, which is not an amount."""
    if column.role == Role.KEY:
        return ""
    if column.decimals is None:
        return "#,##0" if column.kind == "int64" else ""
    return "#,##0." + "0" * column.decimals if column.decimals else "#,##0"


def unique_heads_of(layout: TableLayout, language: str) -> list[str]:
    """Return the unique heads of a table's columns.

    If columns have the same title, their names are added.
    """
    columns = layout.columns
    names = [column.name for column in columns]
    return unique_heads(
        unique_titles([c.title(layout.pivot_key, language) for c in columns], names)
    )


def unique_titles(titles: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return titles; a title that occurs twice is followed by the column's name."""
    often = Counter(title.casefold() for title in titles)
    return [
        title if often[title.casefold()] == 1 else f"{title[:TITLE]} ({name[:NAME]})"
        for title, name in zip(titles, names, strict=True)
    ]


def unique_heads(heads: Iterable[str]) -> list[str]:
    """Return heads that are unique for Excel, not empty and not too long."""
    taken: dict[str, str] = {}
    for i, head in enumerate(heads, 1):
        whole = head[: TITLE + NAME] or f"Column {i}"
        short, more = whole, i
        while short.casefold() in taken:
            short, more = f"{whole} ({more})", more + 1
        taken[short.casefold()] = short
    return list(taken.values())


def note_rows(tables: Sequence[TitledTable], release: PublishedRelease) -> Iterator[Sequence[str]]:
    """Yield the notes: shorthands, computation and processing of columns, footnotes.

    A note that applies to several tables appears once.
    """
    notes: dict[tuple[str, str], list[str]] = {}
    for mark, meaning in SHORTHAND.items():
        notes["", f"{mark}: {meaning}."] = []
    for note in release.metadata.about.notes:
        notes["", text_in_first_language(note, release.metadata)] = []
    for titled in tables:
        for column, text in _table_notes(titled.layout.table, release):
            notes.setdefault((column, text), []).append(titled.sheet)
    for number, ((column, text), sheets) in enumerate(notes.items(), 1):
        yield str(number), ", ".join(dict.fromkeys(sheets)), column, text


def _table_notes(table: TableMetadata, release: PublishedRelease) -> Iterator[tuple[str, str]]:
    """Yield the notes on a table and on its columns, each with its title."""
    metadata = release.metadata
    record = next(file for file in release.central.files if file.name == table.file)
    for note in table.footnotes:
        yield "", text_in_first_language(note, metadata)
    titles = [column.title(metadata.language) for column in table.columns]
    heads = unique_titles(titles, [column.name for column in table.columns])
    for column, head in zip(table.columns, heads, strict=True):
        texts = texts_in_first_language((column.description, *column.footnotes), metadata)
        if column.unit and column.role == Role.VALUE:
            texts.append(f"Unit: {column.unit}.")
        formula = record.computed.get(column.name, "")
        if formula not in ("", f"[{column.name}]"):
            texts.append(f"Computed from {formula}.")
        texts += record.post_processing.get(column.name, [])
        yield from ((head, text) for text in texts if text)
