"""Write the cover of a workbook: what it is, who is protected and how, and how to read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from dprelease.documents.limit_labels import CELL_NOUNS, ROW_NOUNS, companion_word, number_of
from dprelease.documents.metadata import ColumnMetadata, Metadata, Role
from dprelease.exports.export import PublishedRelease
from dprelease.exports.names import text_in
from dprelease.exports.workbooks.book import Book
from dprelease.exports.workbooks.cells import TOTAL_CODE, value_labels
from dprelease.exports.workbooks.sheet_tables import SheetTable
from dprelease.exports.workbooks.words import WorkbookWords
from dprelease.planning.bounded_words import cutting_limits
from dprelease.query.aggregates.aggregate import IDS
from dprelease.query.quality import (
    CODES,
    FEW_PEOPLE,
    SIGNS,
    TO_AVOID,
    UNDEFINED,
    quality_labels,
)
from dprelease.report.facts import Facts
from dprelease.schema.release_parts.limits import QUALITY_LIMITS

WIDTH, MOST_PAGES = 110, 2
"""Width of the cover's column in characters, and maximum number of printed pages."""

UNRATED = (FEW_PEOPLE, UNDEFINED)
"""Quality codes of empty cells in columns without a quality."""

PRIOR = 0.5
"""The prior belief whose largest posterior belief the cover states."""


def write_cover(
    book: Book,
    sheets: Mapping[str, SheetTable],
    release: PublishedRelease,
    words: WorkbookWords,
    introduction: str,
    seen: Iterable[str],
) -> None:
    """Write the cover.

    `sheets`: the tables by sheet. `introduction`: its first text, if any. `seen`: the quality codes
    of all cells.
    """
    about, language, tables = release.metadata.about, words.language, list(sheets.values())
    sections: dict[str, Iterable[str]] = {
        "": [introduction, text_in(about.description, release.metadata, language)],
        "about": about_lines(release.metadata, words),
        "protected": protection_lines(sheets, Facts(release.central), words),
        "guarantee": guarantee_lines(release, words),
        "reading": [*range_lines(tables, words), *reading_lines(tables, words, seen)],
    }
    sheet = book.add_sheet(words.say("cover"), [WIDTH], most_width=WIDTH, most_pages=MOST_PAGES)
    sheet.add_lines(about.heading(language), "title")
    for heading, texts in sections.items():
        lines = [text for text in texts if text]
        if heading and lines:
            sheet.add_text(words.say(heading), "section")
        for line in lines:
            sheet.add_text(line, "text")
    sheet.add_text("")
    sheet.add_text(words.say("further", annex=words.say("annex")), "text")


def about_lines(metadata: Metadata, words: WorkbookWords) -> Iterator[str]:
    """Yield the declared facts about a release."""
    about = metadata.about
    facts = {
        "publisher": about.publisher,
        "contact": about.contact,
        "period": about.period.replace("/", " \N{EN DASH} "),
        "area": about.area,
        "version": about.version,
        "replaces": about.replaces,
        "licence": about.licence,
        "methodology": about.methodology,
    }
    yield from (words.say(name, text=text) for name, text in facts.items() if text)
    for note in about.notes:
        yield text_in(note, metadata, words.language)


def protection_lines(
    sheets: Mapping[str, SheetTable], facts: Facts, words: WorkbookWords
) -> Iterator[str]:
    """Yield who is protected, and which of their records count."""
    units = facts.central.privacy_unit
    for id_ in dict.fromkeys(unit.id for unit in units):
        yield words.say(
            "protected_rows" if id_ is None else "protected_ids", id=words.unit(id_ or "")
        )
    limits: dict[tuple[str, int, int | None, int | None], dict[str, None]] = {}
    for name, sheet in sheets.items():
        published = {table.name.rpartition("/")[2] for table in sheet.tables}
        for unit in units:
            if unit.id is None or unit.query not in published:
                continue
            query = facts.queries[unit.query]
            counted = [part.aggregate.counted_kind for part in query.measurements]
            if cutting_limits(query, query.measurements) is None:
                continue
            people = {*counted} == {IDS}
            rows = None if people else unit.max_rows_per_group
            of = (unit.id, unit.max_groups, rows, None if people else unit.max_rows)
            limits.setdefault(of, {})[name] = None
    for (id_, groups, rows, most), names in limits.items():
        total = rows if most is None and groups == 1 else most
        limit = "limits" if total is None else "limits_of_all_rows"
        yield words.say(
            "limits_of_people" if rows is None else limit,
            id=words.unit(id_),
            groups=number_of(groups, CELL_NOUNS, words.fixed_language),
            rows=number_of(rows or 0, ROW_NOUNS, words.fixed_language),
            total=number_of(total or 0, ROW_NOUNS, words.fixed_language),
            sheets=", ".join(names),
        )


