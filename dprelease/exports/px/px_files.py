"""Write PX files (PC-Axis), the format of PxWeb databases: each table as a full cube of numbers.

The keys are the variables of the stub. The variable of the heading is the content variable, whose
values are the columns of the table: values, margins of error, and qualities as numbers. Cells
without a number have dots. The keywords are those of the PX file format (AXIS-VERSION 2013), and
VARIABLECODE, by which PxWeb stores the names of variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from dprelease.documents.limit_labels import UNIT_NOUNS, companion_word, in_language
from dprelease.documents.metadata import (
    Code,
    CodeList,
    ColumnMetadata,
    Metadata,
    Role,
    code_text,
)
from dprelease.exports.cubes import Cube, cube_of
from dprelease.exports.export import Export, Problem, PublishedRelease
from dprelease.exports.layout import long_layout
from dprelease.exports.names import create_parent_folder, texts_in
from dprelease.exports.px.px_values import (
    DOTS,
    MOST_CELLS,
    NO_ROW,
    RATED,
    TEXT,
    Keywords,
    TextsIn,
    cells_of,
    clean_text,
    coding_of,
    displayed_in_px,
    language_codes,
    max_cells,
    measures_of,
    stored_in_px,
    unique_texts,
)
from dprelease.exports.workbooks.cells import NumberNotes
from dprelease.exports.workbooks.cover import (
    about_lines,
    guarantee_lines,
    protection_lines,
    range_lines,
    reading_lines,
)
from dprelease.exports.workbooks.sheet_tables import SheetTable
from dprelease.exports.workbooks.sheets import table_title
from dprelease.exports.workbooks.words import WorkbookWords, release_words
from dprelease.postprocess.consistent.outputs import ESTIMATES, TABLES
from dprelease.query.quality import SIGNS, quality_labels
from dprelease.report.facts import Facts
from dprelease.schema.release_parts.limits import QUALITY_LIMITS

FOLDER = "px"
CREATED = "19700101 00:00"
"""The mandatory date of creation: a release has none, and its files don't depend on a clock."""

NAME = 20
"""Maximum characters of the name of a matrix."""

NO_VALUE = "-"
"""The only value of a key of a table without rows, because each variable must have a value."""

CONTENT = "measure"
"""The code of the content variable."""


class PxFiles(Export):
    """The format with one PX file for each table, in all languages of the release."""

    name = "px"

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield the tables that can't be full cubes, or a problem if no table has numbers."""
        tables = [table for table in metadata.tables_for_readers if cube_of(table)]
        if not tables:
            yield Problem("no table has readable numbers")
        for table in tables:
            cells = max_cells(table)
            if cells is None:
                reason = "only the run finds the values of its keys, of which a PX file has all"
                yield Problem(f"{reason} combinations", table.name)
            elif cells > MOST_CELLS:
                most = f"a PX file can have only {MOST_CELLS:,}"
                yield Problem(f"its cube has {cells:,} cells, but {most}", table.name)

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write a file for each table with readable numbers, and return the names of files."""
        languages = release.metadata.languages
        words = {language: release_words(release, language) for language in languages}
        facts = Facts(release.central)
        files = []
        for table in release.metadata.tables_for_readers:
            if (cube := cube_of(table)) is not None:
                name = f"{FOLDER}/{table.name}.px"
                path = create_parent_folder(folder / name)
                with path.open("w", encoding="utf-8", newline="") as file:
                    measures = replace(cube, numbers=measures_of(cube))
                    _PxFile(measures, release, words, facts).write(Keywords(file, languages))
                files.append(name)
        return files


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable and its values; `names` and `texts` are by language."""

    code: str
    names: Mapping[str, str]
    codes: Sequence[str]
    texts: Mapping[str, Sequence[str]]

    def name(self, language: str) -> list[str]:
        """Return the name, as the only element of a list."""
        return [self.names[language]]

    def value(self, position: int, language: str) -> list[str]:
        """Return the text of a value, as the only element of a list."""
        return [self.texts[language][position]]

    def name_and_value(self, position: int, language: str) -> list[str]:
        """Return the name of the variable and the text of a value."""
        return [self.names[language], self.texts[language][position]]


