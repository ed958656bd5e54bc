"""Turn the rows of a sheet into cells: labels with codes, numbers with signs and quality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from dprelease.documents.limit_labels import companion_word
from dprelease.documents.metadata import ROWS_UNIT, Code, ColumnMetadata, Role, code_text
from dprelease.exports.csv_tables.csv_files import plain_texts
from dprelease.exports.cubes import NOT_FINITE, suppressed_columns
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import LayoutColumn
from dprelease.exports.workbooks.book import MOST_WIDTH, Cell, ExactNumber, Look, exact_number
from dprelease.exports.workbooks.sheet_tables import FIRST_ROLES, SheetTable, value_of
from dprelease.exports.workbooks.words import WorkbookWords
from dprelease.query.quality import AT_BOUND, BLANKS, FEW_PEOPLE, SIGNS, TO_AVOID, UNDEFINED
from dprelease.report.accuracy.quality import to_floats
from dprelease.report.facts import Facts

if TYPE_CHECKING:
    import pyarrow as pa


# Notes below a sheet on what its numbers are: below 0, raised to 0, or with ranges of no use.


class NumberNotes:
    """Which notes the numbers of a sheet need, from the batches that were read so far."""

    def __init__(self, sheet: SheetTable, facts: Facts) -> None:
        self._has_negative, self._full_ranges = False, dict[tuple[float, float], None]()
        self._is_raised = any(map(facts.is_integer_table, sheet.tables))
        values = ((table, column) for table in sheet.tables for column in table.values)
        pairs = [(table, column) for table, column in values if column.is_number]
        never = {column.name for table, column in pairs if facts.is_never_negative(table, column)}
        bounds = {column.name: facts.bounds_of(table, column) for table, column in pairs}
        self._never_negative = [one.name for one in sheet.columns if one.metadata.name in never]
        ends = {(value_of(one), one.metadata.role): one.name for one in sheet.columns}
        self._ends = [
            (name, ends[value, Role.UPPER], within)
            for (value, role), name in ends.items()
            if role == Role.LOWER and (within := bounds.get(value[-1])) is not None
        ]

    def read(self, batch: pa.RecordBatch) -> None:
        """Look for numbers below 0, and for ranges as wide as the bounds."""
        self._has_negative |= any(
            bool((to_floats(batch.column(name)) < 0.0).any()) for name in self._never_negative
        )
        for lower, upper, (least, most) in self._ends:
            low, high = (to_floats(batch.column(name)) for name in (lower, upper))
            if ((low <= least) & (high >= most)).any():
                self._full_ranges[least, most] = None

    def lines(self, words: WorkbookWords) -> Iterator[str]:
        """Yield the notes."""
        if self._is_raised:
            yield words.say("raised")
        if self._has_negative:
            yield words.say("negative")
        for least, most in self._full_ranges:
            low, high = (words.number(f"{end:g}") for end in (least, most))
            yield words.say("full_range", low=low, high=high)


TITLE, NAME = 180, 48
"""Maximum characters of a title in a column's head, and of the name after it; Excel allows 255."""

TOTAL_CODE = "_T"
"""Code of totals, as in the code lists of SDMX."""


LEAST_WIDTH, MOST_LINES = 11, 3
"""Minimum width of a column of numbers in characters, and lines of its head."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column, its width in characters, and the name of its style."""

    text: str
    width: int
    style: str = "head"


StyledCells = Iterator[tuple[Cell, Look]]
"""The cells of a column with their looks, one per row."""


