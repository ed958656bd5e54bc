"""Read files of SPSS, Stata and SAS with pyreadstat (the extra `stata`).

A cell's value is the stored code, never its label. Codes that the file declares as missing are
missing. A number whose format is one of dates or times is a date or a timestamp.
"""

from __future__ import annotations

import datetime
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.errors import DataError
from dprelease.exact.detection.dialect import MOST_ROWS, detect_csv_format
from dprelease.exact.reading.cell_rows import CellRows, Row, cell_rows, wanted_columns
from dprelease.exact.reading.cell_texts import texts_of
from dprelease.exact.reading.sources import unreadable_error
from dprelease.exact.sources.cell_reader import CellReader
from dprelease.exact.sources.source_reader import TEXT_OR_NUMBER, Description
from dprelease.schema.load import Declared
from dprelease.schema.source_texts import UTF_8
from dprelease.schema.source_types.source import Source
from dprelease.statements.values.lossy_types import may_lose_values

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGE = "pyreadstat"
FUNCTIONS = {
    ".sav": "read_sav", ".zsav": "read_sav", ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat", ".xpt": "read_xport",
}  # fmt: skip
WITH_MISSING_CODES = ("read_sav", "read_dta", "read_sas7bdat")
TEXT = "string"
"""The name that the package has for the type of texts; all other types are numbers."""

ROWS_AT_ONCE = 1 << 17
RECORD = 80
"""Number of bytes of each record of a SAS transport file."""

SPSS_DAY, OTHER_DAY = datetime.datetime(1582, 10, 14), datetime.datetime(1960, 1, 1)
SECOND, DAY = datetime.timedelta(seconds=1), datetime.timedelta(days=1)
MILLISECOND = datetime.timedelta(milliseconds=1)
DATES_OF_SPSS = ("DATE", "ADATE", "EDATE", "SDATE", "JDATE")
TIMES_OF_SPSS = ("DATETIME", "YMDHMS")
DATES_OF_SAS = (
    "DATE", "DDMMYY", "MMDDYY", "YYMMDD", "E8601DA", "B8601DA", "IS8601DA", "WEEKDATE", "WORDDATE",
    "JULIAN", "MONYY", "YYMON",
)  # fmt: skip
TIMES_OF_SAS = ("DATETIME", "E8601DT", "B8601DT", "DATEAMPM", "IS8601DT")

Convert = Callable[[Any], object]


class StatPackageReader(CellReader):
    """Reads files of SPSS, Stata and SAS."""

    def rows(self, declared: Declared, source: Source, files: Sequence[Path]) -> CellRows:
        """Return the declared columns of files; reads only their metadata.

        Raises
        ------
        DataError
            DP-DATA-003 for names that differ only in case, 024 if the files have different columns,
            025 without the package pyreadstat.
        """
        _require_package(declared.table.name)
        described = [_metadata(file, source) for file in files]
        names = list(described[0].column_names)
        wanted = wanted_columns(declared, names)
        if any({*one.column_names} != {*names} for one in described):
            way = "use the same columns in all of them"
            raise unreadable_error(declared, "the files have different columns", way)
        nulls = frozenset(source.nulls)

        def read() -> Iterator[Row]:
            """Yield the wanted cells of each row, file by file."""
            for file, metadata in zip(files, described, strict=True):
                converted = [_conversion(name, file, metadata) for name in wanted]
                for columns in _chunks(file, source, wanted or names[:1]):
                    for cells in zip(*columns, strict=True):
                        yield [
                            _without_null(convert(cell), nulls)
                            for convert, cell in zip(converted, cells, strict=False)
                        ] or [None]

        return cell_rows(declared, wanted, read, _lossy_columns(declared, wanted, files, described))

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns of a file, with the labels of their codes.

        A column may have labels for the ends of a scale only, or for codes of missing values.
        """
        _require_package(file.name)
        source = Source.model_construct(path=file.name, format="stat_package")
        try:
            metadata = _metadata(file, source)
            kinds = metadata.readstat_variable_types  # a number can't be an id of type text
            columns = [
                (name, TEXT_OR_NUMBER if kinds.get(name) == TEXT else "integer")
                for name in metadata.column_names
            ]
            plain = Description(columns, header=tuple(metadata.column_names))
            declared = plain.declare_table(file)
            names = list(declared.table.columns)
            rows = islice(self.rows(declared, source, [file]).read(), MOST_ROWS)
            texts = [[text or "" for text in texts_of(row)] for row in rows]
        except OSError:
            return Description()
        form = detect_csv_format({}, names, texts, source, False)
        keys = {key: form.source[key] for key in form.source if key in source.type.options}
        seen = {name: {row[i] for row in texts} - {""} for i, name in enumerate(names)}
        labels = _labels_of_codes(metadata)
        some = {name: [*labels[name]] for name in labels if seen.get(name, set()) - {*labels[name]}}
        return replace(
            plain,
            source=keys,
            form=replace(form, source=keys),
            labels={name: labels[name] for name in labels if name not in some},
            titles={name: text or "" for name, text in metadata.column_names_to_labels.items()},
            some_labels=some,
        )


def _require_package(table: str) -> None:
    """Raise DP-DATA-025 without the package pyreadstat."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise DataError("DP-DATA-025", table=table, package=PACKAGE, extra="stata")


