"""Read CSV files: this module reads the header, and the engine reads the rows, as texts."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.reading.plain import TextDecoding, open_file
from dprelease.exact.reading.sources import (
    EngineCall,
    file_label,
    source_fields,
    stored_columns,
    unreadable_error,
)
from dprelease.exact.sources.text_files_reader import (
    BYTES_BESIDE_BUFFERS,
    TextFilesReader,
    plain_number_columns,
    struct_of_texts_sql,
)
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.schema.model import MOST_COLUMNS, unused_name
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.reading.dialect import DetectedFormat

HEADER_LIMIT = 1 << 20
LONGEST_RECORD = 1 << 26
CSV_BUFFER = 2 * LONGEST_RECORD
IMPOSSIBLE_TEXT = "\r"
"""A text that can't occur in a CSV file, because line feeds replace carriage returns before the
engine reads the file. So the engine takes no text for a missing value."""


class CsvReader(TextFilesReader):
    """Reads CSV files."""

    header_lines = 1
    keeps_carriage_returns = False

    def text_reader(self, declared: Declared, source: Source, files: Sequence[Path]) -> EngineCall:
        """Return the call of the engine that reads CSV files.

        Raises
        ------
        DataError
            DP-DATA-003 or 009 for a header that can't be read, 024 if the files have different
            headers.
        """
        header = _common_header(declared, source, files)
        plain_numbers = plain_number_columns(declared, source, header, has_plain_numbers=False)
        more = unused_name("dp_more", {name.casefold() for name in header})
        options, rows = (
            _options_sql(source, header, more),
            _rows_sql(declared, source, header, more),
        )
        return EngineCall(self.packing(source), "read_csv", options, plain_numbers, rows)

    def least_memory_bytes(self, sizes: Sequence[int], threads: int) -> int:
        """Return the bytes that all threads need: each reads one file at a time, in two buffers."""
        shares = sorted(min(size, 2 * CSV_BUFFER) + BYTES_BESIDE_BUFFERS for size in sizes)
        return sum(shares[-threads:])

    def form(self, file: Path) -> DetectedFormat:
        """Return the format of a file, detected from its first rows."""
        from dprelease.exact.reading.dialect import detect_csv_format

        return detect_csv_format(file)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all values of a file, read in the format that `init` proposes."""
        from pyarrow import csv

        form = self.form(file)
        source = Source.model_validate({"path": file.name, "format": "csv", **form.source})
        layouts = {kind.layout for kind in form.columns.values() if kind.layout is not None}
        cells = csv.read_csv(
            self.plain_text(file, source),
            parse_options=csv.ParseOptions(delimiter=source.separator, quote_char=source.quote),
            convert_options=csv.ConvertOptions(
                decimal_point=source.decimal,
                timestamp_parsers=[csv.ISO8601, *sorted(layouts)],
                null_values=[*csv.ConvertOptions().null_values, *source.nulls],
                column_types=_code_columns(form),
            ),
        )
        return _remove_null_texts(cells, source.nulls)


def _code_columns(form: DetectedFormat) -> dict[str, pa.DataType]:
    """Return the types of columns with codes, such as 007, which Arrow must read as texts."""
    import pyarrow as pa

    return {name: pa.string() for name, kind in form.columns.items() if kind.is_code}