def guarantee_lines(release: PublishedRelease, words: WorkbookWords) -> Iterator[str]:
    """Yield what the noise does, and how much the numbers can reveal."""
    record = release.central
    parameters = record.privacy_parameters
    yield words.say("noise")
    for belief in record.reading.largest_posterior:
        if belief.prior == PRIOR:
            prior, posterior = words.bound(belief.prior), words.bound(belief.posterior)
            yield words.say("guess", prior=prior, posterior=posterior)
    yield words.say(
        "parameters",
        epsilon=words.parameter(parameters.epsilon),
        delta=words.parameter(parameters.delta),
    )
    if record.guarantee.invariants:
        yield words.say("exact", names=", ".join(record.guarantee.invariants))


def range_lines(sheets: Sequence[SheetTable], words: WorkbookWords) -> Iterator[str]:
    """Yield how to compare and add numbers; nothing without margins of error and intervals."""
    columns = [column for one in sheets for table in one.tables for column in table.columns]
    published = [
        Fraction(one.confidence)
        for one in columns
        if one.confidence and one.role in (Role.MARGIN, Role.LOWER)
    ]
    if any("/" not in one.main.name for one in sheets):  # in folders are consistent tables
        yield words.say("parts")
    if published:
        yield words.say("range")
        yield words.say("misses", one_in=round(1 / (1 - min(published))))
        yield words.say("differ")
        yield words.say("sums")


def reading_lines(
    sheets: Iterable[SheetTable], words: WorkbookWords, seen: Iterable[str]
) -> Iterator[str]:
    """Yield how to read the numbers of some sheets: margins, intervals, totals, classes, signs.

    `seen`: the quality codes that need an explanation.
    """
    read = list(sheets)
    columns = [column for one in read for table in one.tables for column in table.columns]
    for name, role in (("margin", Role.MARGIN), ("interval", Role.LOWER)):
        confidences = dict.fromkeys(c.confidence for c in columns if c.role == role)
        for confidence in filter(None, confidences):
            yield words.say(name, confidence=words.percent(confidence))
    with_totals = [one for one in read if one.has_totals]
    if any("/" not in one.main.name for one in with_totals):  # in folders are consistent tables
        yield words.say("own_noise")
    keys = [key for one in with_totals for key in one.keys]
    if any(value_labels(key, words.language) for key in keys):
        yield words.say("total_code", code=TOTAL_CODE)
    if any(column.metadata.role == Role.FLAG for one in read for column in one.columns):
        yield words.say("adjusted", column=companion_word("adjusted", words.fixed_language))
    yield from _class_lines(columns, words, set(seen))


def _class_lines(
    columns: Iterable[ColumnMetadata], words: WorkbookWords, seen: set[str]
) -> Iterator[str]:
    """Yield the quality codes and signs of columns with their labels; nothing without codes."""
    rated = [one.codes for one in columns if one.role == Role.QUALITY and one.codes is not None]
    defaults = quality_labels(QUALITY_LIMITS, [words.language])
    lines: dict[str, None] = {}
    for code in CODES:
        if code in seen and (rated or code in UNRATED):
            label = defaults[code][words.language]
            labels = [codes.label(code, words.language) for codes in rated] or [label]
            lines |= dict.fromkeys(f"{SIGNS.get(code, code)}: {label}." for label in labels)
    if lines:
        yield words.say("classes")
        yield from lines
    if rated and seen & {*TO_AVOID}:
        yield words.say("weak")