def _call(file: Path, source: Source, **options: Any) -> tuple[Mapping[str, list[Any]], Any]:
    """Return the columns and the metadata of a file; its exceptions, which quote it, are dropped.

    Raises
    ------
    OSError
        If the file can't be read.
    """
    package = importlib.import_module(PACKAGE)
    function = FUNCTIONS.get(file.suffix.lower(), "read_sav")
    if function == "read_xport":
        _refuse_cut_records(file)
    if function not in WITH_MISSING_CODES:
        options.pop("user_missing", None)
    if source.encoding != UTF_8:
        options["encoding"] = source.encoding
    found: tuple[Mapping[str, list[Any]], Any] | None = None
    try:
        found = getattr(package, function)(
            str(file), output_format="dict", disable_datetime_conversion=True, **options
        )
    except Exception:  # noqa: BLE001 - the package raises classes of its own, with words of the file
        found = None
    if found is None:
        raise OSError("it is no file of SPSS, Stata or SAS, or is incomplete")
    return found


def _refuse_cut_records(file: Path) -> None:
    """Raise OSError if a transport file ends inside a record; the package would lose its rows."""
    if file.stat().st_size % RECORD:
        raise OSError("it ends inside a record")


def _metadata(file: Path, source: Source) -> Any:
    """Return the metadata of a file: names, formats, labels and missing codes of its columns."""
    return _call(file, source, metadataonly=True, user_missing=True)[1]


def _chunks(file: Path, source: Source, names: Sequence[str]) -> Iterator[list[list[Any]]]:
    """Yield the cells of columns, so many rows at once."""
    offset = 0
    while True:
        limits = {"row_offset": offset, "row_limit": ROWS_AT_ONCE}
        found, _ = _call(file, source, usecols=list(names), **limits)
        columns = [found[name] for name in names]
        yield columns
        if len(columns[0]) < ROWS_AT_ONCE:
            return
        offset += ROWS_AT_ONCE


def _conversion(name: str, file: Path, metadata: Any) -> Convert:
    """Return the function that converts the stored cells of a column."""
    kind = metadata.readstat_variable_types.get(name)
    if kind == TEXT:
        return lambda cell: cell or None
    counted = _counted_time(name, file, metadata)
    if counted is not None:
        first, unit, is_day = counted
        return lambda cell: _moment(cell, first, unit, is_day=is_day)
    return _shortest_float if kind == "float" else lambda cell: cell


def _counted_time(
    name: str, file: Path, metadata: Any
) -> tuple[datetime.datetime, datetime.timedelta, bool] | None:
    """Return the origin and unit of a column of dates or times, and whether it has dates alone.

    Returns None for a column of other numbers.
    """
    layout = str(metadata.original_variable_types.get(name) or "").upper().lstrip("%")
    ending = file.suffix.lower()
    word = layout.rstrip("0123456789.")
    if ending in (".sav", ".zsav") and word in (*DATES_OF_SPSS, *TIMES_OF_SPSS):
        return SPSS_DAY, SECOND, word in DATES_OF_SPSS
    if ending == ".dta" and layout.startswith(("TD", "TC", "D", "-TD", "-TC")):
        is_day = "C" not in layout[:3]
        return OTHER_DAY, DAY if is_day else MILLISECOND, is_day
    if ending in (".sas7bdat", ".xpt") and word in (*DATES_OF_SAS, *TIMES_OF_SAS):
        is_day = word in DATES_OF_SAS
        return OTHER_DAY, DAY if is_day else SECOND, is_day
    return None


def _lossy_columns(
    declared: Declared, wanted: Sequence[str], files: Sequence[Path], described: Sequence[Any]
) -> dict[str, pa.DataType]:
    """Return columns of numbers and dates that have lost a declared spelling, such as 01.

    Each has the Arrow type for which a query that uses the column is refused. Numbers have the type
    of decimals: an id that a float can't hold exactly is a missing value.
    """
    import pyarrow as pa

    found: dict[str, pa.DataType] = {}
    for name in wanted:
        for file, metadata in zip(files, described, strict=True):
            if metadata.readstat_variable_types.get(name) == TEXT:
                continue
            is_date = _counted_time(name, file, metadata) is not None
            stored, kind = ("DATE", pa.date32()) if is_date else ("DECIMAL", pa.decimal128(38, 0))
            if may_lose_values(declared.table.columns[name], stored):
                found[name] = kind
    return found


def _moment(
    cell: Any, first: datetime.datetime, unit: datetime.timedelta, *, is_day: bool
) -> object:
    """Return the date or timestamp of a number of units since a day; None if there is none."""
    try:
        found = first + cell * unit
    except (TypeError, ValueError, OverflowError):
        return None
    return found.date() if is_day else found


def _shortest_float(cell: Any) -> object:
    """Return a 32-bit float, which stands for the shortest decimal number that it is stored for."""
    return np.float32(cell) if isinstance(cell, float) else cell


def _without_null(cell: object, nulls: frozenset[str]) -> object:
    """Return a cell; None if its text is one of the declared texts for missing values."""
    return None if texts_of([cell])[0] in nulls else cell


def _labels_of_codes(metadata: Any) -> dict[str, dict[str, str]]:
    """Return the labels of the codes that are no missing values, by column."""
    found = {}
    for name, labels in metadata.variable_value_labels.items():
        missing = {str(code) for code in metadata.missing_user_values.get(name, ())}
        ranges = [(one["lo"], one["hi"]) for one in metadata.missing_ranges.get(name, ())]
        found[name] = {
            (texts_of([code])[0] or ""): str(label)
            for code, label in labels.items()
            if str(code) not in missing and not any(_is_within(code, *ends) for ends in ranges)
        }
    return {name: labels for name, labels in found.items() if labels}


def _is_within(code: Any, low: Any, high: Any) -> bool:
    """Return whether a code is in a range of missing codes."""
    try:
        return bool(low <= code <= high)
    except TypeError:
        return False


READER = StatPackageReader()