class TableCells:
    """The heads and the cells of one sheet in one language.

    `seen`: the quality codes of the cells so far, those of signs included. `starts`: the number of
    rows before the first row of each table, by name of the table. `notes`: notes on the numbers.
    """

    def __init__(
        self, sheet: SheetTable, release: PublishedRelease, words: WorkbookWords, facts: Facts
    ) -> None:
        self._sheet, self._release, self._words = sheet, release, words
        self._emptied = {n for table in sheet.tables for n in suppressed_columns(release, table)}
        self._quality = {
            value_of(column): column.name
            for column in sheet.columns
            if column.metadata.role == Role.QUALITY
        }
        columns = [*sheet.keys, *(column.metadata for column in sheet.columns)]
        self._labels = {one.name: value_labels(one, words.language) for one in columns}
        self._count_units = count_units(release)
        self.seen: set[str] = set()
        self.starts: dict[str, int] = {}
        self.notes = NumberNotes(sheet, facts)

    @cached_property
    def heads(self) -> list[Head]:
        """Return the heads of all columns; the code of a key is next to its label."""
        language, sheet = self._words.language, self._sheet
        named: list[tuple[str, Head]] = []
        for key in sheet.keys:
            title, codes = key.title(language), key.codes
            labels = self._labels[key.name]
            texts: Iterable[str] = (
                labels.values() if labels else [] if codes is None else map(str, codes.values)
            )
            named.append((key.name, Head(title, _text_width(title, texts))))
            if labels:
                title = f"{title}, {companion_word('code', language)}"
                named.append(
                    (f"{key.name}.code", Head(title, _text_width(title, map(str, labels))))
                )
        for column in sheet.columns:
            title = self._column_title(column)
            style = "right head" if _is_number(column.metadata) else "head"
            style = "center head" if column.metadata.role == Role.QUALITY else style
            named.append((column.name, Head(title, _number_width(title), style)))
        titles = unique_titles([head.text for _, head in named], [name for name, _ in named])
        return [
            replace(head, text=text)
            for text, (_, head) in zip(unique_heads(titles), named, strict=True)
        ]

    @property
    def key_columns(self) -> int:
        """Return the number of columns with keys, their codes included."""
        return len(self.heads) - len(self._sheet.columns)

    def rows(self) -> Iterator[tuple[tuple[Cell, Look], ...]]:
        """Yield the cells of each row with their looks."""
        before = 0
        for batch in self._sheet.batches(self._release):
            for table, row in self._sheet.first_rows(batch).items():
                self.starts.setdefault(table, before + row)
            before += batch.num_rows
            self.notes.read(batch)
            columns: list[StyledCells] = []
            bold = self._bold_rows(batch)
            for key in self._sheet.keys:
                columns += self._key_cells(batch.column(key.name), key, bold)
            for column in self._sheet.columns:
                columns.append(self._column_cells(batch, column, bold))
            yield from zip(*columns, strict=True)

    def _column_title(self, column: LayoutColumn) -> str:
        """Return the title of a column in all its tables, with its confidence and its unit."""
        source, language = column.metadata, self._words.language
        label = common_title(list(self._sheet.titles(source.name, language)))
        titled = replace(column, metadata=replace(source, label={language: label}))
        title = titled.title(self._sheet.pivot_key, language)
        more = [f"{self._words.percent(source.confidence)} %"] if source.confidence else []
        more = [text for text in more if text not in title]
        more += [self._words.unit(source.unit)] if source.unit not in self._count_units else []
        return f"{title} ({', '.join(more)})" if more else title

    def _bold_rows(self, batch: pa.RecordBatch) -> list[bool]:
        """Return which rows are totals over all keys but the first one, or but the areas."""
        keys = self._sheet.keys
        areas = sum(1 for key in keys if key.codes is not None and key.codes.level)
        others = keys[areas or 1 :]
        if not others or not self._sheet.has_totals:
            return [False] * batch.num_rows
        columns = [batch.column(key.name).is_null().to_pylist() for key in others]
        return [all(row) for row in zip(*columns, strict=True)]

    def _key_cells(
        self, array: pa.Array, key: ColumnMetadata, bold: Sequence[bool]
    ) -> Iterator[StyledCells]:
        """Yield the cells of a key: its labels, or its values as they are; then codes of labels."""
        labels, total = self._labels[key.name], self._words.total
        long = any(len(label) > MOST_WIDTH for label in labels.values())
        looks = [Look(bold=one, wrap=long) for one in bold]
        first = [total if cell is None else cell for cell in plain_cells(array, key, labels)]
        yield zip(first, looks, strict=True)
        if labels:
            values = array.to_pylist()
            codes = [TOTAL_CODE if value is None else code_text(value) for value in values]
            yield ((code, Look(bold=one)) for code, one in zip(codes, bold, strict=True))

    def _column_cells(
        self, batch: pa.RecordBatch, column: LayoutColumn, bold: Sequence[bool]
    ) -> StyledCells:
        """Yield the cells of any other column; a number that is missing has a sign."""
        source, array = column.metadata, batch.column(column.name)
        quality = self._quality.get(value_of(column))
        codes = [None] * batch.num_rows if quality is None else batch.column(quality).to_pylist()
        self.seen |= {code for code in codes if code is not None}
        missing = FEW_PEOPLE if source.of in self._emptied else UNDEFINED
        shape, can_be_weak = number_format(source), source.role in FIRST_ROLES
        align = "center" if source.role == Role.QUALITY else ""
        labels = self._labels[source.name]
        for cell, code, is_bold in zip(
            plain_cells(array, source, labels), codes, bold, strict=True
        ):
            if cell is None:
                reason = code if code in BLANKS else missing
                self.seen.add(reason)
                yield SIGNS[reason], Look(bold=is_bold, align="right")
                continue
            if source.role == Role.QUALITY:
                cell = SIGNS.get(code, cell)
            is_cut = code == AT_BOUND and shape and source.role == Role.VALUE
            shown = f'{shape}" {SIGNS[AT_BOUND]}"' if is_cut else shape
            yield cell, Look(shown, can_be_weak and code in TO_AVOID, is_bold, align)


