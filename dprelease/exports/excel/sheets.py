"""Write the sheets of a workbook: cover, contents, notes, and one per table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dprelease.documents.manifest import CentralManifest
from dprelease.documents.metadata import Code, ColumnMetadata, Role, TableMetadata, code_text
from dprelease.exports.csv_tables.csv_text import plain_texts
from dprelease.exports.cubes import NOT_FINITE, suppressed_columns
from dprelease.exports.excel.book import Book, Cell, Link, Number, exact_number
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import Laid
from dprelease.exports.names import all_in_first, in_first, nonempty

if TYPE_CHECKING:
    import pyarrow as pa

TITLE, NAME = 180, 48
"""Characters of a title, and of a name after it, in a column header; Excel allows 255."""

LEFT_EMPTY, NO_VALUE = "[c]", "[x]"
SHORTHAND = {
    LEFT_EMPTY: "left empty: the noised value is below the declared threshold",
    NO_VALUE: "no value: not defined, such as a mean if the noised count is below 1",
}
"""Shorthands in cells without a number, as the UK government's analysts agreed."""

ONE_TABLE = "This worksheet contains one table."


@dataclass(frozen=True, slots=True)
class TitledTable:
    """A table with the name of its sheet and its title."""

    sheet: str
    laid: Laid
    title: str


def write_sheets(book: Book, tables: Sequence[Laid], release: PublishedRelease) -> None:
    """Write all sheets of a release."""
    metadata = release.metadata
    names = [laid.table.name for laid in tables]
    titles = [in_first(laid.table.label, metadata) or laid.table.name for laid in tables]
    titled = [
        TitledTable(f"Table {i}", laid, title)
        for i, (laid, title) in enumerate(zip(tables, unique_titles(titles, names), strict=True), 1)
    ]
    _write_cover(book, release)
    contents = [(Link("Notes"), "Background of the numbers")]
    contents += [(Link(one.sheet), one.title) for one in titled]
    _write_texts(book, "Contents", ("Worksheet", "Title"), contents)
    notes = list(note_rows(titled, release))
    _write_texts(book, "Notes", ("Note", "Worksheets", "Column", "Text"), notes)
    for one in titled:
        _write_table(book, one, release)


def _write_cover(book: Book, release: PublishedRelease) -> None:
    """Write what the workbook is, whom to contact, who is protected and how strongly."""
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
        "": [in_first(about.description, metadata)],
        "About": [f"{name}: {text}" for name, text in nonempty(properties).items()],
        "Who is protected": [f"{sentence}." for sentence in sentences],
        "How well": _guarantee(record),
        "What is not protected": record.unprotected_quantities,
        "Processing of the numbers": record.post_processing,
    }
    sheet = book.sheet("Cover", [46])
    sheet.add_text(about.heading(metadata.language), "title")
    for heading, texts in sections.items():
        lines = [text for text in texts if text]
        if heading and lines:
            sheet.add_text(heading, "head")
        for line in lines:
            sheet.add_text(line, "text")


def _guarantee(record: CentralManifest) -> list[str]:
    """Return epsilon and delta, and what they mean for an attacker's guess about a person."""
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
    sheet = book.sheet(name, [max(map(len, column)) for column in zip(*rows, strict=True)])
    sheet.add_text(name, "title")
    sheet.add_text(ONE_TABLE, "text")
    sheet.add_heads(heads, len(rows))
    for row in rows:
        sheet.add(row, ["text"] * len(row))


def _write_table(book: Book, titled: TitledTable, release: PublishedRelease) -> None:
    """Write the sheet of a table, row by row."""
    laid, language = titled.laid, release.metadata.language
    heads = heads_of(laid, language)
    sheet = book.sheet(titled.sheet, [len(head) for head in heads])
    sheet.add_text(f"{titled.sheet}: {titled.title}", "title")
    for line in (ONE_TABLE, *_header_lines(titled, release)):
        sheet.add_text(line)
    sheet.add_heads(heads, laid.rows or 0)
    empty = suppressed_columns(release, laid.table)
    columns = [column.metadata for column in laid.columns]
    labels = [value_labels(column, language) for column in columns]
    missing = [LEFT_EMPTY if column.name in empty else NO_VALUE for column in columns]
    formats = [_number_format(column) for column in columns]
    for batch in laid.batches(release):
        cells = map(_cells, batch.columns, columns, labels, missing)
        for row in zip(*cells, strict=True):
            sheet.add(row, formats)


