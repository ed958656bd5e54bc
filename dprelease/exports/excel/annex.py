"""Write the annex of a workbook: guarantee, counted rows and computations, in English."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dprelease.documents.metadata import Role, TableMetadata
from dprelease.exports.catalogue.guarantee_words import guarantee_paragraph
from dprelease.exports.excel.cells import count_units
from dprelease.exports.excel.sheet_tables import SheetTable
from dprelease.exports.export import PublishedRelease
from dprelease.planning.treatments import TreatmentRecord, treatment_sentence
from dprelease.privacy.unit import Neighbours
from dprelease.schema.load import declaration_from_texts

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