@dataclass(frozen=True)
class _PxFile:
    """The PX file of one table; `words`: the fixed texts by language."""

    cube: Cube
    release: PublishedRelease
    words: Mapping[str, WorkbookWords]
    facts: Facts

    def write(self, keywords: Keywords) -> None:
        """Write the keywords, and then the cells."""
        self._write_table(keywords)
        self._write_variables(keywords)
        self._write_measures(keywords)
        # All cells are computed twice, because keywords about their dots come before them in the
        # file.
        dots = {cell.strip('"') for cell in self._cells() if cell.startswith('"')}
        signs = {text: SIGNS[code] for code, text in DOTS.items()}
        self._write_notes(keywords, dots)
        for text in sorted(dots):
            sign = signs.get(text, text)
            keywords.write_texts_in(f"DATASYMBOL{len(text)}", _same(sign))
        keywords.write_cells(self._cells(), len(self.cube.numbers))

    def _write_table(self, keywords: Keywords) -> None:
        """Write the keywords of the file and of the table as a whole."""
        metadata, table = self.release.metadata, self.cube.table
        codes = language_codes(metadata.languages)
        keywords.write_texts("CHARSET", ["ANSI"])
        keywords.write_texts("AXIS-VERSION", ["2013"])
        keywords.write_texts("CODEPAGE", ["utf-8"])
        keywords.write_texts("LANGUAGE", codes[:1])
        if len(codes) > 1:
            keywords.write_texts("LANGUAGES", codes)
        keywords.write_texts("CREATION-DATE", [CREATED])
        keywords.write_texts("TABLEID", [table.name[:TEXT]])
        keywords.write("DECIMALS", str(max(map(stored_in_px, self.cube.numbers))))
        keywords.write("SHOWDECIMALS", str(min(map(displayed_in_px, self.cube.numbers))))
        keywords.write_texts("MATRIX", [_short_name(table.name)])
        keywords.write("AGGREGALLOWED", "NO")  # noise would add up, and margins of error would not
        keywords.write_texts("SUBJECT-CODE", [_short_name(table.query)])
        keywords.write_texts_in("SUBJECT-AREA", lambda tag: [metadata.about.heading(tag)[:TEXT]])
        titles = {tag: table_title(table, self.release, self.words[tag]) for tag in self.words}
        keywords.write_notes_in("TITLE", lambda tag: [": ".join(titles[tag])])
        keywords.write_texts_in("CONTENTS", lambda tag: [titles[tag][0][:TEXT]])
        keywords.write_texts_in("UNITS", _same("-"))

    def _write_variables(self, keywords: Keywords) -> None:
        """Write the variables with their values and codes."""
        *keys, content = variables = self._variables
        if keys:
            keywords.write_texts_in("STUB", lambda tag: [key.names[tag] for key in keys])
        keywords.write_texts_in("HEADING", content.name)
        keywords.write_texts_in("CONTVARIABLE", content.name)
        for one in variables:
            keywords.write_texts_in("VARIABLECODE", _same(one.code[:TEXT]), one.name)
            keywords.write_texts_in("VALUES", one.texts.__getitem__, one.name)
        for one in variables:  # PxWeb needs the codes in every language
            keywords.write_texts_in("CODES", partial(_codes, one), one.name)

    def _write_measures(self, keywords: Keywords) -> None:
        """Write the decimals, the unit and the other facts about each measure."""
        content, about = self._variables[-1], self.release.metadata.about
        least = min(map(displayed_in_px, self.cube.numbers))
        period = about.period.replace("/", " \N{EN DASH} ")
        for i, column in enumerate(self.cube.numbers):
            decimals = displayed_in_px(column)
            if decimals > least:
                for language, tag in keywords.tags.items():
                    names = content.name_and_value(i, language)
                    keywords.write(f"PRECISION{tag}", str(decimals), names)
            facts: dict[str, TextsIn] = {
                "UNITS": partial(self._unit, column),
                "CONTACT": _same(about.contact),
                "REFPERIOD": _same(period),
            }
            for keyword, texts in facts.items():
                keywords.write_notes_in(keyword, texts, partial(content.value, i))
        keywords.write_notes_in("SOURCE", _same(about.publisher))

    def _unit(self, column: ColumnMetadata, language: str) -> list[str]:
        """Return the unit of a column as the only element of a list; "-" without a unit.

        A declared unit has one text, which stands in every language, because PxWeb needs a unit in
        each.
        """
        if column.unit in UNIT_NOUNS:
            return [in_language(UNIT_NOUNS[column.unit], language)[1]]
        return [self.words[language].unit(column.unit) or "-"]

    def _write_notes(self, keywords: Keywords, dots: set[str]) -> None:
        """Write how to read the table, and what is said about it, its keys and its measures.

        `dots`: the texts in cells without a number.
        """
        metadata, table, variables = self.release.metadata, self.cube.table, self._variables
        keywords.write_notes_in("NOTEX", lambda tag: self._reading_notes(tag, dots))
        keywords.write_notes_in("NOTE", self._table_notes)
        for key, variable in zip(table.keys, variables, strict=False):
            texts = (key.description, *key.footnotes)
            keywords.write_notes_in("NOTE", partial(texts_in, texts, metadata), variable.name)
        for i, column in enumerate(self.cube.numbers):
            keywords.write_notes_in(
                "VALUENOTE",
                partial(self._measure_notes, i, column),
                partial(variables[-1].name_and_value, i),
            )

    @cached_property
    def _variables(self) -> list[_Variable]:
        """Return the keys, and last the content variable."""
        measures = self.cube.numbers
        variables: list[tuple[str, Callable[[str], str], list[str], TextsIn]] = [
            (key.name, key.title, list(map(code_text, values)), _value_texts(key, values))
            for key, values in zip(self.cube.table.keys, self._categories.values(), strict=True)
        ]
        variables.append(
            (
                CONTENT,
                lambda tag: companion_word(CONTENT, tag).capitalize(),
                [column.name for column in measures],
                lambda tag: [column.title(tag) for column in measures],
            )
        )
        names = {tag: unique_texts(title(tag) for _, title, *_ in variables) for tag in self.words}
        return [
            _Variable(
                code,
                {tag: names[tag][i] for tag in names},
                unique_texts(codes),
                {tag: unique_texts(texts(tag)) for tag in self.words},
            )
            for i, (code, _, codes, texts) in enumerate(variables)
        ]

    @cached_property
    def _categories(self) -> dict[str, Sequence[Any]]:
        """Return the values of each key; of a table without rows, one that stands for none."""
        found = self.cube.categories(self.release)
        return {name: values or [NO_VALUE] for name, values in found.items()}

    @cached_property
    def _codings(self) -> list[dict[str, str]]:
        table, measures = self.cube.table, self.cube.numbers
        return [coding_of(column, table, self.release) for column in measures]

    def _cells(self) -> Iterator[str]:
        return cells_of(self.cube, self.release, self._categories, self._codings)

    def _reading_notes(self, language: str, dots: set[str]) -> Iterator[str]:
        """Yield how to read the numbers and the dots of the table."""
        words, sheet = self.words[language], self._sheet
        yield from self._pair_notes(words)
        yield words.say("noise")
        yield from range_lines([sheet], words)
        yield from self._number_notes.lines(words)
        yield from reading_lines([sheet], words, ())
        labels = quality_labels(QUALITY_LIMITS, [language])
        for code, text in DOTS.items():
            if text in dots:
                yield f"{SIGNS[code]}: {labels[code][language]}."
        if NO_ROW in dots:
            yield f"{NO_ROW}: {words.say('no_row')}"

    def _pair_notes(self, words: WorkbookWords) -> Iterator[str]:
        """Yield whether to quote estimates or integer tables, for a table that has both."""
        folder, _, name = self.cube.table.name.rpartition("/")
        pairs = {ESTIMATES: (TABLES, "estimates_meaning"), TABLES: (ESTIMATES, "official_meaning")}
        other, meaning = pairs.get(folder, ("", ""))
        if any(table.name == f"{other}/{name}" for table in self.release.metadata.tables):
            yield words.say(meaning, file=f"{other}/{name}.px")

    @cached_property
    def _sheet(self) -> SheetTable:
        return SheetTable((long_layout(self.cube.table),))

    @cached_property
    def _number_notes(self) -> NumberNotes:
        """Return which notes the numbers of the table need."""
        notes = NumberNotes(self._sheet, self.facts)
        for batch in self._sheet.batches(self.release):
            notes.read(batch)
        return notes

    def _table_notes(self, language: str) -> Iterator[str]:
        """Yield the descriptions of the release and of the table, and who is protected and how."""
        metadata, table, words = self.release.metadata, self.cube.table, self.words[language]
        texts = (metadata.about.description, table.description, *table.footnotes)
        yield from texts_in(texts, metadata, language)
        yield from about_lines(metadata, words)
        yield from protection_lines({table.title(language): self._sheet}, self.facts, words)
        yield from islice(guarantee_lines(self.release, words), 1, None)  # the first is above

    def _measure_notes(self, position: int, column: ColumnMetadata, language: str) -> Iterator[str]:
        """Yield what is said about a column, and the meanings of its numbered values."""
        texts = (column.description, *column.footnotes)
        yield from texts_in(texts, self.release.metadata, language)
        for value, cell in self._codings[position].items():
            if column.role == Role.QUALITY and value in RATED and column.codes is not None:
                yield f"{cell} = {value}: {column.codes.label(value, language)}."
            elif column.role == Role.LABEL:
                yield f"{cell} = {value}"


def _value_texts(key: ColumnMetadata, values: Sequence[Code]) -> TextsIn:
    """Return a function that returns the labels of a key's values, or the values themselves."""
    codes = CodeList(values) if key.codes is None else key.codes
    return lambda language: [codes.label(value, language) for value in values]


def _codes(variable: _Variable, _language: str) -> Sequence[str]:
    return variable.codes


def _same(text: str) -> TextsIn:
    """Return a function that returns a text in every language, and nothing for an empty text."""
    return lambda _language: [text] if text else []


def _short_name(name: str) -> str:
    """Return a name of at most 20 characters; a longer name ends with a part of its digest."""
    plain = clean_text(name).replace("/", "_")
    return plain if len(plain) <= NAME else f"{plain[:13]}-{sha256(name.encode()).hexdigest()[:6]}"


EXPORT = PxFiles()