def _header_lines(titled: TitledTable, release: PublishedRelease) -> Iterator[str]:
    """Yield the lines above a table."""
    laid = titled.laid
    text = in_first(laid.table.description, release.metadata)
    if text:
        yield text
    if laid.totals is not None and "/" not in laid.table.name:  # else a step made them agree
        yield "Totals have separate noise: the cells of a row need not add up to them."
    yield f"Shorthand: {'; '.join(f'{mark} {meaning}' for mark, meaning in SHORTHAND.items())}."


def value_labels(column: ColumnMetadata, language: str) -> dict[Code, str]:
    """Return the label of each value of a column with labels; empty for other columns.

    If two values have the same label, each is followed by its code.
    """
    if column.codes is None or not column.codes.labels:
        return {}
    labels = {code: column.codes.label(code, language) for code in column.codes.values}
    often = Counter(labels.values())
    return {
        code: label if often[label] == 1 else f"{label} ({code_text(code)})"
        for code, label in labels.items()
    }


def _cells(
    array: pa.Array, column: ColumnMetadata, labels: dict[Code, str], missing: str
) -> Iterator[Cell]:
    """Yield the cells of a column, one per row; `labels`: those of its values, if any."""
    if labels:
        yield from (missing if v is None else labels[v] for v in array.to_pylist())
    elif column.kind == "bool":
        yield from (missing if v is None else v for v in array.to_pylist())
    else:
        is_text = column.kind == "string" or column.kind.startswith("date")
        cell = str if is_text else Number if column.kind == "double" else exact_number
        none = {None} if is_text else {None, *NOT_FINITE}
        yield from (missing if v in none else cell(v) for v in plain_texts(array).to_pylist())


def _number_format(column: ColumnMetadata) -> str:
    """Return the number format of a column; none for a key, which is not an amount."""
    if column.role == Role.KEY:
        return ""
    if column.decimals is None:
        return "#,##0" if column.kind == "int64" else ""
    return "#,##0." + "0" * column.decimals if column.decimals else "#,##0"


def heads_of(laid: Laid, language: str) -> list[str]:
    """Return the unique headers of the columns of a table.

    Where columns share a title, their names are added.
    """
    columns = laid.columns
    names = [column.name for column in columns]
    return unique(unique_titles([c.title(laid.turned, language) for c in columns], names))


def unique_titles(titles: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return titles, with the name added to each title that occurs twice."""
    often = Counter(title.casefold() for title in titles)
    return [
        title if often[title.casefold()] == 1 else f"{title[:TITLE]} ({name[:NAME]})"
        for title, name in zip(titles, names, strict=True)
    ]


def unique(heads: Iterable[str]) -> list[str]:
    """Return headers that are unique to Excel, not empty and not too long."""
    taken: dict[str, str] = {}
    for i, head in enumerate(heads, 1):
        whole = head[: TITLE + NAME] or f"Column {i}"
        short, more = whole, i
        while short.casefold() in taken:
            short, more = f"{whole} ({more})", more + 1
        taken[short.casefold()] = short
    return list(taken.values())


def note_rows(tables: Sequence[TitledTable], release: PublishedRelease) -> Iterator[Sequence[str]]:
    """Yield the notes: shorthand, how columns are computed and processed, footnotes.

    A note that applies to several tables appears once.
    """
    notes: dict[tuple[str, str], list[str]] = {}
    for mark, meaning in SHORTHAND.items():
        notes["", f"{mark}: {meaning}."] = []
    for note in release.metadata.about.notes:
        notes["", in_first(note, release.metadata)] = []
    for titled in tables:
        for column, text in _table_notes(titled.laid.table, release):
            notes.setdefault((column, text), []).append(titled.sheet)
    for number, ((column, text), sheets) in enumerate(notes.items(), 1):
        yield str(number), ", ".join(dict.fromkeys(sheets)), column, text


def _table_notes(table: TableMetadata, release: PublishedRelease) -> Iterator[tuple[str, str]]:
    """Yield the notes of a table and of its columns, by their titles."""
    metadata = release.metadata
    record = next(file for file in release.central.files if file.name == table.file)
    for note in table.footnotes:
        yield "", in_first(note, metadata)
    titles = [column.title(metadata.language) for column in table.columns]
    heads = unique_titles(titles, [column.name for column in table.columns])
    for column, head in zip(table.columns, heads, strict=True):
        texts = all_in_first((column.description, *column.footnotes), metadata)
        if column.unit and column.role == Role.VALUE:
            texts.append(f"Unit: {column.unit}.")
        formula = record.computed.get(column.name, "")
        if formula not in ("", f"[{column.name}]"):
            texts.append(f"Computed from {formula}.")
        texts += record.post_processing.get(column.name, [])
        yield from ((head, text) for text in texts if text)
