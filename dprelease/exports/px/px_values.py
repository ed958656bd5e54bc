"""Write keywords and cells as the PX file format requires (AXIS-VERSION 2013).

A text stands in quotation marks, so it can't contain any. A long text is written in several lines,
each in quotation marks; a list is broken after a comma. Only names in parentheses can make a line
longer than 256 characters, because a line can't end between them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TextIO

from dprelease.documents.metadata import ColumnMetadata, Role, TableMetadata
from dprelease.exports.cubes import STATUS, Cube, displayed_decimals, stored_decimals
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import max_rows
from dprelease.query.quality import (
    BLANKS,
    CODES,
    FEW_PEOPLE,
    SUPPRESSED,
    UNDEFINED,
    UNSURE_DIVISOR,
)
from dprelease.schema.release_parts.about import UNDETERMINED

LINE = 256
"""Maximum characters of a line."""

TEXT = LINE - 3
"""Maximum characters of a name, or of a part of a text, which stand in quotation marks."""

ENGLISH = "en"
"""The language of a file if the release declares none; it is that of the fixed texts."""

TextsIn = Callable[[str], Iterable[str]]
"""A function that returns texts in a language of the release."""


class Keywords:
    """Writes keywords into a file, in every language of the release.

    `languages`: the languages; the first one is the main language of the file. `tags`: what follows
    a keyword in each language.
    """

    def __init__(self, file: TextIO, languages: Sequence[str]) -> None:
        self._file = file
        codes = language_codes(languages)
        self.tags = dict(zip(languages, ["", *(f"[{code}]" for code in codes[1:])], strict=True))

    def write(self, keyword: str, value: str, keys: Sequence[str] = ()) -> None:
        """Write a keyword without languages, whose value has no quotation marks."""
        self._write_lines(f"{keyword}{_in_parentheses(keys)}=", [value])

    def write_texts(self, keyword: str, texts: Sequence[str]) -> None:
        """Write a list of texts that is the same in all languages."""
        self._write_lines(f"{keyword}=", list(map(_quote, texts)))

    def write_texts_in(
        self, keyword: str, texts: TextsIn, keys: TextsIn = lambda _language: ()
    ) -> None:
        """Write a list of texts in each language; `keys`: the names in parentheses."""
        for language, tag in self.tags.items():
            if found := list(texts(language)):
                head = f"{keyword}{tag}{_in_parentheses(keys(language))}="
                self._write_lines(head, list(map(_quote, found)))

    def write_notes_in(
        self, keyword: str, notes: TextsIn, keys: TextsIn = lambda _language: ()
    ) -> None:
        """Write paragraphs in each language, as one text; `##` separates paragraphs."""
        for language, tag in self.tags.items():
            text = "##".join(
                "#".join(map(clean_text, note.splitlines())) for note in notes(language)
            )
            parts = [_quote(text[i : i + TEXT]) for i in range(0, len(text), TEXT)]
            if parts:
                head = f"{keyword}{tag}{_in_parentheses(keys(language))}="
                self._write_lines(head, parts, between="")

    def write_cells(self, cells: Iterable[str], per_row: int) -> None:
        """Write the cells of the cube, which end the file; a row of cells begins a line."""
        self._file.write("DATA=")
        length = 0
        for i, cell in enumerate(cells):
            length += 1 + len(cell)
            if i % per_row == 0 or length >= LINE:
                self._file.write(" \n" if i else "\n")
                length = len(cell)
            else:
                self._file.write(" ")
            self._file.write(cell)
        self._file.write(";\n")

    def _write_lines(self, head: str, parts: Sequence[str], between: str = ",") -> None:
        """Write a keyword and the parts of its value, as many in each line as fit."""
        lines = [head]
        for i, part in enumerate(parts, 1):
            piece = part + (between if i < len(parts) else ";")
            if len(lines[-1]) + len(piece) > LINE:
                lines.append("")
            lines[-1] += piece
        self._file.write("\n".join(lines) + "\n")


def unique_texts(texts: Iterable[str]) -> list[str]:
    """Return texts as different names that the format can hold, none of them empty."""
    taken: dict[str, None] = {}
    for text in texts:
        whole = clean_text(text)[:TEXT].strip() or "-"
        name, number = whole, 1
        # The format knows values by their texts, so that equal labels would be one value.
        while name in taken:
            number += 1
            ending = f" ({number})"
            name = whole[: TEXT - len(ending)] + ending
        taken[name] = None
    return list(taken)


def clean_text(text: str) -> str:
    """Return a text in one line, without the quotation marks that a PX file can't hold."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text.replace('"', "'"))


def plain_number(text: str) -> str:
    """Return a number without exponent."""
    # The format has no exponents.
    return f"{Decimal(text):f}" if "e" in text else text


def _quote(text: str) -> str:
    return f'"{clean_text(text)}"'


def _in_parentheses(names: Iterable[str]) -> str:
    quoted = ",".join(map(_quote, names))
    return f"({quoted})" if quoted else ""