def _remove_null_texts(held: pa.Table, nulls: Sequence[str]) -> pa.Table:
    """Return a table in which texts that stand for missing values are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pa.array(nulls, pa.string())
    for i, (name, column) in enumerate(zip(held.column_names, held.columns, strict=True)):
        if pa.types.is_string(column.type):
            known = pc.invert(pc.is_in(column, value_set=missing))
            held = held.set_column(i, name, pc.if_else(known, column, None))
    return held


def _common_header(declared: Declared, source: Source, files: Sequence[Path]) -> tuple[str, ...]:
    """Return the header of all files; raise DP-DATA-024 if the files have different headers."""
    first, *others = (tuple(_read_header(declared, source, file, files)) for file in files)
    for file, header in zip(files[1:], others, strict=True):
        if header != first:
            one, other = file_label(file, files), file_label(files[0], files)
            reason = f"the header of {one} is another than that of {other}"
            way = "use the same columns in the same order in all files"
            raise unreadable_error(declared, reason, way)
    return first


def _rows_sql(
    declared: Declared, source: Source, header: Sequence[str], more: str
) -> tuple[str, str]:
    """Return the SELECT list for lines, and the condition that a line is as long as the header.

    The engine itself accepts a line with one additional field if that field is empty. So it reads
    one more column, `more`, and distinguishes empty fields from absent fields: a line of the right
    length has the last field of the header, and no field after it. Only then are the texts in
    `nulls` replaced by missing values.
    """
    known = {name.casefold() for name in stored_columns(declared)}
    columns = [quoting.identifier(name) for name in header if name.casefold() in known]
    nulls = ", ".join(quoting.text(null) for null in source.nulls)
    values = [f"CASE WHEN {one} NOT IN ({nulls}) THEN {one} END AS {one}" for one in columns]
    replaced = f" REPLACE ({', '.join(values)})" if values else ""
    last, behind = quoting.identifier(header[-1]), quoting.identifier(more)
    return f"* EXCLUDE ({behind}){replaced}", f"{last} IS NOT NULL AND {behind} IS NULL"


def _options_sql(source: Source, header: Sequence[str], more: str) -> str:
    """Return the options of the engine's CSV function.

    `more`: the name of an additional column for cells beyond the last column of the header.
    """
    options = [
        f"columns = {struct_of_texts_sql([*header, more])}",
        "header = true",
        "auto_detect = false",
        f"delim = {quoting.text(source.separator)}",
        f"quote = {quoting.text(source.quote)}",
        f"escape = {quoting.text(source.quote)}",
        f"nullstr = {quoting.text(IMPOSSIBLE_TEXT)}",
        # A line with more fields, or with invalid bytes in columns that are read, is a missing row:
        # no line can stop a run or be quoted in a message. In non-strict mode a quote inside a
        # quoted text would open another one, which would swallow all following lines.
        "ignore_errors = true",
        "strict_mode = true",
        "null_padding = true",
        # In parallel, or longer than a buffer, a quoted text can be read as separate rows and lose
        # thousands of others: one person would decide about the rows of many.
        "parallel = false",
        f"max_line_size = {LONGEST_RECORD}",
        f"buffer_size = {CSV_BUFFER}",
        "compression = 'none'",
        "hive_partitioning = false",
    ]
    return ", ".join(options)


def _read_first_line(source: Source, file: Path) -> bytes:
    """Return the first line of a file in UTF-8, without decoding the rest of the file."""
    start = b""
    with open_file(file) as raw:
        for chunk in TextDecoding.of(source, keeps_carriage_returns=False).chunks(raw):
            start += chunk
            if b"\n" in chunk or len(start) >= HEADER_LIMIT:
                break
    line, end, _ = start.partition(b"\n")
    return (line + end)[:HEADER_LIMIT]


def _generate_missing_names(header: list[str]) -> list[str]:
    """Return the names in a header, with a generated name for each column without one.

    pandas writes an index as such a column. Empty names at the end of a header get no generated
    name: rows may be shorter than such a header, and all of these rows would be lost.
    """
    last = max((place for place, name in enumerate(header) if name), default=-1)
    return [
        name or (f"dp_unnamed_{place}" if place < last else "") for place, name in enumerate(header)
    ]


def _read_header(
    declared: Declared, source: Source, file: Path, files: Sequence[Path]
) -> list[str]:
    """Return the names in the header line; no other line is read."""
    failed = False
    header: list[str] = []
    try:
        first = _read_first_line(source, file).decode("utf-8-sig")
        rows = csv.reader([first], delimiter=source.separator, quotechar=source.quote, strict=True)
        header = _generate_missing_names(next(rows, []))
    except (OSError, ValueError, csv.Error):
        failed = True
    folded = [name.casefold() for name in header]
    if failed or not header or any("\0" in name or not name for name in header):
        raise DataError("DP-DATA-009", **source_fields(declared, file=file, files=files))
    if len(header) > MOST_COLUMNS:  # the engine takes much memory for each, read or not
        most = f"{MOST_COLUMNS:,}"
        raise DataError("DP-DATA-022", **source_fields(declared), most=most)
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            fault = DataError("DP-DATA-003", table=declared.table.name, column=name)
            if len(files) > 1:
                fault.add_file_to_cause(file_label(file, files))
            raise fault
    if len(set(folded)) < len(folded):
        raise DataError("DP-DATA-009", **source_fields(declared, file=file, files=files))
    return header


READER = CsvReader()
