"""Write the sheets of a workbook: cover, contents, notes, and one per table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.metadata import Code, ColumnMetadata, Role, TableMetadata, code_text
from dprelease.exports.csv_tables.csv_text import plain_texts
from dprelease.exports.cubes import NOT_FINITE, suppressed_columns
from dprelease.exports.excel.excel_cells import escape_text, number_cell, text_cell
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import Laid
from dprelease.exports.names import in_first

if TYPE_CHECKING:
    import pyarrow as pa

WIDEST = 48
"""Maximum column width in characters; longer texts wrap."""

TITLE, NAME = 180, 48
"""Characters of a title, and of a name after it, in a column header; Excel allows 255."""

LEFT_EMPTY, NO_VALUE = "[c]", "[x]"
SHORTHAND = {
    LEFT_EMPTY: "left empty: the noised value is below the declared threshold",
    NO_VALUE: "no value: not defined, such as a mean if the noised count is below 1",
}
"""Shorthands in cells without a number, as the UK government's analysts agreed."""


@dataclass(frozen=True, slots=True)
class TitledTable:
    """A table with the name of its sheet and its title."""

    sheet: str
    laid: Laid
    title: str


class Book:
    """A workbook that is written sheet by sheet, row by row; `folder` holds temporary rows."""

    def __init__(self, folder: Path) -> None:
        from openpyxl import Workbook
        from openpyxl.styles import Alignment, Font, NamedStyle

        self._folder, self._tables = folder, 0
        self.workbook = Workbook(write_only=True)
        wrapped = Alignment(wrap_text=True, vertical="top")
        for name, font in (
            ("words", Font()),
            ("head", Font(bold=True)),
            ("title", Font(bold=True, size=14)),
        ):
            self.workbook.add_named_style(NamedStyle(name=name, font=font, alignment=wrapped))

    def __enter__(self) -> Book:
        """Return the book; if the block fails, unfinished sheets are discarded."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_more: object) -> None:
        """Close the streams that the library leaves open, to avoid messages at their deletion."""
        if kind is None:
            return
        for sheet in self.workbook.worksheets:
            for stream in (sheet._rows, getattr(sheet._writer, "xf", None)):
                if stream is not None:
                    with suppress(Exception):  # of the same disk, whose error is already reported
                        stream.close()

    def sheet(self, name: str, widths: Sequence[int]) -> Any:
        """Return a new sheet with columns of these widths; rows go to a file of the folder."""
        from openpyxl.utils import get_column_letter
        from openpyxl.worksheet import _writer

        sheet = self.workbook.create_sheet(name)
        for i, width in enumerate(widths, 1):
            sheet.column_dimensions[get_column_letter(i)].width = min(WIDEST, max(10, width + 2))
        # The library's own temporary files would remain after a run that is killed.
        path = str(self._folder / f".{len(self.workbook.worksheets)}.rows")
        _writer.ALL_TEMP_FILES.append(path)
        sheet._writer = _writer.WorksheetWriter(sheet, out=path)
        sheet._writer.write_top()
        return sheet

    def mark_up(self, sheet: Any, heads: Sequence[str], first: int, rows: int) -> None:
        """Mark up a table with its header in row `first`; an empty table is not marked up."""
        from openpyxl.utils import get_column_letter
        from openpyxl.worksheet.table import Table

        if not rows:
            return
        self._tables += 1
        ref = f"A{first}:{get_column_letter(len(heads))}{first + rows}"
        table = Table(displayName=f"Table_{self._tables}", ref=ref)
        table._initialise_columns()
        for column, head in zip(table.tableColumns, heads, strict=True):
            column.name = escape_text(head)
        table.autoFilter = None
        sheet.tables.add(table)  # `add_table` warns that columns have no names

    def words_table(
        self,
        name: str,
        heads: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        links: bool = False,
    ) -> None:
        """Write a sheet with a table of texts; `links`: rows link to the sheets they name."""
        from openpyxl.worksheet.hyperlink import Hyperlink

        held = list(rows)
        widths = [max((len(row[i]) for row in held), default=0) for i in range(len(heads))]
        sheet = self.sheet(name, widths)
        sheet.append([text_cell(sheet, name, "title")])
        sheet.append([text_cell(sheet, "This worksheet contains one table.", "words")])
        sheet.append([text_cell(sheet, head, "head") for head in heads])
        for row in held:
            cells = [text_cell(sheet, text, "words") for text in row]
            if links and cells[0] is not None:
                cells[0].hyperlink = Hyperlink(ref="", location=f"'{row[0]}'!A1")
            sheet.append(cells)
        self.mark_up(sheet, heads, 3, len(held))


def write_table(book: Book, titled: TitledTable, release: PublishedRelease) -> None:
    """Write the sheet of a table, row by row."""
    laid, metadata = titled.laid, release.metadata
    heads = heads_of(laid, metadata.language)
    sheet = book.sheet(titled.sheet, [len(head) for head in heads])
    lines = ["This worksheet contains one table.", *_header_lines(titled, release)]
    sheet.append([text_cell(sheet, f"{titled.sheet}: {titled.title}", "title")])
    for line in lines:
        sheet.append([text_cell(sheet, line)])
    sheet.append([text_cell(sheet, head, "head") for head in heads])
    empty = suppressed_columns(release, laid.table)
    told = [column.told for column in laid.columns]
    named = [values_named(column, metadata.language) for column in told]
    rows = 0
    for batch in laid.batches(release):
        columns = [
            _cells(sheet, array, column, names, LEFT_EMPTY if column.name in empty else NO_VALUE)
            for array, column, names in zip(batch.columns, told, named, strict=True)
        ]
        for row in zip(*columns, strict=True):
            sheet.append(list(row))
            rows += 1
    book.mark_up(sheet, heads, len(lines) + 2, rows)


def _header_lines(titled: TitledTable, release: PublishedRelease) -> Iterator[str]:
    """Yield the lines above a table."""
    laid = titled.laid
    text = in_first(laid.table.description, release.metadata)
    if text:
        yield text
    if laid.totals is not None and "/" not in laid.table.name:  # else a step made them agree
        yield "Totals have separate noise: the cells of a row need not add up to them."
    words = "; ".join(f"{mark} {meaning}" for mark, meaning in SHORTHAND.items())
    yield f"Shorthand: {words}."


def values_named(column: ColumnMetadata, language: str) -> dict[Code, str]:
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
    sheet: Any, array: pa.Array, column: ColumnMetadata, names: Mapping[Code, str], missing: str
) -> Iterator[Any]:
    """Yield the cells of a column, one per row; `names`: the labels of its values."""
    if names:
        values = array.to_pylist()
        yield from (text_cell(sheet, missing if v is None else names[v]) for v in values)
        return
    if column.kind == "bool":
        yield from (text_cell(sheet, missing) if v is None else v for v in array.to_pylist())
        return
    texts = plain_texts(array).to_pylist()
    if column.kind == "string" or column.kind.startswith("date"):
        yield from (text_cell(sheet, missing if text is None else text) for text in texts)
        return
    form, exact = _form(column), column.kind != "double"
    for text in texts:
        if text is None or text in NOT_FINITE:
            yield text_cell(sheet, missing)
        else:
            yield number_cell(sheet, text, form, exact=exact)


def _form(column: ColumnMetadata) -> str:
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
    taken: set[str] = set()
    made = []
    for i, head in enumerate(heads, 1):
        whole = head[: TITLE + NAME] or f"Column {i}"
        short, more = whole, i
        while short.casefold() in taken:
            short, more = f"{whole} ({more})", more + 1
        taken.add(short.casefold())
        made.append(short)
    return made


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
        for column, text in _notes_of(titled.laid.table, release):
            notes.setdefault((column, text), []).append(titled.sheet)
    for number, ((column, text), sheets) in enumerate(notes.items(), 1):
        yield str(number), ", ".join(dict.fromkeys(sheets)), column, text


def _notes_of(table: TableMetadata, release: PublishedRelease) -> Iterator[tuple[str, str]]:
    """Yield the notes of a table and of its columns, by their titles."""
    metadata = release.metadata
    record = next(file for file in release.record["files"] if file["name"] == table.file)
    for note in table.footnotes:
        yield "", in_first(note, metadata)
    titles = [column.title(metadata.language) for column in table.columns]
    heads = unique_titles(titles, [column.name for column in table.columns])
    for column, head in zip(table.columns, heads, strict=True):
        texts = [in_first(text, metadata) for text in (column.description, *column.footnotes)]
        if column.unit and column.role == Role.VALUE:
            texts.append(f"Unit: {column.unit}.")
        formula = record["computed"].get(column.name, "")
        if formula not in ("", f"[{column.name}]"):
            texts.append(f"Computed from {formula}.")
        texts += record["post_processing"].get(column.name, [])
        yield from ((head, text) for text in texts if text)