def language_codes(languages: Sequence[str]) -> list[str]:
    """Return codes of languages: of two or three letters, or the whole tags if these differ."""
    short = [tag.partition("-")[0].lower() for tag in languages]
    # Two languages with equal short codes, such as pt and pt-BR, need their whole tags.
    codes = short if len(set(short)) == len(short) else languages
    return [ENGLISH if code == UNDETERMINED else code for code in codes]


MOST_CELLS = 2**31 - 1
"""Maximum number of cells of a file, because PxWeb counts them with 32 bits."""

NO_ROW = "."
DOTS = {UNDEFINED: "..", UNSURE_DIVISOR: "...", SUPPRESSED: "....", FEW_PEOPLE: "....."}
"""The text in a cell without a number, by quality code."""

RATED = tuple(code for code in CODES if code not in BLANKS)
"""The quality codes of values, which are numbered from 1."""

NO_LABEL = "0"
"""The cell of a value without a label in a column of labels, which are numbered from 1."""

CODED = (Role.QUALITY, Role.FLAG, Role.LABEL)
"""Roles of columns whose values are numbered, because cells can only be numbers."""

MOST_STORED, MOST_DISPLAYED = 15, 6
"""Maximum numbers of decimals in the keywords DECIMALS and SHOWDECIMALS."""

DISPLAYED_OF_FLOATS = 4
"""Displayed decimals of floating-point numbers without declared decimals, as in workbooks."""


def max_cells(table: TableMetadata) -> int | None:
    """Return the maximum number of cells of a table's cube; None if it has no known maximum.

    The cube of a single key without declared values has only the values in the rows.
    """
    sizes = [len(key.codes.values) for key in table.keys if key.codes is not None]
    if len(sizes) < len(table.keys):
        return None if len(table.keys) > 1 else (max_rows(table) or 0) * len(table.columns)
    return math.prod(sizes) * len(table.columns)


def measures_of(cube: Cube) -> tuple[ColumnMetadata, ...]:
    """Return the columns that are values of the content variable, in the order of the table.

    These are the numbers, and the qualities, labels and flags of numbers.
    """
    coded = [
        column
        for column in cube.table.of_role(*CODED)
        if column.role == Role.FLAG or any(column.of == one.name for one in cube.numbers)
    ]
    return tuple(one for one in cube.table.columns if one in cube.numbers or one in coded)


def coding_of(
    column: ColumnMetadata, table: TableMetadata, release: PublishedRelease
) -> dict[str, str]:
    """Return the cells of a column's values that are no numbers, by value."""
    if column.role == Role.QUALITY:
        numbers = {code: str(i) for i, code in enumerate(RATED, 1)}
        return numbers | {code: f'"{text}"' for code, text in DOTS.items()}
    if column.role == Role.FLAG:
        return {"false": "0", "true": "1"}
    labels: dict[str, None] = {}
    if column.role == Role.LABEL:
        for batch in release.batches(table, [column.name]):
            labels |= dict.fromkeys(batch.column(column.name).drop_null().to_pylist())
    return {label: str(i) for i, label in enumerate(labels, 1)}


def cells_of(
    cube: Cube,
    release: PublishedRelease,
    categories: Mapping[str, Sequence[Any]],
    codings: Sequence[Mapping[str, str]],
) -> Iterator[str]:
    """Yield every cell of a cube in order: a number, or dots in quotation marks.

    `categories`: the values of each key; `codings`: the coding of each measure.
    """
    at, columns = 0, cube.numbers
    total = len(columns) * math.prod(map(len, categories.values()))
    observations = cube.observations(release, categories)
    # One iterator, repeated: each step takes as many observations as a row has.
    for row in zip(*[observations] * len(columns), strict=True):
        # A cube lists all cells, also those between two rows of the table.
        yield from (f'"{NO_ROW}"' for _ in range(at, row[0].place))
        reasons = {
            column.of: one.status
            for column, one in zip(columns, row, strict=True)
            if column.role == Role.VALUE
        }
        for column, coding, one in zip(columns, codings, row, strict=True):
            yield _cell(one.text, column, coding, reasons.get(column.of, ""))
        at = row[-1].place + 1
    yield from (f'"{NO_ROW}"' for _ in range(at, total))


def _cell(text: str | None, column: ColumnMetadata, coding: Mapping[str, str], reason: str) -> str:
    """Return a cell; `reason`: the status of the value to which the column belongs."""
    if text is not None:
        return coding.get(text) or plain_number(text)
    if column.role == Role.LABEL:
        return NO_LABEL
    return f'"{DOTS.get(STATUS.get(reason, reason), DOTS[UNDEFINED])}"'


def stored_in_px(column: ColumnMetadata) -> int:
    """Return the number of stored decimals, at most as many as the format can declare."""
    decimals = stored_decimals(column)
    return MOST_STORED if decimals is None else min(MOST_STORED, decimals)


def displayed_in_px(column: ColumnMetadata) -> int:
    """Return the number of displayed decimals, at most as many as the format can declare."""
    decimals = displayed_decimals(column)
    return min(
        MOST_DISPLAYED, DISPLAYED_OF_FLOATS if decimals is None else decimals, stored_in_px(column)
    )
