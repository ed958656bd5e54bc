"""Read sheets of workbooks, cell by cell: .xlsx with openpyxl (the extra `excel`), and .ods.

A cell's value is the stored value: a text, a number, a boolean, or a date or timestamp if its
number format says so. A cell with a formula counts as missing, even if the workbook stores its last
result, which may have been computed from other rows. Macros, links, names and pictures are not
opened.
"""

from __future__ import annotations

import datetime
import importlib.util
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, iterparse

from dprelease.errors.printable import one_line
from dprelease.exact.detection.csv_layout import KeyValue
from dprelease.exact.detection.dialect import MOST_ROWS, detect_cell_formats, detect_csv_format
from dprelease.exact.reading.cell_rows import (
    CellRows,
    Row,
    cell_rows,
    wanted_columns,
)
from dprelease.exact.reading.cell_texts import texts_of
from dprelease.exact.reading.merged_cells import MergedCells, merged_cells_of_part
from dprelease.exact.reading.open_documents import OpenSheet, sheet_names
from dprelease.exact.reading.packages import (
    UnreadableWorkbook,
    refuse_damaged,
    refuse_large_packages,
)
from dprelease.exact.reading.sources import unreadable_error
from dprelease.exact.sources.cell_reader import CellReader
from dprelease.exact.sources.sheet_headers import (
    Cells,
    FoundHeader,
    begins_with_values,
    find_header,
    has_second_row,
    header_names,
    merged_downwards,
    note_rows,
    refuse_unreadable_layout,
    rows_above_notes,
)
from dprelease.exact.sources.source_reader import TEXT_OR_NUMBER, Description
from dprelease.exact.sources.text_files_reader import names_below_note
from dprelease.schema.columns import Column, IntegerColumn, NumberColumn
from dprelease.schema.load import Declared
from dprelease.schema.source_texts import HeaderRows
from dprelease.schema.source_types.source import Source
from dprelease.statements.values.categories import EXACT
from dprelease.statements.values.written_texts import plain_number

FALSE_LEAP_DAY = 60
"""The day that Excel takes for 29 February 1900, which never existed."""

EMPTY_TEXT_ONLY = frozenset({""})

NO_NAMES = (
    "its first row looks like a row of values, which are not shown",
    "name the row with the column names with --header, or insert such a row",
)
"""The problem of a sheet for `init`, and the fix."""