def count_units(release: PublishedRelease) -> set[str]:
    """Return the units of counts, which a head does not repeat: rows, and ids of privacy units."""
    return {"", ROWS_UNIT, *(unit.id for unit in release.central.privacy_unit if unit.id)}


def common_title(titles: Sequence[str]) -> str:
    """Return one title for several: the first parts that all have, then the others' rests.

    "Stays, at most 6 per patient" and "Stays, at most 2 per patient" give "Stays, at most 6 per
    patient / at most 2 per patient".
    """
    if len(titles) == 1:
        return titles[0]
    parts = [title.split(", ") for title in titles]
    same = takewhile(lambda part: len(set(part)) == 1, zip(*parts, strict=False))
    common = len(list(same))
    rests = [", ".join(one[common:]) for one in parts]
    return ", ".join([*parts[0][:common], " / ".join(filter(None, rests))])


def _is_number(column: ColumnMetadata) -> bool:
    """Return whether a column holds amounts, which are no codes."""
    return column.codes is None and column.is_number


def _text_width(title: str, texts: Iterable[str]) -> int:
    """Return the width of a column of texts: its longest text, and the longest word of its head."""
    return max(_longest_word(title), *map(len, texts), 0)


def _number_width(title: str) -> int:
    """Return the width of a column of numbers, whose head has few lines."""
    return max(LEAST_WIDTH, _longest_word(title), -(-len(title) // MOST_LINES))


def _longest_word(title: str) -> int:
    return max(map(len, title.split()), default=0)


def value_labels(column: ColumnMetadata, language: str) -> dict[Code, str]:
    """Return the label of each value of a column; empty for a column without labels.

    Codes of quality have no labels in cells. If two values of a column without a column of codes
    have the same label, each label is followed by the value's code.
    """
    if column.codes is None or not column.codes.labels or column.role == Role.QUALITY:
        return {}
    labels = {code: column.codes.label(code, language) for code in column.codes.values}
    often = Counter(labels.values())
    return {
        code: label
        if often[label] == 1 or column.role == Role.KEY
        else f"{label} ({code_text(code)})"
        for code, label in labels.items()
    }


def plain_cells(
    array: pa.Array, column: ColumnMetadata, labels: Mapping[Code, str]
) -> Iterator[Cell]:
    """Yield the cells of a column, None for missing values; `labels`: those of its values."""
    if labels:
        yield from (None if v is None else labels[v] for v in array.to_pylist())
    elif column.kind == "bool":
        yield from array.to_pylist()
    else:
        is_text = column.kind == "string" or column.kind.startswith(("date", "timestamp"))
        cell = str if is_text else ExactNumber if column.kind == "double" else exact_number
        none = {None} if is_text else {None, *NOT_FINITE}
        yield from (None if v in none else cell(v) for v in plain_texts(array).to_pylist())


def number_format(column: ColumnMetadata) -> str:
    """Return the number format of a column; empty for columns without amounts.

    Numbers without declared decimals have up to four decimals.
    """
    if not _is_number(column):
        return ""
    if column.decimals is not None:
        return "#,##0." + "0" * column.decimals if column.decimals else "#,##0"
    return "#,##0" if column.kind.startswith("int") else "#,##0.0###"


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