MERGED_NOTE = (
    "Some cells span several rows: {names}. Only the first of these rows has their value; if it "
    "applies to all of them, add `merged: fill` to `source`."
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet of a workbook, and the data of the workbook to which its cells refer."""

    file: Path
    part: str
    texts: Sequence[str]
    epoch: datetime.datetime
    days: frozenset[int]
    """The styles of cells whose number is a date or a timestamp."""
    formulas: set[int] = field(default_factory=set)
    """The numbers of the columns in which a formula was found so far."""

    def rows(self) -> Iterator[tuple[int, Cells]]:
        """Yield the rows that have a value, each after its row number.

        Raises
        ------
        Unreadable
            If the sheet is damaged.
        """
        from openpyxl.worksheet._reader import ROW_TAG, WorkSheetParser

        number = 0
        with (
            refuse_damaged(),
            zipfile.ZipFile(self.file) as package,
            package.open(self.part) as raw,
        ):
            parser = WorkSheetParser(raw, self.texts, data_only=True)
            for _, element in iterparse(raw):
                if element.tag == ROW_TAG:
                    number = int(element.get("r") or number + 1)
                    # openpyxl counts from the last cell for cells that do not name their place.
                    parser.col_counter = 0
                    cells = dict(self._parse_cell(parser, cell) for cell in element)
                    # The tree would keep the elements of all rows in memory.
                    element.clear()
                    held = {i: cell for i, cell in cells.items() if cell is not None}
                    if held:
                        yield number, held

    def merged(self) -> Iterator[MergedCells]:
        """Yield the merged cells of the sheet."""
        return merged_cells_of_part(self.file, self.part)

    def _parse_cell(self, parser: Any, element: Element) -> tuple[int, object]:
        """Return the column number and the value of a cell.

        The value of an invalid cell is None, so that no cell can stop a run.
        """
        from openpyxl.worksheet._reader import FORMULA_TAG

        value: object = None
        try:
            found = parser.parse_cell(element)
            if element.find(FORMULA_TAG) is not None:
                self.formulas.add(parser.col_counter)
                return parser.col_counter, None
            is_own = found["data_type"] != "e"  # an error, such as #DIV/0!
            value = found["value"] if is_own else None
            if isinstance(value, int) and abs(value) >= EXACT:  # Excel wrote it as a float
                value = float(str(value))
            if found["data_type"] == "n" and found["style_id"] in self.days:
                value = self._to_date(value)
        except Exception:  # noqa: BLE001 - a cell may hold anything; only this cell is missing
            value = None
        return parser.col_counter, value

    def _to_date(self, number: Any) -> object:
        """Return the date or timestamp of a number of days; None if there is no such date."""
        from openpyxl.utils.datetime import WINDOWS_EPOCH, from_excel

        if number is None or number < 0:
            return None
        if self.epoch == WINDOWS_EPOCH and FALSE_LEAP_DAY <= number < FALSE_LEAP_DAY + 1:
            return None
        return from_excel(number, self.epoch)


class ExcelReader(CellReader):
    """Reads sheets of workbooks."""

    def rows(self, declared: Declared, source: Source, files: Sequence[Path]) -> CellRows:
        """Return the declared columns of one sheet of each workbook; reads only its header.

        Raises
        ------
        DataError
            DP-DATA-003 for names that differ only in case, DP-DATA-024 for a workbook that can't be
            read, whose header differs from the others, or that lacks its notes.
        """
        sheets = [_open_sheet(declared, file, source.sheet, source.header) for file in files]
        names = [list(columns) for _, _, columns in sheets]
        wanted = wanted_columns(declared, names[0])
        if any(set(others) != set(names[0]) for others in names):
            way = "use the same columns in all of them"
            raise unreadable_error(declared, "the files have different headers", way)
        values = [_cell_value(declared.table.columns[name], source) for name in wanted]
        refuse_unreadable_layout(declared, source, files, sheets)

        def read() -> Iterator[Row]:
            """Yield the wanted cells of each row below the header, sheet by sheet."""
            try:
                for sheet, header, columns in sheets:
                    places = [columns[name] for name in wanted]
                    for cells in rows_above_notes(sheet, header, source):
                        found = zip(values, map(cells.get, places), strict=True)
                        # A row counts also if no declared column is read from it.
                        yield [value(cell) for value, cell in found] or [None]
            except UnreadableWorkbook:
                raise OSError("the workbook is incomplete") from None

        return cell_rows(declared, wanted, read, {})

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns of a sheet, by its header, which may stand below title rows."""
        return self._described(file, table, None)

    def describe_below(self, file: Path, table: str | None, header: HeaderRows) -> Description:
        """Return the columns of a sheet whose header is in a known place."""
        return self._described(file, table, header)

    def _described(self, file: Path, table: str | None, header: HeaderRows | None) -> Description:
        """Return the columns of a sheet, with the types of its first cells."""
        try:
            names = tuple(read_sheet_list(file))
            if table is None and len(names) > 1:
                return Description(several=names)
            sheet = _sheet_of(file, table)
            found = find_header(sheet) if header is None else FoundHeader(header)
            if header is None and found.row == 1 and begins_with_values(sheet):
                return Description(problem=NO_NAMES)
            _, last, columns = sheet_columns(file, table, found.row)
            source: dict[str, Any] = {} if table is None else {"sheet": table}
            row = [*found.row] if isinstance(found.row, tuple) else found.row
            source |= {} if row == 1 else {"header": row}
            source |= {"footer": count} if (count := note_rows(sheet)) else {}
            described = [(name, TEXT_OR_NUMBER) for name in columns]
            notes = [found.note]
            if isinstance(found.row, int) and has_second_row(sheet, found.row):
                notes.append(names_below_note(found.row + 1))
            if merged := merged_downwards(sheet, last, columns):
                notes.append(MERGED_NOTE.format(names=one_line(", ".join(merged))))
            note = " ".join(filter(None, notes))
            plain = Description(described, source, tuple(columns), note=note)
            return self._with_form(plain, file, sheet.formulas)
        except UnreadableWorkbook as unread:
            return Description(problem=unread.args)
        except OSError:
            return Description()

    def _with_form(self, found: Description, file: Path, formulas: Collection[int]) -> Description:
        """Return a description with the types of the first cells, which are read as in a run."""
        declared = found.declare_table(file)
        source, names = declared.table.source, list(declared.table.columns)
        if source is None or not names:
            return found
        _, _, columns = sheet_columns(file, source.sheet, source.header)
        cells = islice(self.rows(declared, source, [file]).read(), MOST_ROWS)
        rows, separators = _plain_cells([*cells], names)
        form = detect_csv_format(dict(found.source), names, rows, source, False)
        keys = {**form.source, **separators}
        noted = [name for name in names if columns[name] in formulas]
        words = f"Cells with formulas count as missing: {one_line(', '.join(noted))}."
        return replace(
            found,
            source=keys,
            form=replace(form, source=keys),
            note=" ".join(filter(None, (found.note, words if noted else ""))),
        )


def read_sheet_list(file: Path) -> Mapping[str, Sheet | OpenSheet]:
    """Return the sheets of a workbook by name; reads none of them.

    Raises
    ------
    Unreadable
        If it is not a workbook, is protected, or is too large when unpacked.
    """
    if file.suffix.lower() == ".ods":
        with refuse_damaged():
            refuse_large_packages(file)
            return {name: OpenSheet(file, name) for name in sheet_names(file)}
    if importlib.util.find_spec("openpyxl") is None:
        raise UnreadableWorkbook(
            "the package openpyxl is not installed",
            "install the extra: pip install 'dprelease[excel]'",
        )
    from openpyxl.reader.excel import ExcelReader
    from openpyxl.styles.stylesheet import apply_stylesheet

    with refuse_damaged(), file.open("rb") as raw, warnings.catch_warnings():
        # openpyxl warns about parts that are not read, and may quote the file.
        warnings.simplefilter("ignore")
        refuse_large_packages(file)
        reader = ExcelReader(raw, read_only=True, data_only=True, keep_links=False)
        with reader.archive:
            reader.read_manifest()
            reader.read_strings()
            reader.read_workbook()
            book = reader.wb
            apply_stylesheet(reader.archive, book)
            days = frozenset(book._date_formats) - frozenset(book._timedelta_formats)
            return {
                str(sheet.name): Sheet(file, link.target, reader.shared_strings, book.epoch, days)
                for sheet, link in reader.parser.find_sheets()
                if link.Type.endswith("/worksheet") and link.target in reader.valid_files
            }


def sheet_columns(
    file: Path, name: str | None, header: HeaderRows | None
) -> tuple[Sheet | OpenSheet, int, dict[str, int]]:
    """Return a sheet, the row number of its header, and the number of each column that it names.

    `name`: the name of the sheet; None for the only sheet. `header`: the row number of the header,
    or of its rows, or one of its names; None for the first row.

    Raises
    ------
    Unreadable
        If the workbook can't be read or has no such sheet, or if its header has no names or has the
        same name twice.
    """
    sheet = _sheet_of(file, name)
    number, named = header_names(sheet, 1 if header is None else header)
    if not named:
        raise UnreadableWorkbook(
            "its header has no column names",
            "name the row that has them, or one of them: {path: ..., header: 3}, or --header 3 for "
            "`dprelease init`",
        )
    if len(dict(named)) < len(named):
        raise UnreadableWorkbook("its header has a name twice", "rename one of the columns")
    return sheet, number, dict(named)


def _sheet_of(file: Path, name: str | None) -> Sheet | OpenSheet:
    """Return the sheet of a workbook with a name; the only sheet if the name is None."""
    sheets = read_sheet_list(file)
    if name is None and len(sheets) > 1:
        raise UnreadableWorkbook(
            "it has several sheets", "name one: source: {path: ..., sheet: ...}"
        )
    sheet = next(iter(sheets.values()), None) if name is None else sheets.get(name)
    if sheet is None:
        raise UnreadableWorkbook("it has no sheet of that name", "write the exact name of a sheet")
    return sheet


def _open_sheet(
    declared: Declared, file: Path, name: str | None, header: HeaderRows | None
) -> tuple[Sheet | OpenSheet, int, dict[str, int]]:
    """Return a sheet, its header's row and the index of its columns, or raise a data error."""
    problem: UnreadableWorkbook | None = None
    try:
        return sheet_columns(file, name, header)
    except UnreadableWorkbook as found:
        problem = found
    raise unreadable_error(declared, *problem.args)


def _plain_cells(
    rows: Sequence[Row], names: Sequence[str]
) -> tuple[list[list[str]], dict[str, KeyValue]]:
    """Return cells as texts in which numbers are plain, and the separators of texts of numbers.

    Cells that are numbers have no separators, and don't show those of texts.
    """
    texts = {
        name: [cell if isinstance(cell := row[i], str) else "" for row in rows]
        for i, name in enumerate(names)
    }
    found, kinds = detect_cell_formats(texts, semicolons=False)
    separators = {key: found[key] for key in ("decimal", "thousands") if found[key]}
    decimal, thousands = str(found["decimal"] or "."), str(found["thousands"]) or None
    are_numbers = [kinds[name].name in ("integer", "number") for name in names]
    plain = [
        [
            plain_number(cell, decimal, thousands) if is_number and isinstance(cell, str) else cell
            for is_number, cell in zip(are_numbers, row, strict=True)
        ]
        for row in rows
    ]
    return [[text or "" for text in texts_of(row)] for row in plain], separators


def _cell_value(column: Column, source: Source) -> Callable[[object], object]:
    """Return a function of a stored cell that returns its value; None for a missing one.

    Texts of numbers with the separators of the source become plain; cells that are numbers stay.
    """
    nulls = frozenset(source.nulls)
    is_number = isinstance(column, IntegerColumn | NumberColumn)
    is_written = is_number and (source.decimal != "." or source.thousands is not None)

    def value(cell: object) -> object:
        # Only texts can be empty, so other cells need no conversion if `nulls` has no other text.
        is_text = isinstance(cell, str) or nulls <= EMPTY_TEXT_ONLY
        if (cell if is_text else texts_of([cell])[0]) in nulls:
            return None
        if is_written and isinstance(cell, str):
            return plain_number(cell, source.decimal, source.thousands)
        return cell

    return value


READER = ExcelReader()
